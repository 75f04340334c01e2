//! A queue of keys ordered by time, fast if most keys are due soon.
//!
//! After R. Brown, "Calendar queues: a fast O(1) priority queue implementation for the simulation event set problem", CACM 31 (1988). Keys of the present day are sorted,
//! keys of the following days are unsorted in a ring, and later keys are in a heap until the ring reaches them. The length of a day adapts to the number of keys per day.
//! The order depends on the keys alone. Used by [`EventQueue`](crate::EventQueue) and by models with events of their own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Time;

/// A key that is ordered by time first.
pub trait Timed: Ord + Copy {
    /// Time of the key's event.
    fn time(&self) -> Time;
}

/// Initial length of a day in bits of picoseconds: half a microsecond, the time of some frames on a link.
const DAY_BITS: u32 = 19;
/// Bits of the shortest and the longest day.
const SHORTEST_BITS: u32 = 6;
const LONGEST_BITS: u32 = 40;
/// Days in the ring at first, and at most: powers of two.
const DAYS: u64 = 256;
const MOST_DAYS: u64 = 1 << 14;
/// Days with a mark in one word.
const WORD: u64 = u64::BITS as u64;
/// Limit on keys of the present day that are moved for an insertion.
const MOST_MOVED: usize = 16;
/// Minimum number of removed keys between two checks of the length of days.
const LOOK: u32 = 2048;
/// Keys per day above which days become shorter.
const MANY: u32 = 8;

/// Keys in their order.
#[derive(Clone, Debug)]
pub struct Calendar<K> {
    /// Keys of the present day and before, the last first; with `soon`, empty only if there is no key at all.
    present: Vec<K>,
    /// Keys of the present day that were added after it began and that belong deep in it.
    soon: BinaryHeap<Reverse<K>>,
    /// True if the only key in `present` is of a day beyond the ring, which is empty up to that key. The present day has not reached it: earlier keys may follow.
    lone: bool,
    /// The present day.
    day: u64,
    /// Length of a day in bits of picoseconds.
    bits: u32,
    /// Keys of each day after the present one, by its number modulo the number of days.
    ring: Vec<Vec<K>>,
    /// Empty buffers of past days, which later days take over, so that few of them are in use.
    spare: Vec<Vec<K>>,
    /// Bits of the ring's days that have keys.
    marks: Vec<u64>,
    /// Keys of later days.
    later: BinaryHeap<Reverse<K>>,
    length: usize,
    use_of_days: UseOfDays,
}

/// The distribution of keys over days since the last check of the length of days.
#[derive(Clone, Copy, Debug, Default)]
struct UseOfDays {
    /// Removed keys.
    popped: u32,
    /// Days that began.
    begun: u32,
    /// Keys that were added beyond the ring.
    far: u32,
}

impl UseOfDays {
    /// True if the ring ends too soon, and its days are not too short.
    fn is_short(self) -> bool {
        self.far > self.popped / 4 && self.popped / self.begun.max(1) >= 2
    }

    /// The number of bits by which days are too long (positive) or too short.
    fn excess(self) -> i32 {
        let each = self.popped / self.begun.max(1);
        if each > MANY && self.far <= self.popped / 4 {
            // Keys of one time share a day of any length: shortening by steps shows whether it helps.
            return (each / (MANY / 2)).ilog2().min(2) as i32;
        }
        match each < 2 && self.far > self.popped / 4 {
            true => -2,
            false => 0,
        }
    }
}

impl<K: Timed> Default for Calendar<K> {
    fn default() -> Self {
        Self {
            present: Vec::new(),
            soon: BinaryHeap::new(),
            lone: false,
            day: 0,
            bits: DAY_BITS,
            ring: (0..DAYS).map(|_| Vec::new()).collect(),
            spare: Vec::new(),
            marks: vec![0; (DAYS / WORD) as usize],
            later: BinaryHeap::new(),
            length: 0,
            use_of_days: UseOfDays::default(),
        }
    }
}

impl<K: Timed> Calendar<K> {
    /// Adds a key.
    pub fn push(&mut self, key: K) {
        let day = self.day_of(&key);
        if self.length == 0 {
            self.lone = day.saturating_sub(self.day) >= self.days();
            self.length = 1;
            self.day = if self.lone { self.day } else { day };
            return self.present.push(key);
        }
        self.length += 1;
        if self.lone && self.present.last().is_some_and(|lone| key < *lone) {
            self.put_back();
            if day > self.day {
                self.put_off(day, key);
                return self.next_day();
            }
        }
        if day > self.day {
            return self.put_off(day, key);
        }
        let place = self.present.partition_point(|other| *other > key);
        match self.present.len() - place <= MOST_MOVED {
            true => self.present.insert(place, key),
            false => self.soon.push(Reverse(key)),
        }
    }

    /// Puts the lone key back among later ones.
    fn put_back(&mut self) {
        self.lone = false;
        self.later.extend(self.present.drain(..).map(Reverse));
    }

    fn day_of(&self, key: &K) -> u64 {
        key.time().as_ps() >> self.bits
    }

    /// The number of days in the ring.
    fn days(&self) -> u64 {
        self.ring.len() as u64
    }

    /// A day's place in the ring.
    fn place(&self, day: u64) -> u64 {
        day & (self.days() - 1)
    }

    /// Stores a key for a later day.
    fn put_off(&mut self, day: u64, key: K) {
        if day - self.day >= self.days() {
            self.use_of_days.far += 1;
            return self.later.push(Reverse(key));
        }
        let place = self.place(day);
        self.marks[(place / WORD) as usize] |= 1 << (place % WORD);
        let own = &mut self.ring[place as usize];
        if own.capacity() == 0 {
            *own = self.spare.pop().unwrap_or_default();
        }
        own.push(key);
    }

    /// The first key.
    #[inline]
    pub fn first(&self) -> Option<&K> {
        let first = self.present.last();
        match self.soon.is_empty() {
            true => first,
            false => self.first_of_both(first),
        }
    }

    fn first_of_both<'a>(&'a self, first: Option<&'a K>) -> Option<&'a K> {
        let soon = self.soon.peek().map(|Reverse(key)| key);
        match (first, soon) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Removes the first key, unless it is later than `end`.
    #[inline]
    pub fn pop_until(&mut self, end: Time) -> Option<K> {
        match self.first()?.time() <= end {
            true => self.pop(),
            false => None,
        }
    }

    /// Removes the first key.
    pub fn pop(&mut self) -> Option<K> {
        let key = match self.soon.is_empty() {
            true => self.present.pop(),
            false => self.pop_of_both(),
        }?;
        self.length -= 1;
        self.use_of_days.popped += 1;
        if std::mem::take(&mut self.lone) {
            // Further keys of its day follow in the ring or beyond it.
            self.day = self.day.max(self.day_of(&key).saturating_sub(1));
        }
        if self.present.is_empty() && self.soon.is_empty() && self.length > 0 {
            self.next_day();
        }
        Some(key)
    }

    fn pop_of_both(&mut self) -> Option<K> {
        let soon = self.soon.peek().map(|Reverse(key)| key);
        match self.present.last().is_none_or(|one| soon < Some(one)) {
            true => self.soon.pop().map(|Reverse(key)| key),
            false => self.present.pop(),
        }
    }

    /// Makes the next day with keys the present one.
    fn next_day(&mut self) {
        let later = self.later.peek();
        let later = later.map(|Reverse(key)| self.day_of(key));
        let next = self.next_in_ring();
        if next.is_none() && later.is_some_and(|later| later - self.day >= self.days()) {
            // A day far ahead would hold all keys that are added before it, sorted by a heap.
            self.lone = true;
            self.present
                .extend(self.later.pop().map(|Reverse(key)| key));
            return;
        }
        // Later keys that now fit into the ring may precede all keys in the ring.
        self.day = match (next, later) {
            (Some(day), Some(later)) => day.min(later),
            (Some(day), None) => day,
            (None, later) => later.unwrap_or(self.day),
        };
        while let Some(Reverse(key)) = self.later.peek()
            && self.day_of(key) - self.day < self.days()
        {
            let key = *key;
            self.later.pop();
            self.put_off(self.day_of(&key), key);
        }
        let place = self.place(self.day);
        self.marks[(place / WORD) as usize] &= !(1 << (place % WORD));
        let next = std::mem::take(&mut self.ring[place as usize]);
        self.spare.push(std::mem::replace(&mut self.present, next));
        self.use_of_days.begun += 1;
        if self.use_of_days.popped >= LOOK.max(self.length.min(u32::MAX as usize) as u32) {
            self.measure();
        }
        self.present.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Makes days shorter if they have many keys, longer if they have few and the ring ends too soon, and the ring longer if only the latter. The present day need not be
    /// sorted.
    fn measure(&mut self) {
        let use_of_days = std::mem::take(&mut self.use_of_days);
        let bits = self.bits.saturating_add_signed(-use_of_days.excess());
        let bits = bits.clamp(SHORTEST_BITS, LONGEST_BITS);
        let grows = use_of_days.is_short() && self.days() < MOST_DAYS;
        if bits == self.bits && !grows {
            return;
        }
        self.bits = bits;
        let mut all = std::mem::take(&mut self.present);
        all.extend(self.ring.iter_mut().flat_map(|day| day.drain(..)));
        all.extend(self.later.drain().map(|Reverse(key)| key));
        if grows {
            self.ring.resize_with(self.ring.len() * 4, Vec::new);
        }
        self.marks = vec![0; self.ring.len() / WORD as usize];
        let first = all.iter().map(|key| self.day_of(key)).min();
        self.day = first.unwrap_or(0);
        for key in all {
            match self.day_of(&key) {
                day if day > self.day => self.put_off(day, key),
                _ => self.present.push(key),
            }
        }
        self.use_of_days = UseOfDays::default();
    }

    /// The first day after the present one with keys in the ring.
    fn next_in_ring(&self) -> Option<u64> {
        let begin = self.day + 1;
        let (word, bit) = (self.place(begin) / WORD, begin % WORD);
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

    /// All keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        let heaps = self.later.iter().chain(&self.soon);
        self.present
            .iter()
            .chain(self.ring.iter().flatten())
            .chain(heaps.map(|Reverse(key)| key))
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests;
