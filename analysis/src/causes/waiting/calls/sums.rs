//! Sums over calls and their waits: by function, by cause, by label and by rank.
//!
//! Times are in picoseconds. Used by `calls`.

use std::collections::BTreeMap;

use belljar_job::Member;

use super::super::{KindWait, WaitKind};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FunctionSum {
    pub(super) calls: u64,
    pub(super) waited: u64,
    pub(super) total: u64,
    pub(super) waiting: u64,
}

/// Sums over calls that waited for one cause, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KindSum {
    calls: u64,
    waiting: u64,
    max: u64,
}

impl KindSum {
    pub(super) fn add(&mut self, waiting: u64) {
        self.calls += 1;
        self.waiting = self.waiting.saturating_add(waiting);
        self.max = self.max.max(waiting);
    }
}

pub(super) type Kinds = BTreeMap<WaitKind, KindSum>;

/// Sums over the calls of one label, in picoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSum {
    /// Calls that returned.
    pub(crate) calls: u64,
    /// Time in them.
    pub(crate) total: u64,
    pub(super) kinds: Kinds,
}

impl LabelSum {
    /// Returns the number of waiting calls, and their total waiting.
    pub(crate) fn waited(&self) -> (u64, u64) {
        let kinds = self.kinds.values();
        kinds.fold((0, 0), |(calls, waiting), kind| {
            (calls + kind.calls, waiting.saturating_add(kind.waiting))
        })
    }

    /// Returns the sum of both.
    pub(in crate::causes::waiting) fn and(mut self, other: &Self) -> Self {
        self.calls = self.calls.saturating_add(other.calls);
        self.total = self.total.saturating_add(other.total);
        for (kind, sum) in &other.kinds {
            let own = self.kinds.entry(*kind).or_default();
            own.calls = own.calls.saturating_add(sum.calls);
            own.waiting = own.waiting.saturating_add(sum.waiting);
            own.max = own.max.max(sum.max);
        }
        self
    }

    /// Returns the waiting by cause.
    pub(crate) fn kinds(&self) -> Vec<KindWait> {
        let kinds = self.kinds.iter();
        kinds.map(|(kind, sum)| shown(*kind, *sum)).collect()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RankSum {
    pub(super) member: Member,
    pub(super) mpi: u64,
    pub(super) waiting: u64,
    /// Time in calls that start or end MPI, and the part that was waiting.
    pub(super) boundary: u64,
    pub(super) boundary_waiting: u64,
}

/// Converts a sum for results.
pub(super) fn shown(kind: WaitKind, sum: KindSum) -> KindWait {
    KindWait {
        kind,
        calls: sum.calls,
        waiting_ps: sum.waiting,
        max_ps: sum.max,
    }
}
