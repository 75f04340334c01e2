//! Calls that never return, and operations that therefore never complete.
//!
//! Readers count them, and match them with nothing. Called by the comparisons of all readers.

use std::collections::{BTreeMap, BTreeSet};

use super::{CallKey, Truth};
use crate::job::OperationId;

impl Truth {
    /// True for a call that returned.
    pub(crate) fn returned(&self, call: CallKey) -> bool {
        !self.unfinished.contains(&call)
    }

    /// Calls that never returned, and calls of `MPI_Finalize`, which then never return either.
    pub(crate) fn unfinished(&self) -> u64 {
        if !self.job.is_cut {
            return 0;
        }
        let first = self.unfinished.iter().filter(|call| call.1 == 0).count();
        let finalizing = u64::from(self.job.ranks) - first as u64;
        self.unfinished.len() as u64 + finalizing
    }

    /// The sends and the receives that were begun and have no other side, without cancelled ones.
    pub(crate) fn lone_sides(&self) -> [Vec<OperationId>; 2] {
        let begun = self.begun.values().flatten().copied();
        let lone = begun.filter(|side| {
            let matched = self.sends.contains_key(side) || self.execution.pairs.contains_key(side);
            let moves = self.is_send(*side) || self.is_receive(*side);
            moves && !matched && !self.execution.cancelled.contains(side)
        });
        let (sends, receives) = lone.partition(|side| self.is_send(*side));
        [sends, receives]
    }

    /// Receives that were cancelled and completed without a status: a trace does not say that they got nothing.
    pub(crate) fn cancelled_without_status(&self) -> u64 {
        let cancelled = self.execution.cancelled.iter();
        let silent =
            cancelled.filter(|receive| !self.job.operations[**receive].action.asks_for_status());
        silent.count() as u64
    }

    /// The collective operations begun by all members, and the others begun by some.
    pub(crate) fn instances(&self) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let mut begun: BTreeMap<usize, usize> = BTreeMap::new();
        for part in self.parts() {
            *begun.entry(part.instance).or_default() += 1;
        }
        let whole = |instance: &usize| begun[instance] == self.members_of(*instance);
        begun.keys().copied().partition(whole)
    }

    /// The number of members of a collective operation.
    fn members_of(&self, instance: usize) -> usize {
        let mut operations = self.job.operations.iter();
        let own = operations.find(|operation| operation.instance() == Some(instance));
        own.map_or(0, |operation| {
            self.job.communicators[operation.communicator].members.len()
        })
    }
}
