//! The recent past of a thread: its work, its calls and its waits in the order of time.
//!
//! Entries follow each other without a gap. Their number is bounded. Older ones are summed up, and a stretch that begins among
//! these counts with its share of the sums. Used by `delays`.

use std::collections::{BTreeMap, VecDeque};

use super::shares::{Cause, Share, scaled};

/// Most codes that the sums of older entries distinguish.
const MOST_OLD_CODES: usize = 1 << 10;
/// Most partners whose meetings a thread keeps.
const MOST_PARTNERS: usize = 256;
/// Most meetings of several threads that a thread keeps.
const MOST_MEETINGS: usize = 32;

/// A segment of a thread's timeline.
#[derive(Clone, Debug)]
enum TimelineSegment {
    /// Code of this number: between calls, or in a call without waiting.
    Code(u32),
    /// Waiting, with its causes.
    Wait(Box<[Share]>),
}

/// A stretch that follows the one before it.
#[derive(Clone, Debug)]
struct Entry {
    /// Its end, in picoseconds.
    end: u64,
    stretch: TimelineSegment,
}

/// Times of a thread by code, and waits by cause, in picoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Components {
    pub(super) codes: BTreeMap<u32, u64>,
    pub(super) waits: BTreeMap<Cause, u64>,
}

impl Components {
    /// Adds the part `time` of a stretch of length `whole`.
    fn add(&mut self, stretch: &TimelineSegment, time: u64, whole: u64) {
        match stretch {
            TimelineSegment::Code(code) => add(&mut self.codes, *code, time),
            TimelineSegment::Wait(shares) if time == whole => {
                for share in shares {
                    add(&mut self.waits, share.cause, share.time);
                }
            }
            TimelineSegment::Wait(shares) => {
                for share in scaled(shares.to_vec(), time) {
                    add(&mut self.waits, share.cause, share.time);
                }
            }
        }
    }

    /// Adds the share `time / whole` of other sums.
    fn add_part(&mut self, other: &Self, time: u64, whole: u64) {
        let part = |own: u64| {
            let part = u128::from(own) * u128::from(time) / u128::from(whole.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        for (code, own) in &other.codes {
            add(&mut self.codes, *code, part(*own));
        }
        for (cause, own) in &other.waits {
            add(&mut self.waits, *cause, part(*own));
        }
    }

    /// Moves codes and causes beyond the bound to unknown ones.
    fn bound(&mut self) {
        while self.codes.len() > MOST_OLD_CODES
            && let Some((_, time)) = self.codes.pop_last()
        {
            add(&mut self.codes, 0, time);
        }
        while self.waits.len() > MOST_OLD_CODES
            && let Some((_, time)) = self.waits.pop_first()
        {
            add(&mut self.waits, Cause::NONE, time);
        }
    }
}

fn add<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, time: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(time);
}

/// A point at which a thread had caught up with another one, in picoseconds on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Together {
    /// The time on this thread.
    pub(super) own: u64,
    /// The time on the other thread.
    pub(super) other: u64,
}

/// A thread's past.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    /// Sums over the time before `entries`.
    old: Components,
    old_until: u64,
    entries: VecDeque<Entry>,
    /// The end of the last entry.
    at: u64,
    /// The last two points with each partner.
    partners: BTreeMap<u32, [Option<Together>; 2]>,
    /// The latest meetings by number, each with its time.
    meetings: VecDeque<(u64, u64)>,
}

impl Timeline {
    /// Returns the time up to which the past is known, in picoseconds.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Continues until `end` in a code. `most` is the bound on entries.
    pub(super) fn code(&mut self, code: u32, end: u64, most: usize) {
        self.push(TimelineSegment::Code(code), end, most);
    }

    /// Continues until `end` by waiting.
    pub(super) fn wait(&mut self, shares: Vec<Share>, end: u64, most: usize) {
        self.push(TimelineSegment::Wait(shares.into()), end, most);
    }

    fn push(&mut self, stretch: TimelineSegment, end: u64, most: usize) {
        if end <= self.at {
            return;
        }
        self.at = end;
        self.entries.push_back(Entry { end, stretch });
        if self.entries.len() <= most {
            return;
        }
        for _ in 0..most / 2 {
            if let Some(entry) = self.entries.pop_front() {
                let time = entry.end - self.old_until;
                self.old.add(&entry.stretch, time, time);
                self.old_until = entry.end;
            }
        }
        self.old.bound();
    }

    /// Returns the sums over the time from `from` to `to`.
    pub(super) fn between(&self, from: u64, to: u64) -> Components {
        let mut sums = Components::default();
        if from < self.old_until {
            sums.add_part(&self.old, self.old_until - from, self.old_until);
        }
        let first = self.entries.partition_point(|entry| entry.end <= from);
        let mut begin = match first.checked_sub(1) {
            Some(before) => self.entries[before].end,
            None => self.old_until,
        };
        for entry in self.entries.range(first..) {
            if begin >= to {
                break;
            }
            let time = entry.end.min(to).saturating_sub(begin.max(from));
            sums.add(&entry.stretch, time, entry.end - begin);
            begin = entry.end;
        }
        sums
    }

    /// Adds a point with a partner.
    pub(super) fn caught_up(&mut self, partner: u32, point: Together) {
        if self.partners.len() >= MOST_PARTNERS && !self.partners.contains_key(&partner) {
            let latest = |points: &[Option<Together>; 2]| points[1].map(|point| point.own);
            let oldest = self
                .partners
                .iter()
                .min_by_key(|(_, points)| latest(points));
            if let Some(oldest) = oldest.map(|(partner, _)| *partner) {
                self.partners.remove(&oldest);
            }
        }
        let points = self.partners.entry(partner).or_default();
        *points = [points[1], Some(point)];
    }

    /// Adds a meeting of several threads.
    pub(super) fn met(&mut self, meeting: u64, at: u64) {
        if self.meetings.len() >= MOST_MEETINGS {
            self.meetings.pop_front();
        }
        self.meetings.push_back((meeting, at));
    }

    /// Returns the points at which this thread had caught up with `partner`.
    pub(super) fn points(&self, partner: u32) -> impl Iterator<Item = Together> {
        let points = self.partners.get(&partner).copied().unwrap_or_default();
        points.into_iter().flatten()
    }

    /// Returns the times of the meetings of both threads.
    pub(super) fn common<'t>(&'t self, other: &'t Self) -> impl Iterator<Item = u64> + 't {
        let others = &other.meetings;
        let both = move |(own, at): &(u64, u64)| {
            let other = others.iter().find(|(meeting, _)| meeting == own)?;
            Some((*at).max(other.1))
        };
        self.meetings.iter().filter_map(both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_entries_are_added_up_and_count_by_their_share() {
        let mut timeline = Timeline::default();
        for number in 1..=20 {
            timeline.code(number as u32 % 2, number * 10, 8);
        }
        let all = timeline.between(0, 200).codes;
        assert_eq!((all[&0], all[&1]), (100, 100));
        // The latest entries are exact.
        let latest = timeline.between(175, 195).codes;
        assert_eq!((latest[&0], latest[&1]), (10, 10));
        // Half of the time of all older entries.
        let half = timeline.between(timeline.old_until / 2, timeline.old_until);
        let sum: u64 = half.codes.values().sum();
        assert_eq!(sum, timeline.old_until / 2);
        assert!(timeline.entries.len() <= 8);
    }

    #[test]
    fn a_part_of_a_wait_has_the_causes_of_the_wait() {
        let mut timeline = Timeline::default();
        let share = |actor, time| Share {
            cause: Cause { actor, code: 1 },
            time,
            direct: true,
        };
        timeline.wait(vec![share(1, 30), share(2, 70)], 100, 8);
        let half = timeline.between(50, 200).waits;
        let of = |actor| half[&Cause { actor, code: 1 }];
        assert_eq!((of(1), of(2)), (15, 35));
    }

    #[test]
    fn partners_and_meetings_are_bounded() {
        let mut timeline = Timeline::default();
        for partner in 0..1000 {
            let at = u64::from(partner);
            timeline.caught_up(partner, Together { own: at, other: at });
            timeline.met(at, at);
        }
        assert_eq!(timeline.partners.len(), MOST_PARTNERS);
        assert_eq!(timeline.points(999).count(), 1);
        assert_eq!(timeline.points(3).count(), 0);
        assert_eq!(timeline.common(&timeline).count(), MOST_MEETINGS);
    }
}
