//! Sums over calls: their number and their cycles.
//!
//! The sums are bounded. They do not depend on the order of calls of different threads, as each thread has separate
//! sums.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Cycles in calls, or between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The number of calls.
    pub count: u64,
    /// Total cycles.
    pub sum: u64,
    /// The fewest cycles.
    pub least: u64,
    /// The most cycles.
    pub most: u64,
    /// The sum of the squares, in cycles squared; for a record of several polls, of their mean.
    pub squares: f64,
    /// The sum of the reciprocals, of at least one cycle each; for a record of several calls, of their mean.
    pub reciprocals: f64,
}

impl Measure {
    /// Adds `count` calls of `sum` cycles together, with the shortest and the longest in `extremes`.
    pub(crate) fn add(&mut self, count: u64, sum: u64, least: u64, most: u64) {
        if count == 0 {
            return;
        }
        let each = (sum / count) as f64;
        let reciprocals = count as f64 * (count as f64 / sum.max(1) as f64).min(1.0);
        self.join(&Self {
            count,
            sum,
            least,
            most,
            squares: each * each * count as f64,
            reciprocals,
        });
    }

    /// Adds one call.
    pub(crate) fn add_one(&mut self, cycles: u64) {
        self.add(1, cycles, cycles, cycles);
    }

    /// Adds another measure.
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
        self.reciprocals += other.reciprocals;
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the mean cycles of a call; 0 without calls.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }
}

/// Cycles of kept and of dropped calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Both {
    /// Cycles in calls in the trace, or between two of them.
    #[serde(default, skip_serializing_if = "Measure::is_empty")]
    pub kept: Measure,
    /// Cycles in dropped calls, or between two calls, at least one of them dropped.
    #[serde(default, skip_serializing_if = "Measure::is_empty")]
    pub dropped: Measure,
}

impl Both {
    /// Adds the sums of another.
    pub fn join(&mut self, other: &Self) {
        self.kept.join(&other.kept);
        self.dropped.join(&other.dropped);
    }

    /// Returns the sums over both.
    pub fn all(&self) -> Measure {
        let mut all = self.kept;
        all.join(&self.dropped);
        all
    }

    /// Returns the relative error of the kept calls' mean against the mean of all; `None` if no call was kept or all
    /// took no time.
    pub fn error(&self) -> Option<f64> {
        let all = self.all();
        let known = self.kept.count > 0 && all.sum > 0;
        known.then(|| (self.kept.mean() - all.mean()).abs() / all.mean())
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Sums of a function's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropped {
    /// Cycles in its calls by the program itself.
    pub cycles: Both,
    /// Dropped calls that the MPI library made within others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nested: u64,
    /// Bytes sent by dropped calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent: u64,
    /// Bytes received by dropped calls, or the sizes of their buffers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub received: u64,
    /// The part of `received` that is sizes of buffers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inexact: u64,
    /// Collective operations of dropped calls that [`Moved`](crate::Moved) does not include.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untold: u64,
}

impl Dropped {
    /// Adds the sums of another.
    pub fn join(&mut self, other: &Self) {
        self.cycles.join(&other.cycles);
        self.nested = self.nested.saturating_add(other.nested);
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        self.inexact = self.inexact.saturating_add(other.inexact);
        self.untold = self.untold.saturating_add(other.untold);
    }
}
