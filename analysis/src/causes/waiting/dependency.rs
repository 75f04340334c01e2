//! Dependencies in time: the edges along which delays pass from process to process.
//!
//! A call returns when everything that it needs is available; [`Dependency`] has the time of that. A collective operation in which
//! many depend on many is a separate point between them, so the number of dependencies grows with the processes and not with the
//! pairs. Created by the collector as calls are matched; followed backwards by `path`.

use std::cmp::{Ordering, Reverse};

use belljar_job::Member;

/// An end of a dependency: a process, or a meeting of processes in a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DependencyNode(u64);

/// Marks numbers of meetings; there are never that many jobs.
const MEETING: u64 = 1 << 63;

impl DependencyNode {
    /// Creates the point of a process.
    pub(crate) fn process(member: Member) -> Self {
        Self((u64::from(member.job) << 32 | u64::from(member.rank)) & !MEETING)
    }

    /// Creates the point of the meeting with this number.
    pub(super) fn meeting(number: u64) -> Self {
        Self(number | MEETING)
    }

    /// Returns the process, if it is one.
    pub(crate) fn member(self) -> Option<Member> {
        (self.0 & MEETING == 0).then_some(Member {
            job: (self.0 >> 32) as u32,
            rank: self.0 as u32,
        })
    }

    /// Returns it as a number.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Creates it from a number.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// A dependence of one point on another: the first continues at `ready`, and would continue later only if the other came later
/// than that. Times are in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The time at which the dependent continues.
    pub(crate) ready: u64,
    /// Among dependencies at the same time, those with a lower level follow later in time.
    pub(crate) level: u32,
    /// The dependent.
    pub(crate) who: DependencyNode,
    /// The point that it depends on.
    pub(crate) on: DependencyNode,
    /// The time of the other's arrival; for a wait, the time at which the wait began.
    pub(crate) at: u64,
    /// True if this is a wait: a process was idle from `at` until `ready`, when the other one came.
    pub(crate) waited: bool,
}

impl Dependency {
    /// Creates the dependence of processes at one level of a meeting with several levels.
    pub(super) fn on(
        who: DependencyNode,
        ready: u64,
        on: DependencyNode,
        at: u64,
        level: u32,
    ) -> Self {
        Self {
            ready,
            level,
            who,
            on,
            at: at.min(ready),
            waited: false,
        }
    }
}

/// The order in which dependencies are followed: backwards in time.
impl Ord for Dependency {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |own: &Self| {
            let order = (own.level, own.waited);
            (Reverse(own.ready), order, own.who, Reverse(own.on), own.at)
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Dependency {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A process on which a call depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    /// The origin of delays.
    pub(super) on: DependencyNode,
    /// The time of its arrival.
    pub(super) at: u64,
    /// The process that is waited for if it is late.
    pub(super) by: Member,
}
