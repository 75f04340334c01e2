//! Computation of the stuck ranks.
//!
//! All waiting ranks are taken for stuck at first. A rank that needs one of a group is not, if a rank of the group is not; this is
//! repeated until nothing changes (the greatest fixed point). Used by `HangCollector`.

use std::collections::{BTreeMap, BTreeSet};

use super::{HangVerdict, JobRank};

/// The needs of a call: one process of each group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) all: Vec<Vec<JobRank>>,
}

/// Waiting processes, and processes that have ended MPI.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    waiting: BTreeMap<JobRank, Needs>,
    ended: BTreeSet<JobRank>,
    stuck: BTreeSet<JobRank>,
}

impl Waiters {
    pub(super) fn wait(&mut self, of: JobRank, needs: Needs) {
        self.waiting.insert(of, needs);
    }

    pub(super) fn end(&mut self, of: JobRank) {
        self.ended.insert(of);
    }

    pub(super) fn is_stuck(&self, of: JobRank) -> bool {
        self.stuck.contains(&of)
    }

    /// The processes that a call waits for, and whether one suffices.
    pub(super) fn partners(&self, of: JobRank) -> (Vec<JobRank>, bool) {
        let Some(needs) = self.waiting.get(&of) else {
            return (Vec::new(), false);
        };
        let groups = needs.all.iter();
        let partners: BTreeSet<JobRank> = groups.flatten().copied().collect();
        let any = needs.all.iter().any(|group| group.len() > 1);
        (partners.into_iter().collect(), any)
    }

    /// Finds the stuck processes, and a chain of them.
    pub(super) fn verdict(&mut self) -> (HangVerdict, Vec<JobRank>) {
        self.stuck = self.waiting.keys().copied().collect();
        loop {
            let free: Vec<JobRank> = self
                .stuck
                .iter()
                .copied()
                .filter(|of| self.can_go_on(*of))
                .collect();
            if free.is_empty() {
                break;
            }
            for of in free {
                self.stuck.remove(&of);
            }
        }
        let chains = self.stuck.iter().map(|of| self.chain(*of));
        let shortest = |chains: Vec<Vec<JobRank>>| chains.into_iter().min_by_key(Vec::len);
        let (circles, others): (Vec<_>, Vec<_>) = chains.partition(|(is_circle, _)| *is_circle);
        let bare = |chains: Vec<(bool, Vec<JobRank>)>| {
            chains.into_iter().map(|(_, chain)| chain).collect()
        };
        match (shortest(bare(circles)), shortest(bare(others))) {
            (Some(chain), _) => (HangVerdict::Deadlock, chain),
            (None, Some(chain)) => (HangVerdict::WaitsForEnded, chain),
            (None, None) => (HangVerdict::NotStuck, Vec::new()),
        }
    }

    /// True if each group has a process that is neither stuck nor at its end.
    fn can_go_on(&self, of: JobRank) -> bool {
        let Some(needs) = self.waiting.get(&of) else {
            return true;
        };
        let mut groups = needs.all.iter();
        groups.all(|group| !group.iter().all(|other| self.is_lost(*other)))
    }

    fn is_lost(&self, of: JobRank) -> bool {
        self.stuck.contains(&of) || self.ended.contains(&of)
    }

    /// The chain from a stuck process on: a circle, or the way to a process that has ended.
    fn chain(&self, of: JobRank) -> (bool, Vec<JobRank>) {
        let mut chain: Vec<JobRank> = vec![of];
        loop {
            let last = chain[chain.len() - 1];
            let needs = self.waiting.get(&last).map_or(&[][..], |needs| &needs.all);
            let mut hopeless = needs
                .iter()
                .filter(|group| group.iter().all(|other| self.is_lost(*other)));
            let next = hopeless.next().and_then(|group| group.first());
            let Some(next) = next.copied() else {
                return (false, chain);
            };
            if let Some(place) = chain.iter().position(|other| *other == next) {
                let mut circle = chain.split_off(place);
                let first = circle.iter().enumerate().min_by_key(|(_, of)| **of);
                let first = first.map_or(0, |(place, _)| place);
                circle.rotate_left(first);
                return (true, circle);
            }
            chain.push(next);
        }
    }
}
