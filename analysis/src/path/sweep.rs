//! Follows dependencies backwards in time: along the critical path, and with how much slack every process has.
//!
//! The slack of a process at a time is by how much whatever it does then could take longer, with nothing else changed, so that the
//! program would end as late as it did. At the end it is the time until the program's end; backwards it is the least of what
//! those have that depend on the process, each with the time by which the process came before it was needed (J. E. Kelley
//! and M. R. Walker, "Critical-path planning and scheduling", 1959). What a process waited takes up delays of its own. Dependencies are taken in their order, from the last
//! on; what is kept is what messages on their way will be needed for. Called by `path`.

use std::collections::{BTreeMap, BinaryHeap};

use belljar_job::{Member, ProcessKey};

use super::Extent;
use super::follower::Follower;
use crate::waiting::{Dependency, Point};

/// How much time a process had to spare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spare {
    /// By how much it could come later, in picoseconds.
    slack: u64,
    /// Until when, backwards, this is accounted for.
    at: u64,
    /// Whether several threads of it call MPI, so that one may compute while another one waits.
    threads: bool,
    /// The least that it ever had.
    pub(super) least: u64,
    /// The most.
    pub(super) most: u64,
    /// Time in which it did not wait.
    pub(super) time: u64,
    /// How much of that without any to spare.
    pub(super) none: u64,
    /// Sum over that time, in square picoseconds.
    sum: u128,
}

impl Spare {
    /// Mean over the time in which it did not wait; cut.
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

/// From a time on backwards, a process has at most so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    at: u64,
    who: Point,
    slack: u64,
}

/// What is known while dependencies are followed.
#[derive(Debug)]
pub(super) struct Sweep<'a> {
    follower: Follower<'a>,
    spares: BTreeMap<Point, Spare>,
    /// What is left to spare for meetings, by their times.
    meetings: BTreeMap<(u64, Point), u64>,
    bounds: BinaryHeap<Bound>,
}

impl<'a> Sweep<'a> {
    /// At the end of a program of these processes.
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
            (Point::process(extent.member), spare)
        };
        Self {
            follower: Follower::new(extents),
            spares: extents.values().map(spare).collect(),
            meetings: BTreeMap::new(),
            bounds: BinaryHeap::new(),
        }
    }

    /// The next dependency, backwards.
    pub(super) fn follow(&mut self, dependency: &Dependency) {
        let Dependency { ready, at, .. } = *dependency;
        self.apply(ready);
        let over = |meeting: &(u64, Point)| meeting.0 > ready;
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
        // Nobody needs a meeting that nobody is told to depend on.
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

    /// A process waited: a delay of its own would have been taken up by that.
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

    /// Bounds from this time on count.
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

    /// The critical path, and what each process had to spare.
    pub(super) fn finish(mut self) -> (Follower<'a>, BTreeMap<Member, Spare>) {
        self.apply(0);
        let extents = self.follower.extents().values();
        for extent in extents {
            if let Some(spare) = self.spares.get_mut(&Point::process(extent.member)) {
                spare.account(extent.first);
                spare.least = spare.least.min(spare.slack);
                // A process that does nothing but wait has no time that is accounted for.
                spare.most = spare.most.max(spare.least);
            }
        }
        let spares = self.spares.into_iter();
        let spares = spares.filter_map(|(point, spare)| Some((point.member()?, spare)));
        (self.follower, spares.collect())
    }
}
