//! Follows dependencies backwards in time: along the critical path, and with the slack of every process.
//!
//! The slack of a process at a time is the delay of its current work that, with nothing else changed, leaves the program's end unchanged. At the end it is the time until
//! the program's end. Backwards, it is the minimum over its dependents of their slack plus the time by which the process came early (J. E. Kelley and M. R. Walker,
//! "Critical-path planning and scheduling", 1959). A process's waiting absorbs its own delays. Dependencies are taken in order, from the last on; only state for messages
//! in flight is kept. Used by `path`.

use std::collections::{BTreeMap, BinaryHeap};

use belljar_job::{Member, ProcessKey};

use super::Extent;
use super::follower::PathFollower;
use crate::causes::waiting::{Dependency, DependencyNode};

/// The slack of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spare {
    /// Its current slack, in picoseconds.
    slack: u64,
    /// The time down to which it is accounted for.
    at: u64,
    /// True if several of its threads call MPI, so that one may compute while another one waits.
    threads: bool,
    /// The minimum.
    pub(super) least: u64,
    /// The maximum.
    pub(super) most: u64,
    /// Time in which it did not wait.
    pub(super) time: u64,
    /// The part without slack.
    pub(super) none: u64,
    /// Integral over that time, in square picoseconds.
    sum: u128,
}

impl Spare {
    /// Returns the mean over the time in which it did not wait, rounded down.
    pub(super) fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(self.time.into()).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Accounts for the time down to `to`.
    fn account(&mut self, to: u64) {
        let time = self.at.saturating_sub(to);
        if time == 0 {
            return;
        }
        self.at = to;
        self.least = self.least.min(self.slack);
        self.most = self.most.max(self.slack);
        self.time = self.time.saturating_add(time);
        self.sum = self
            .sum
            .saturating_add(u128::from(time) * u128::from(self.slack));
        if self.slack == 0 {
            self.none = self.none.saturating_add(time);
        }
    }
}

/// An upper bound on a process's slack from a time on backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    at: u64,
    who: DependencyNode,
    slack: u64,
}

/// The state while dependencies are followed.
#[derive(Debug)]
pub(super) struct Sweep<'a> {
    follower: PathFollower<'a>,
    spares: BTreeMap<DependencyNode, Spare>,
    /// The slack of meetings, by their times.
    meetings: BTreeMap<(u64, DependencyNode), u64>,
    bounds: BinaryHeap<Bound>,
}

impl<'a> Sweep<'a> {
    /// Starts at the end of a program of these processes.
    pub(super) fn new(extents: &'a BTreeMap<ProcessKey, Extent>) -> Self {
        let end = extents.values().map(|extent| extent.last).max();
        let spare = |extent: &Extent| {
            let spare = Spare {
                slack: end.unwrap_or(0) - extent.last,
                at: extent.last,
                threads: extent.threads,
                least: u64::MAX,
                most: 0,
                time: 0,
                none: 0,
                sum: 0,
            };
            (DependencyNode::process(extent.member), spare)
        };
        Self {
            follower: PathFollower::new(extents),
            spares: extents.values().map(spare).collect(),
            meetings: BTreeMap::new(),
            bounds: BinaryHeap::new(),
        }
    }

    /// Handles the next dependency, backwards.
    pub(super) fn follow(&mut self, dependency: &Dependency) {
        let Dependency { ready, at, .. } = *dependency;
        self.apply(ready);
        let over = |meeting: &(u64, DependencyNode)| meeting.0 > ready;
        while self
            .meetings
            .last_key_value()
            .is_some_and(|(own, _)| over(own))
        {
            self.meetings.pop_last();
        }
        if dependency.waited {
            self.wait(dependency);
            return;
        }
        let slack = match self.spares.get(&dependency.who) {
            Some(spare) => Some(spare.slack),
            None => self.meetings.get(&(ready, dependency.who)).copied(),
        };
        // A meeting without dependents is not needed.
        let Some(slack) = slack else { return };
        let slack = slack.saturating_add(ready.saturating_sub(at));
        match dependency.on.member() {
            Some(_) => self.bounds.push(Bound {
                at,
                who: dependency.on,
                slack,
            }),
            None => {
                let meeting = self.meetings.entry((at, dependency.on)).or_insert(u64::MAX);
                *meeting = slack.min(*meeting);
            }
        }
    }

    /// Handles a wait of a process, which would have absorbed a delay of its own.
    fn wait(&mut self, dependency: &Dependency) {
        let Dependency { ready, at, .. } = *dependency;
        self.follower.wait(dependency);
        let Some(spare) = self.spares.get_mut(&dependency.who) else {
            return;
        };
        if !spare.threads {
            spare.account(ready);
            spare.at = spare.at.min(at);
            spare.slack = spare.slack.saturating_add(ready - at);
        }
    }

    /// Applies the bounds from this time on.
    fn apply(&mut self, from: u64) {
        while let Some(bound) = self.bounds.peek().filter(|bound| bound.at >= from) {
            if let Some(spare) = self.spares.get_mut(&bound.who)
                && bound.slack < spare.slack
            {
                spare.account(bound.at);
                spare.slack = bound.slack;
            }
            self.bounds.pop();
        }
    }

    /// Returns the critical path, and the slack of each process.
    pub(super) fn finish(mut self) -> (PathFollower<'a>, BTreeMap<Member, Spare>) {
        self.apply(0);
        let extents = self.follower.extents().values();
        for extent in extents {
            if let Some(spare) = self.spares.get_mut(&DependencyNode::process(extent.member)) {
                spare.account(extent.first);
                spare.least = spare.least.min(spare.slack);
                // A process that only waits has no time that is accounted for.
                spare.most = spare.most.max(spare.least);
            }
        }
        let spares = self.spares.into_iter();
        let spares = spares.filter_map(|(point, spare)| Some((point.member()?, spare)));
        (self.follower, spares.collect())
    }
}
