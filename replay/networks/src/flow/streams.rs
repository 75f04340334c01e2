//! Streams: one message of each is in flight, and others wait behind it.
//!
//! Streams are kept after their first message, as programs reuse few of them. Used by networks of flows.

use std::collections::VecDeque;

use super::{Queued, Stream};

/// The number of a stream, in the order of first use.
pub(super) type StreamNumber = u32;

/// A stream.
#[derive(Debug)]
struct Line {
    of: Stream,
    /// True if a message is in flight.
    busy: bool,
    behind: VecDeque<Queued>,
}

/// All streams.
#[derive(Debug)]
pub(super) struct Streams {
    lines: Vec<Line>,
    /// By sender: receivers and streams, in order, with numbers.
    of: Vec<Vec<((u32, u64), StreamNumber)>>,
}

impl Streams {
    /// Creates an empty set of streams between this number of hosts.
    pub(super) fn of_hosts(hosts: u32) -> Self {
        Self {
            lines: Vec::new(),
            of: vec![Vec::new(); hosts as usize],
        }
    }

    /// Returns the number of a stream.
    pub(super) fn number(&mut self, stream: Stream) -> StreamNumber {
        let (from, to, number) = stream;
        let own = &mut self.of[from as usize];
        match own.binary_search_by_key(&(to, number), |(key, _)| *key) {
            Ok(at) => own[at].1,
            Err(at) => {
                let new = self.lines.len() as StreamNumber;
                own.insert(at, ((to, number), new));
                self.lines.push(Line {
                    of: stream,
                    busy: false,
                    behind: VecDeque::new(),
                });
                new
            }
        }
    }

    /// Returns the stream of a number.
    pub(super) fn of(&self, number: StreamNumber) -> Stream {
        self.lines[number as usize].of
    }

    /// Adds a message to a stream. Returns it if it can begin; otherwise, it waits behind others.
    pub(super) fn enqueue(&mut self, number: StreamNumber, message: Queued) -> Option<Queued> {
        let line = &mut self.lines[number as usize];
        if std::mem::replace(&mut line.busy, true) {
            line.behind.push_back(message);
            return None;
        }
        Some(message)
    }

    /// Removes the stream's message in flight, which has left, and returns the next, which is to begin.
    pub(super) fn next(&mut self, number: StreamNumber) -> Option<Queued> {
        let line = &mut self.lines[number as usize];
        let next = line.behind.pop_front();
        line.busy = next.is_some();
        next
    }

    /// Returns streams with a message in flight, in order, with the messages behind it.
    pub(super) fn busy(&self) -> impl Iterator<Item = (Stream, impl Iterator<Item = &Queued>)> {
        let all = self.of.iter().flatten();
        let lines = all.map(|(_, number)| &self.lines[*number as usize]);
        lines
            .filter(|line| line.busy)
            .map(|line| (line.of, line.behind.iter()))
    }

    /// Restores a stream with a message in flight, and these behind it.
    pub(super) fn occupy(&mut self, stream: Stream, behind: VecDeque<Queued>) {
        let number = self.number(stream);
        let line = &mut self.lines[number as usize];
        (line.busy, line.behind) = (true, behind);
    }
}
