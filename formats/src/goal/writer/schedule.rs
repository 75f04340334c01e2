//! A rank's schedule as a graph: operations, and their prerequisites.
//!
//! Sequential steps become a chain. An operation that is begun and awaited later branches off: the next step starts once it has started, and
//! the step after its wait once it is complete. If several are awaited, an empty operation joins them, so that the number of edges is a small
//! multiple of the number of operations. Created one rank at a time by the writers.

use std::collections::BTreeMap;

use belljar_program::ProcessId;

use crate::messages::{Message, Messages, Step};

/// Picoseconds in the format's unit of time.
const UNIT: u64 = 1000;

/// An operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RankOperation {
    /// Sends a message.
    Send(Message),
    /// Receives a message.
    Receive(Message),
    /// Works for this many nanoseconds.
    Work(u64),
}

/// The dependence of an operation on an earlier one of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// The waiting operation.
    pub(super) later: u32,
    /// Its prerequisite.
    pub(super) earlier: u32,
    /// True if it only waits for the start, not the completion.
    pub(super) started: bool,
}

/// The operations of a rank, and their edges, sorted by the later operation.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) operations: Vec<RankOperation>,
    pub(super) edges: Vec<Edge>,
    /// Operations that must be complete before the next one.
    complete: Vec<u32>,
    /// The operation that must have started before it.
    started: Option<u32>,
    /// Operations that are begun and not awaited, each with its prerequisite.
    open: BTreeMap<Message, (u32, Option<u32>)>,
    /// Picoseconds of work not yet in an operation.
    work: u64,
}

impl Schedule {
    /// Returns the schedule of a rank.
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
            Step::Send(message) => self.begin(message, RankOperation::Send(message)),
            Step::Receive(message) => self.begin(message, RankOperation::Receive(message)),
            Step::Sent(message) | Step::Received(message) => {
                self.settle();
                if let Some((own, base)) = self.open.remove(&message) {
                    self.complete.retain(|earlier| Some(*earlier) != base);
                    self.complete.push(own);
                    self.started = self.started.filter(|started| *started != own);
                }
            }
            // Whole operations are not requested.
            Step::Together(_) => {}
        }
    }

    fn begin(&mut self, message: Message, kind: RankOperation) {
        self.settle();
        let begun = self.push(kind);
        self.started = Some(begun);
        let base = self.complete.first().copied();
        self.open.insert(message, (begun, base));
    }

    /// Converts the work so far to an operation, except for a remainder below a unit.
    fn settle(&mut self) {
        let units = self.work / UNIT;
        if units > 0 {
            self.work %= UNIT;
            self.work_for(units);
        }
    }

    fn work_for(&mut self, units: u64) {
        let own = self.push_after_all(RankOperation::Work(units));
        self.complete = vec![own];
        self.started = None;
    }

    fn push(&mut self, kind: RankOperation) -> u32 {
        if self.complete.len() > 1 {
            self.work_for(0);
        }
        self.push_after_all(kind)
    }

    fn push_after_all(&mut self, kind: RankOperation) -> u32 {
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
