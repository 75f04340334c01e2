//! Sequences of calls of the same thread in two traces, compared while both are read.
//!
//! Traces have calls in the order of their returns, which differs between runs; so the calls of a thread read from one
//! trace wait for those of the other. After a divergence, no further calls of that thread are kept.

use std::collections::{BTreeMap, VecDeque};

use belljar_job::{Communicators, Member};
use belljar_trace::Event;

use super::times::DiffSide;
use super::{ThreadKey, identity};

/// The divergence of a thread's calls between two traces, by the number of equal calls before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parting {
    /// The first call that differs.
    pub(super) other: Option<u64>,
    /// The first call that is the same at another time.
    pub(super) shifted: Option<u64>,
}

/// A call that waits for its counterpart: its hash, and its times.
type Step = (u64, (u64, Option<u64>));

#[derive(Debug, Default)]
struct ThreadComparison {
    waiting: VecDeque<Step>,
    /// The trace to which the waiting calls belong.
    of: Option<DiffSide>,
    same: u64,
    parting: Parting,
}

/// The calls of all threads.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    threads: BTreeMap<ThreadKey, ThreadComparison>,
}

impl Sequences {
    /// Adds a call of one of the traces.
    pub(super) fn observe(&mut self, side: DiffSide, event: &Event, communicators: &Communicators) {
        if !identity::counts(event) {
            return;
        }
        let Some(job) = communicators.job((event.node, event.process)) else {
            return;
        };
        let member = Member {
            job,
            rank: event.rank,
        };
        let thread = self.threads.entry((member, event.thread)).or_default();
        thread.take(side, (identity::of(event), (event.entry, event.exit)));
    }

    /// Returns the divergence of each thread.
    pub(super) fn finish(self) -> BTreeMap<ThreadKey, Parting> {
        let threads = self.threads.into_iter();
        threads
            .map(|(key, thread)| (key, thread.finish()))
            .collect()
    }
}

impl ThreadComparison {
    fn take(&mut self, side: DiffSide, step: Step) {
        if self.parting.other.is_some() {
            return;
        }
        if self.waiting.is_empty() {
            self.of = Some(side);
        }
        if self.of == Some(side) {
            self.waiting.push_back(step);
            return;
        }
        let Some(counterpart) = self.waiting.pop_front() else {
            return;
        };
        if counterpart.0 != step.0 {
            self.parting.other = Some(self.same);
            self.waiting = VecDeque::new();
            return;
        }
        if counterpart.1 != step.1 {
            self.parting.shifted.get_or_insert(self.same);
        }
        self.same += 1;
    }

    fn finish(mut self) -> Parting {
        if !self.waiting.is_empty() {
            self.parting.other = Some(self.same);
        }
        self.parting
    }
}
