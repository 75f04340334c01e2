//! What a rank does as a graph: operations, and which waits for which.
//!
//! Steps in order become a chain. What is begun and waited for later hangs on it: what follows starts once it was started, and what follows its
//! wait once it is complete. Where several are waited for, an empty operation joins them, so that a rank has a few times as many edges as
//! operations. Made a rank at a time by the writers.

use std::collections::BTreeMap;

use belljar_program::ProcessId;

use crate::messages::{Message, Messages, Step};

/// Picoseconds in the format's unit of time.
const UNIT: u64 = 1000;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It sends a message.
    Send(Message),
    /// It receives a message.
    Receive(Message),
    /// It works for so many nanoseconds.
    Work(u64),
}

/// That an operation waits for an earlier one of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// Which waits.
    pub(super) later: u32,
    /// For which.
    pub(super) earlier: u32,
    /// Until it started only, not until it is complete.
    pub(super) started: bool,
}

/// The operations of a rank, and their edges, those of a later operation after those of an earlier one.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) operations: Vec<Kind>,
    pub(super) edges: Vec<Edge>,
    /// What must be complete before the next operation.
    complete: Vec<u32>,
    /// What must have started before it.
    started: Option<u32>,
    /// What is begun and not waited for, and the operation that each itself waits for.
    open: BTreeMap<Message, (u32, Option<u32>)>,
    /// Picoseconds of work that make no operation yet.
    work: u64,
}

impl Schedule {
    /// That of a rank.
    pub(super) fn of(messages: &Messages<'_>, rank: ProcessId) -> Self {
        let mut own = Self::default();
        let told: Result<(), std::convert::Infallible> = messages.rank(rank, |step| {
            own.step(step);
            Ok(())
        });
        let Ok(()) = told;
        own.settle();
        own
    }

    fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Work(ps) => self.work = self.work.saturating_add(ps),
            Step::Send(message) => self.begin(message, Kind::Send(message)),
            Step::Receive(message) => self.begin(message, Kind::Receive(message)),
            Step::Sent(message) | Step::Received(message) => {
                self.settle();
                if let Some((own, base)) = self.open.remove(&message) {
                    self.complete.retain(|earlier| Some(*earlier) != base);
                    self.complete.push(own);
                    self.started = self.started.filter(|started| *started != own);
                }
            }
            // Whole operations are not asked for.
            Step::Together(_) => {}
        }
    }

    fn begin(&mut self, message: Message, kind: Kind) {
        self.settle();
        let begun = self.push(kind);
        self.started = Some(begun);
        let base = self.complete.first().copied();
        self.open.insert(message, (begun, base));
    }

    /// Makes an operation of the work so far; what is left of a unit stays.
    fn settle(&mut self) {
        let units = self.work / UNIT;
        if units > 0 {
            self.work %= UNIT;
            self.work_for(units);
        }
    }

    fn work_for(&mut self, units: u64) {
        let own = self.push_after_all(Kind::Work(units));
        self.complete = vec![own];
        self.started = None;
    }

    fn push(&mut self, kind: Kind) -> u32 {
        if self.complete.len() > 1 {
            self.work_for(0);
        }
        self.push_after_all(kind)
    }

    fn push_after_all(&mut self, kind: Kind) -> u32 {
        let later = self.operations.len() as u32;
        self.operations.push(kind);
        let complete = self.complete.iter().map(|earlier| (*earlier, false));
        let started = self.started.map(|earlier| (earlier, true));
        let edges = complete.chain(started).map(|(earlier, started)| Edge {
            later,
            earlier,
            started,
        });
        self.edges.extend(edges);
        later
    }
}
