//! Sums over calls: how many, and the cycles that they took.
//!
//! Bounded, and the same in whatever order calls of several threads come, as each thread has its own.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Cycles of calls, or between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Measure {
    /// How many calls.
    pub count: u64,
    /// Cycles in all.
    pub sum: u64,
    /// The fewest cycles; of polls that are one record, their mean counts.
    pub least: u64,
    /// The most cycles.
    pub most: u64,
    /// The sum of the squares, in cycles squared.
    pub squares: f64,
}

impl Measure {
    /// Adds a record of so many calls that took `cycles` together.
    pub(crate) fn add(&mut self, cycles: u64, calls: u64) {
        let each = cycles / calls.max(1);
        self.least = if self.count == 0 {
            each
        } else {
            self.least.min(each)
        };
        self.most = self.most.max(each);
        self.count = self.count.saturating_add(calls);
        self.sum = self.sum.saturating_add(cycles);
        self.squares += (each as f64) * (each as f64) * calls as f64;
    }

    /// Adds another's.
    pub fn join(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let first = self.count == 0;
        self.least = if first {
            other.least
        } else {
            self.least.min(other.least)
        };
        self.most = self.most.max(other.most);
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.squares += other.squares;
    }

    /// Mean cycles of a call; 0 of none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }
}

/// What is known of the calls of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Dropped {
    /// Cycles in calls that the trace has.
    pub kept: Measure,
    /// Cycles in calls that it has not.
    pub dropped: Measure,
    /// Bytes that calls sent which the trace has not, in messages.
    pub sent: u64,
    /// Bytes that they received or had room for.
    pub received: u64,
}

impl Dropped {
    /// Adds another's.
    pub fn join(&mut self, other: &Self) {
        self.kept.join(&other.kept);
        self.dropped.join(&other.dropped);
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
    }

    /// By which share the mean of the kept calls is wrong, against that of all; `None` where nothing was kept or nothing
    /// took time.
    pub fn error(&self) -> Option<f64> {
        let mut all = self.kept;
        all.join(&self.dropped);
        let known = self.kept.count > 0 && all.sum > 0;
        known.then(|| (self.kept.mean() - all.mean()).abs() / all.mean())
    }
}
