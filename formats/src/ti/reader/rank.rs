//! The open state of a rank: its time, its requests.
//!
//! Requests are awaited by the two ranks and the tag of a message, the oldest first, or all at once. Used for each line.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use belljar_sim::Frequency;
use belljar_trace::{Amount, Collective, Direction, Event, Peer, Phase, WORLD};

use super::super::OWN_BARRIER;
use super::actions;
use super::words::{BYTE, Words, rank};
use crate::builder::ImportError;
use crate::builder::calls::{
    Functions, ImportedMessage, ImportedThread, blank, completion, take_part,
};
use crate::builder::spool::Spool;

/// Most requests of a rank that are not awaited.
const MOST_OPEN: usize = 1 << 20;

/// A message by its sender, receiver and tag.
pub(super) type Key = (u32, u32, i32);

/// Ticks of the trace's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    ticks_per_operation: f64,
    ticks_per_second: f64,
}

impl Pace {
    /// Of a clock, and processors of a speed in floating-point operations per second.
    pub(super) fn new(clock: Frequency, speed: f64) -> Self {
        let ticks_per_second = clock.as_hz() as f64;
        Self {
            ticks_per_operation: ticks_per_second / speed,
            ticks_per_second,
        }
    }
}

/// The reader of a rank's actions.
pub(super) struct RankReader<'a> {
    place: ImportedThread,
    pub(super) ranks: u32,
    pace: Pace,
    functions: &'a Functions,
    spool: &'a mut Spool,
    time: u64,
    /// The remainder of the last tick.
    rest: f64,
    next: u64,
    /// Requests by their messages, with the messages received through them.
    open: BTreeMap<Key, VecDeque<(u64, Option<ImportedMessage>)>>,
    count: usize,
    pub(super) element: u64,
    /// The next barrier is part of the start or the end of MPI.
    skips_barrier: bool,
    surplus: Surplus,
}

/// Words after the last argument of actions.
#[derive(Debug, Default)]
pub(super) struct Surplus {
    words: usize,
    /// File and line of the first ones.
    first: Option<(PathBuf, u64)>,
}

impl Surplus {
    fn add(&mut self, path: &Path, line: u64, words: usize) {
        self.words += words;
        self.first.get_or_insert_with(|| (path.to_owned(), line));
    }

    /// Adds those of another rank.
    pub(super) fn merge(&mut self, other: Self) {
        self.words += other.words;
        self.first = self.first.take().or(other.first);
    }

    /// Describes them, if there are any.
    pub(super) fn note(&self) -> Option<String> {
        let (path, line) = self.first.as_ref()?;
        Some(format!(
            "{} words after the last argument of actions are ignored, the first in line {line} of {}",
            self.words,
            path.display()
        ))
    }
}

impl<'a> RankReader<'a> {
    pub(super) fn new(
        place: ImportedThread,
        ranks: u32,
        pace: Pace,
        functions: &'a Functions,
        spool: &'a mut Spool,
    ) -> Self {
        Self {
            place,
            ranks,
            pace,
            functions,
            spool,
            time: 0,
            rest: 0.0,
            next: 0,
            open: BTreeMap::new(),
            count: 0,
            element: BYTE,
            skips_barrier: false,
            surplus: Surplus::default(),
        }
    }

    pub(super) fn own(&self) -> u32 {
        self.place.rank
    }

    /// Reads a line of the file at the path.
    pub(super) fn line(&mut self, place: (&Path, u64), line: &str) -> Result<(), ImportError> {
        let wrong = |reason: &str| super::wrong(place.0, place.1, reason);
        if line.starts_with(OWN_BARRIER) {
            self.skips_barrier = true;
            return Ok(());
        }
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else {
            return Ok(());
        };
        if rank(first) != Some(self.place.rank) {
            let own = self.place.rank;
            return Err(wrong(&format!("{first:?} stands where rank {own} should")));
        }
        let action = words.next().ok_or_else(|| wrong("there is no action"))?;
        let action = action.to_ascii_lowercase();
        if std::mem::take(&mut self.skips_barrier) && action == "barrier" {
            return Ok(());
        }
        let mut words = Words::new(words.collect(), self.element);
        let event = actions::carry_out(self, &action, &mut words).map_err(|error| wrong(&error))?;
        if words.left() > 0 && !actions::ignores_words(&action) {
            self.surplus.add(place.0, place.1, words.left());
        }
        event.map_or(Ok(()), |event| self.spool.push(&event))
    }

    /// Waits for requests that no action waited for.
    pub(super) fn finish(mut self) -> Result<Surplus, ImportError> {
        if let Ok(Some(event)) = self.wait_for_all() {
            self.spool.push(&event)?;
        }
        Ok(self.surplus)
    }

    /// Adds work.
    pub(super) fn work(&mut self, flops: f64) {
        self.advance(flops * self.pace.ticks_per_operation);
    }

    /// Advances by this many seconds.
    pub(super) fn sleep(&mut self, seconds: f64) {
        self.advance(seconds * self.pace.ticks_per_second);
    }

    fn advance(&mut self, ticks: f64) {
        let ticks = ticks + self.rest;
        self.rest = ticks.fract();
        // Times beyond the range become the last one.
        self.time = self.time.saturating_add(ticks as u64);
    }

    /// Creates a call of a function at the current time.
    pub(super) fn call(&self, name: &str) -> Event {
        let function = self.functions.number(name).unwrap_or(u16::MAX);
        let mut event = blank(self.place, function, self.time, Some(self.time));
        event.communicator = Some(WORLD);
        event
    }

    /// Creates a message to or from a rank, or from any rank.
    pub(super) fn message(
        &self,
        peer: i64,
        tag: i64,
        bytes: u64,
    ) -> Result<ImportedMessage, String> {
        let known = u32::try_from(peer).ok().filter(|it| *it < self.ranks);
        let peer = match (known, peer) {
            (Some(peer), _) => Peer::Rank(peer),
            (None, -555) => Peer::Any,
            (None, peer) => return Err(format!("there is no rank {peer}")),
        };
        let tag = i32::try_from(tag).map_err(|_| format!("{tag} is no tag"))?;
        Ok(ImportedMessage {
            peer,
            tag: (tag >= 0).then_some(tag),
            bytes,
            communicator: Some(WORLD),
        })
    }

    /// Begins a send or a receive.
    pub(super) fn begin(
        &mut self,
        event: &mut Event,
        direction: Direction,
        message: ImportedMessage,
    ) -> Result<(), String> {
        if self.count >= MOST_OPEN {
            return Err("more than a million requests are not waited for".to_owned());
        }
        let other = match message.peer {
            Peer::Rank(other) => other,
            _ => u32::MAX,
        };
        let tag = message.tag.unwrap_or(-1);
        let (key, received) = match direction {
            Direction::Send => ((self.place.rank, other, tag), None),
            Direction::Receive => ((other, self.place.rank, tag), Some(message)),
        };
        let transfer = message.transfer(direction, Phase::Begun);
        event.transfers.push(transfer);
        event.started.push(self.next);
        let queue = self.open.entry(key).or_default();
        queue.push_back((self.next, received));
        self.next += 1;
        self.count += 1;
        Ok(())
    }

    /// Tests the oldest request of a message, which stays: a replay determines when the message arrives, and a later wait completes it.
    pub(super) fn test(&self, key: Key) -> Result<Event, String> {
        if !self.open.contains_key(&key) {
            return Err(none(key));
        }
        let mut event = self.call("MPI_Test");
        event.communicator = None;
        Ok(event)
    }

    /// Waits for the oldest request of a message.
    pub(super) fn wait(&mut self, key: Key) -> Result<Option<Event>, String> {
        let found = self.open.get_mut(&key).and_then(VecDeque::pop_front);
        let Some((request, received)) = found else {
            return Err(none(key));
        };
        if self.open.get(&key).is_some_and(VecDeque::is_empty) {
            self.open.remove(&key);
        }
        self.count -= 1;
        let mut event = self.call("MPI_Wait");
        event.communicator = None;
        event.completed.push(completion(request, known(received)));
        Ok(Some(event))
    }

    /// Waits for all requests.
    pub(super) fn wait_for_all(&mut self) -> Result<Option<Event>, String> {
        let mut all: Vec<(u64, Option<ImportedMessage>)> = std::mem::take(&mut self.open)
            .into_values()
            .flatten()
            .collect();
        self.count = 0;
        if all.is_empty() {
            return Ok(None);
        }
        all.sort_unstable_by_key(|(request, _)| *request);
        let mut event = self.call("MPI_Waitall");
        event.communicator = None;
        let all = all.into_iter();
        event.completed = all
            .map(|(request, received)| completion(request, known(received)))
            .collect();
        Ok(Some(event))
    }

    /// Takes part in a collective operation.
    pub(super) fn collective(
        &self,
        name: &str,
        root: Option<u32>,
        sent: Amount,
        received: Amount,
    ) -> Event {
        let mut event = self.call(name);
        let collective = Collective {
            operation: event.meaning().collective(),
            phase: Phase::Done,
            communicator: Some(WORLD),
            root: root.map(Peer::Rank),
            sent,
            received,
        };
        take_part(&mut event, collective);
        event
    }
}

fn none((from, to, tag): Key) -> String {
    format!("no message from {from} to {to} with tag {tag} was begun")
}

/// Returns the message if its sender is known.
fn known(message: Option<ImportedMessage>) -> Option<ImportedMessage> {
    message.filter(|message| matches!(message.peer, Peer::Rank(_)))
}
