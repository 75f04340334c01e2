//! A queue of keys in the order of time, fast where most are due soon.
//!
//! After R. Brown, "Calendar queues: a fast O(1) priority queue implementation for the simulation event set problem", CACM 31 (1988), with days of one
//! length: keys of the present day are sorted, those of the days after it lie unsorted in a ring, and those later still in a heap until the ring has come to them. In what
//! order keys come out depends on the keys alone. Used by [`EventQueue`](crate::EventQueue), and by whoever has events of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Time;

/// What keys are ordered by, before all else.
pub trait Timed: Ord + Copy {
    /// When what it stands for happens.
    fn time(&self) -> Time;
}

/// Bits of picoseconds within a day: half a microsecond, some frames' time on a link.
const DAY_BITS: u32 = 19;
/// Days in the ring: as many as a word has marks.
const DAYS: u64 = u64::BITS as u64;

/// Keys in their order.
#[derive(Clone, Debug)]
pub struct Calendar<K> {
    /// The present day's, and all before it, the last first; empty only if there is no key at all.
    present: Vec<K>,
    /// The present day.
    day: u64,
    /// Those of each day after the present one, by its number modulo [`DAYS`].
    ring: Vec<Vec<K>>,
    /// Which days of the ring have any.
    marks: u64,
    /// Those of later days.
    later: BinaryHeap<Reverse<K>>,
    length: usize,
}

impl<K: Timed> Default for Calendar<K> {
    fn default() -> Self {
        Self {
            present: Vec::new(),
            day: 0,
            ring: (0..DAYS).map(|_| Vec::new()).collect(),
            marks: 0,
            later: BinaryHeap::new(),
            length: 0,
        }
    }
}

impl<K: Timed> Calendar<K> {
    /// Adds a key.
    pub fn push(&mut self, key: K) {
        let day = key.time().as_ps() >> DAY_BITS;
        if self.length == 0 {
            self.day = day;
        }
        self.length += 1;
        if day <= self.day {
            let place = self.present.partition_point(|other| *other > key);
            self.present.insert(place, key);
        } else {
            self.put_off(day, key);
        }
    }

    /// Keeps a key for a day that is to come.
    fn put_off(&mut self, day: u64, key: K) {
        if day - self.day >= DAYS {
            return self.later.push(Reverse(key));
        }
        let place = day % DAYS;
        self.marks |= 1 << place;
        self.ring[place as usize].push(key);
    }

    /// The first key.
    pub fn first(&self) -> Option<&K> {
        self.present.last()
    }

    /// Takes the first key.
    pub fn pop(&mut self) -> Option<K> {
        let key = self.present.pop()?;
        self.length -= 1;
        if self.present.is_empty() && self.length > 0 {
            self.next_day();
        }
        Some(key)
    }

    /// Makes the next day with any keys the present one.
    fn next_day(&mut self) {
        let later = self.later.peek();
        let later = later.map(|Reverse(key)| key.time().as_ps() >> DAY_BITS);
        // What has come so near that the ring has room for it may come before all that is in the ring.
        self.day = match (self.next_in_ring(), later) {
            (Some(day), Some(later)) => day.min(later),
            (Some(day), None) => day,
            (None, later) => later.unwrap_or(self.day),
        };
        while let Some(Reverse(key)) = self.later.peek()
            && (key.time().as_ps() >> DAY_BITS) - self.day < DAYS
        {
            let key = *key;
            self.later.pop();
            let day = key.time().as_ps() >> DAY_BITS;
            self.put_off(day, key);
        }
        let place = self.day % DAYS;
        self.marks &= !(1 << place);
        // The ring's day has the present's room from now on.
        std::mem::swap(&mut self.present, &mut self.ring[place as usize]);
        self.present.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// The first day after the present one of which the ring has any keys.
    fn next_in_ring(&self) -> Option<u64> {
        let begin = self.day + 1;
        // With the mark of the next day first.
        let marks = self.marks.rotate_right((begin % DAYS) as u32);
        (marks != 0).then(|| begin + u64::from(marks.trailing_zeros()))
    }

    /// All keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        let later = self.later.iter().map(|Reverse(key)| key);
        self.present
            .iter()
            .chain(self.ring.iter().flatten())
            .chain(later)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Seed};

    impl Timed for (Time, u64) {
        fn time(&self) -> Time {
            self.0
        }
    }

    /// Keys near, far, very far, equal in time and in the past come out as a sorted set has them.
    #[test]
    fn keys_come_out_in_their_order_whatever_their_times() {
        for seed in 0..40 {
            let mut random = Random::new(Seed(seed), "calendar", 0);
            let mut calendar = Calendar::default();
            let mut sorted = std::collections::BTreeSet::new();
            let mut now = random.next_u64() >> (random.next_u64() % 60);
            for number in 0..4000 {
                if random.next_u64() % 5 < 2 {
                    let key: Option<(Time, u64)> = calendar.pop();
                    assert_eq!(key, sorted.pop_first());
                    now = key.map_or(now, |(time, _)| time.as_ps());
                } else {
                    let ahead = random.next_u64() >> (20 + random.next_u64() % 44);
                    let time = match random.next_u64() % 20 {
                        0 => now.saturating_sub(ahead),
                        1 => u64::MAX - ahead % 3,
                        _ => now.saturating_add(ahead),
                    };
                    let key = (Time::from_ps(time), number);
                    calendar.push(key);
                    sorted.insert(key);
                }
                assert_eq!(calendar.first(), sorted.first());
                assert_eq!(calendar.len(), sorted.len());
            }
            let mut all: Vec<_> = calendar.iter().copied().collect();
            all.sort_unstable();
            assert!(all.iter().eq(&sorted));
            while let Some(key) = sorted.pop_first() {
                assert_eq!(calendar.pop(), Some(key));
            }
            assert!(calendar.is_empty() && calendar.pop().is_none());
        }
    }
}
