//! Sums over calls: how many, and the cycles that they took.
//!
//! Bounded, and the same in whatever order calls of several threads come, as each thread has its own.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Cycles of calls, or between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// How many calls.
    pub count: u64,
    /// Cycles in all.
    pub sum: u64,
    /// The fewest cycles.
    pub least: u64,
    /// The most cycles.
    pub most: u64,
    /// The sum of the squares, in cycles squared; of polls that are one record, of their mean.
    pub squares: f64,
    /// The sum of the reciprocals, of at least one cycle each; of what is told together, of the mean.
    pub reciprocals: f64,
}

impl Measure {
    /// Adds `count` of them that took `sum` cycles together, the shortest and the longest of them as `extremes` says.
    pub(crate) fn add(&mut self, count: u64, sum: u64, (least, most): (u64, u64)) {
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

    /// Adds one.
    pub(crate) fn add_one(&mut self, cycles: u64) {
        self.add(1, cycles, (cycles, cycles));
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
        self.reciprocals += other.reciprocals;
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Mean cycles of a call; 0 of none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }
}

/// Cycles of what the trace has and of what it has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Both {
    /// Cycles in calls that the trace has, or between two of them.
    #[serde(default, skip_serializing_if = "Measure::is_empty")]
    pub kept: Measure,
    /// Cycles in calls that it has not, or between calls one of which it has not.
    #[serde(default, skip_serializing_if = "Measure::is_empty")]
    pub dropped: Measure,
}

impl Both {
    /// Adds another's.
    pub fn join(&mut self, other: &Self) {
        self.kept.join(&other.kept);
        self.dropped.join(&other.dropped);
    }

    /// The sums over both.
    pub fn all(&self) -> Measure {
        let mut all = self.kept;
        all.join(&self.dropped);
        all
    }

    /// By which share the mean of the kept ones is wrong, against that of all; `None` where nothing was kept or nothing
    /// took time.
    pub fn error(&self) -> Option<f64> {
        let all = self.all();
        let known = self.kept.count > 0 && all.sum > 0;
        known.then(|| (self.kept.mean() - all.mean()).abs() / all.mean())
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What is known of the calls of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropped {
    /// Cycles in its calls that the program itself made.
    pub cycles: Both,
    /// Calls that the MPI library made within others, which the trace has not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nested: u64,
    /// Bytes of messages that calls sent which the trace has not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent: u64,
    /// Bytes of messages that they received or had room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub received: u64,
    /// How many of these are the room for them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inexact: u64,
    /// Collective operations of such calls which are not among those that were [moved](crate::Moved).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untold: u64,
}

impl Dropped {
    /// Adds another's.
    pub fn join(&mut self, other: &Self) {
        self.cycles.join(&other.cycles);
        self.nested = self.nested.saturating_add(other.nested);
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        self.inexact = self.inexact.saturating_add(other.inexact);
        self.untold = self.untold.saturating_add(other.untold);
    }
}
