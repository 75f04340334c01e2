//! What depends on whom in time: the edges along which delays pass from process to process.
//!
//! A call can be left when whatever it needs is there; [`Dependency`] says since when. A collective operation in which many
//! depend on many is a point of its own between them, so that dependencies are as many as processes and not as many as pairs. Made
//! by the collector as calls are matched; followed backwards by `path`.

use std::cmp::{Ordering, Reverse};

use belljar_job::Member;

/// A process, or a meeting of processes in a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point(u64);

/// Marks numbers of meetings; jobs are never as many.
const MEETING: u64 = 1 << 63;

impl Point {
    /// A process.
    pub(crate) fn process(member: Member) -> Self {
        Self((u64::from(member.job) << 32 | u64::from(member.rank)) & !MEETING)
    }

    /// The meeting of this number.
    pub(super) fn meeting(number: u64) -> Self {
        Self(number | MEETING)
    }

    /// The process, if it is one.
    pub(crate) fn member(self) -> Option<Member> {
        (self.0 & MEETING == 0).then_some(Member {
            job: (self.0 >> 32) as u32,
            rank: self.0 as u32,
        })
    }

    /// As a number.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// From a number.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// One depends on another: it continues at `ready`, and could continue later only if the other one came later than
/// that. Times are in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// When the one that depends continues.
    pub(crate) ready: u64,
    /// Among those of one time, those of a lower level follow later in time.
    pub(crate) level: u32,
    /// Who depends.
    pub(crate) who: Point,
    /// On whom.
    pub(crate) on: Point,
    /// Since when that one is there; of a wait, when it began.
    pub(crate) at: u64,
    /// Whether this is a wait: a process did nothing else from `at` until `ready`, when the other one came.
    pub(crate) waited: bool,
}

impl Dependency {
    /// Processes that depend on something: in a meeting of so many levels, those of a level.
    pub(super) fn on(who: Point, ready: u64, on: Point, at: u64, level: u32) -> Self {
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

/// Somebody on whom a call depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    /// Where delays come from.
    pub(super) on: Point,
    /// Since when it is there.
    pub(super) at: u64,
    /// Who is waited for if it is late.
    pub(super) by: Member,
}
