//! Frames on their way to switches, by time.
//!
//! Time is divided into days that are no longer than the least passage of a link. Frames that arrive at switches on one day therefore only cause arrivals on later days:
//! a day is complete when it begins, and its frames are sorted once. Frames far ahead are in a heap. Used by the network of fixed routes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use belljar_sim::{Span, Time};

/// Days in the ring.
const DAYS: u64 = 1024;
/// Days with a mark in one word.
const WORD: u64 = u64::BITS as u64;
/// No day.
const NEVER: u64 = u64::MAX;

/// A frame's arrival at a switch. Frames that arrive at the same time are in the order of the ports that sent them; no two arrivals have the same time and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    pub(super) time: Time,
    /// The direction of the link that it arrives over.
    pub(super) source: u32,
    /// Number of the frame's contents.
    pub(super) frame: u32,
    /// The position of the next direction in the list of all routes.
    pub(super) position: u32,
    /// Bytes of the frame.
    pub(super) length: u32,
}

impl Hop {
    /// Returns the key of its order.
    pub(super) fn key(&self) -> (Time, u32) {
        (self.time, self.source)
    }
}

/// Arrivals at switches, by day.
#[derive(Clone, Debug)]
pub(super) struct Days {
    /// Length of a day in bits of picoseconds.
    bits: u32,
    /// The last day that was taken.
    day: u64,
    /// The first day with arrivals after it.
    next: u64,
    /// Arrivals of the days after `day`, by the day's number modulo [`DAYS`].
    ring: Vec<Vec<Hop>>,
    /// Bits of the ring's days that have arrivals.
    marks: [u64; (DAYS / WORD) as usize],
    /// Arrivals of later days.
    later: BinaryHeap<Reverse<Hop>>,
    /// Buffers of past days, which later days take over, so that few of them are in use.
    spare: Vec<Vec<Hop>>,
    /// The unsorted arrivals of a day, and the ends of its parts.
    unsorted: Vec<Hop>,
    ends: Vec<u32>,
}

/// Arrivals of a day from which it is divided into parts before it is sorted, and of one part.
const MANY: usize = 32;
const PART: usize = 4;

impl Days {
    /// Creates days without arrivals that are no longer than this passage.
    pub(super) fn new(least_passage: Span) -> Self {
        Self {
            bits: least_passage.as_ps().max(1).ilog2(),
            day: 0,
            next: NEVER,
            ring: (0..DAYS).map(|_| Vec::new()).collect(),
            marks: Default::default(),
            later: BinaryHeap::new(),
            spare: Vec::new(),
            unsorted: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Returns the begin of the next day with arrivals.
    #[inline]
    pub(super) fn next_time(&self) -> Option<Time> {
        (self.next != NEVER).then(|| Time::from_ps(self.next << self.bits))
    }

    /// Adds an arrival on a later day than the last one taken.
    #[inline]
    pub(super) fn push(&mut self, hop: Hop) {
        let day = (hop.time.as_ps() >> self.bits).max(self.day + 1);
        self.next = self.next.min(day);
        match day - self.day < DAYS {
            true => self.put(day, hop),
            false => self.later.push(Reverse(hop)),
        }
    }

    fn put(&mut self, day: u64, hop: Hop) {
        let place = day % DAYS;
        self.marks[(place / WORD) as usize] |= 1 << (place % WORD);
        let own = &mut self.ring[place as usize];
        if own.capacity() == 0 {
            *own = self.spare.pop().unwrap_or_default();
        }
        own.push(hop);
    }

    /// Replaces `hops` by the arrivals of the next day, in order.
    pub(super) fn take(&mut self, hops: &mut Vec<Hop>) {
        hops.clear();
        if self.next == NEVER {
            return;
        }
        self.day = self.next;
        while let Some(Reverse(hop)) = self.later.peek()
            && (hop.time.as_ps() >> self.bits) - self.day < DAYS
        {
            let hop = *hop;
            self.later.pop();
            self.put(hop.time.as_ps() >> self.bits, hop);
        }
        let place = self.day % DAYS;
        self.marks[(place / WORD) as usize] &= !(1 << (place % WORD));
        let before = std::mem::replace(hops, std::mem::take(&mut self.ring[place as usize]));
        self.spare.push(before);
        self.sort(hops);
        let later = self.later.peek();
        let later = later.map_or(NEVER, |Reverse(hop)| hop.time.as_ps() >> self.bits);
        self.next = self.next_in_ring().unwrap_or(NEVER).min(later);
    }

    /// Sorts the arrivals of one day.
    fn sort(&mut self, hops: &mut Vec<Hop>) {
        if hops.len() < MANY {
            return hops.sort_unstable_by_key(Hop::key);
        }
        // Parts of the day are in order before their arrivals are.
        let parts = (hops.len() / PART).next_power_of_two().ilog2();
        let parts = parts.min(self.bits);
        let (shift, mask) = (self.bits - parts, (1_u64 << self.bits) - 1);
        let part = |hop: &Hop| ((hop.time.as_ps() & mask) >> shift) as usize;
        self.ends.clear();
        self.ends.resize(1 << parts, 0);
        for hop in &*hops {
            self.ends[part(hop)] += 1;
        }
        let mut sum = 0;
        for end in &mut self.ends {
            // First the begin of each part.
            sum += std::mem::replace(end, sum);
        }
        std::mem::swap(&mut self.unsorted, hops);
        hops.clear();
        hops.extend_from_slice(&self.unsorted);
        for hop in &self.unsorted {
            let end = &mut self.ends[part(hop)];
            hops[*end as usize] = *hop;
            *end += 1;
        }
        let mut begin = 0;
        for end in &self.ends {
            hops[begin..*end as usize].sort_unstable_by_key(Hop::key);
            begin = *end as usize;
        }
    }

    /// Returns the first day after the last one taken with arrivals in the ring.
    fn next_in_ring(&self) -> Option<u64> {
        let begin = self.day + 1;
        let (word, bit) = (begin % DAYS / WORD, begin % WORD);
        let words = self.marks.len() as u64;
        // The next day's word first, without the days before it; finally the same word with those days, which are the ring's last.
        (0..=words).find_map(|turn| {
            let marks = self.marks[((word + turn) % words) as usize];
            let marks = match turn {
                0 => marks & (u64::MAX << bit),
                _ => marks,
            };
            let first = u64::from(marks.trailing_zeros());
            (marks != 0).then(|| begin - bit + turn * WORD + first)
        })
    }

    /// Returns all arrivals, in their order.
    pub(super) fn sorted(&self) -> Vec<Hop> {
        let later = self.later.iter().map(|Reverse(hop)| *hop);
        let mut all: Vec<Hop> = self.ring.iter().flatten().copied().chain(later).collect();
        all.sort_unstable_by_key(Hop::key);
        all
    }

    /// Replaces all arrivals.
    pub(super) fn restore(&mut self, hops: impl Iterator<Item = Hop>) {
        *self = Self {
            bits: self.bits,
            ..Self::new(Span::ZERO)
        };
        let mut hops: Vec<Hop> = hops.collect();
        hops.sort_unstable_by_key(Hop::key);
        let first = hops.first().map_or(0, |hop| hop.time.as_ps() >> self.bits);
        self.day = first.saturating_sub(1);
        hops.into_iter().for_each(|hop| self.push(hop));
    }
}

#[cfg(test)]
mod tests {
    use belljar_sim::{Random, Seed};

    use super::*;

    #[test]
    fn arrivals_come_day_by_day_in_the_order_of_time_and_port() {
        for seed in 0..4 {
            let mut random = Random::new(Seed(seed), "days", 0);
            let mut days = Days::new(Span::from_ps(1000));
            let (mut hops, mut taken, mut given, mut last) = (Vec::new(), 0, 0, (Time::ZERO, 0));
            let mut now = 512;
            for turn in 0..600 {
                for _ in 0..random.next_u64() % 90 {
                    // Near, at the end of the ring, and far beyond it.
                    let ahead = 1000 + random.next_u64() % [2_000, 600_000, 5_000_000][turn % 3];
                    given += 1;
                    days.push(Hop {
                        time: Time::from_ps(now + ahead),
                        source: given,
                        frame: 0,
                        position: 0,
                        length: 0,
                    });
                }
                let all = days.sorted();
                assert_eq!(all.len() as u32, given - taken);
                let first = all.first().map(Hop::key);
                let Some(begin) = days.next_time() else {
                    continue;
                };
                let begins = Time::from_ps(first.unwrap().0.as_ps() / 512 * 512);
                assert_eq!(begin, begins);
                now = begin.as_ps();
                days.take(&mut hops);
                assert_eq!(hops.first().map(Hop::key), first);
                for hop in &hops {
                    assert!(hop.key() > last && hop.time >= begin);
                    assert!(hop.time < begin + Span::from_ps(512));
                    last = hop.key();
                }
                taken += hops.len() as u32;
            }
            let rest = days.sorted();
            let mut other = Days::new(Span::from_ps(1000));
            other.restore(rest.iter().copied());
            assert_eq!(other.next_time(), days.next_time());
            assert_eq!(other.sorted(), rest);
        }
    }
}
