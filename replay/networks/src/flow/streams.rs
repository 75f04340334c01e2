//! Streams: one message of each is under way, and others wait behind it.
//!
//! Streams stay known once they had a message, as programs use few of them again and again. Used by networks of flows.

use std::collections::VecDeque;

use super::{Queued, Stream};

/// The number of a stream, in the order of first use.
pub(super) type StreamNumber = u32;

/// A stream.
#[derive(Debug)]
struct Line {
    of: Stream,
    /// A message is under way.
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
    /// No streams, between so many hosts.
    pub(super) fn of_hosts(hosts: u32) -> Self {
        Self {
            lines: Vec::new(),
            of: vec![Vec::new(); hosts as usize],
        }
    }

    /// The number of a stream.
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

    /// The stream of a number.
    pub(super) fn of(&self, number: StreamNumber) -> Stream {
        self.lines[number as usize].of
    }

    /// A message of a stream is to leave: it is given back if it is to begin, and else waits behind others.
    pub(super) fn enqueue(&mut self, number: StreamNumber, message: Queued) -> Option<Queued> {
        let line = &mut self.lines[number as usize];
        if std::mem::replace(&mut line.busy, true) {
            line.behind.push_back(message);
            return None;
        }
        Some(message)
    }

    /// The message of a stream that was under way has left: the next, which is to begin.
    pub(super) fn next(&mut self, number: StreamNumber) -> Option<Queued> {
        let line = &mut self.lines[number as usize];
        let next = line.behind.pop_front();
        line.busy = next.is_some();
        next
    }

    /// Streams with a message under way, in order, with those behind it.
    pub(super) fn busy(&self) -> impl Iterator<Item = (Stream, impl Iterator<Item = &Queued>)> {
        let all = self.of.iter().flatten();
        let lines = all.map(|(_, number)| &self.lines[*number as usize]);
        lines
            .filter(|line| line.busy)
            .map(|line| (line.of, line.behind.iter()))
    }

    /// A stream has a message under way, and these behind it.
    pub(super) fn occupy(&mut self, stream: Stream, behind: VecDeque<Queued>) {
        let number = self.number(stream);
        let line = &mut self.lines[number as usize];
        (line.busy, line.behind) = (true, behind);
    }
}
