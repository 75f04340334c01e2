//! Sets of lines or pages with marks of use, in place of the order of use.
//!
//! Using an entry marks it. A new entry replaces the first one without a mark, from the place after the last
//! replacement on, and clears the marks up to there (second chance). Using a marked entry changes nothing. `memory`
//! has one of these for each level and each translation buffer.

use crate::processor::CacheParameters;

/// Ways from which on the place of a number is remembered.
const MANY_WAYS: usize = 32;
/// Numbers whose places are remembered; a power of two.
const HINTS: usize = 256;

/// The bit of an entry that marks it as used.
const USED: u32 = 1;

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filled {
    /// Number of the place.
    pub place: usize,
    /// Ways of the set whose mark was cleared or whose entry was replaced, as a mask of the first 64.
    pub cleared: u64,
}

/// A set-associative table of numbers.
#[derive(Debug)]
pub(super) struct Sets {
    /// By set and way: zero if empty, or the number above the set's bits plus one, and the mark.
    entries: Box<[u32]>,
    /// The way after the last replacement, by set.
    hands: Box<[u8]>,
    ways: usize,
    set_bits: u32,
    /// By the lowest bits of a number, the place where it was found last, if there are many ways. Only for speed.
    hints: Box<[u32]>,
}

impl Sets {
    /// Empty sets: `entries` divided by `ways` is a power of two, and there are at most 256 ways.
    pub(super) fn new(entries: u32, ways: u32) -> Self {
        let sets = (entries / ways.max(1)).max(1);
        Self {
            entries: vec![0; entries as usize].into(),
            hands: vec![0; sets as usize].into(),
            ways: ways as usize,
            set_bits: sets.ilog2(),
            hints: match ways as usize >= MANY_WAYS {
                true => vec![0; HINTS].into(),
                false => Box::default(),
            },
        }
    }

    /// The empty sets of a level.
    pub(super) fn of(cache: &CacheParameters) -> Self {
        Self::new(cache.lines(), cache.ways)
    }

    /// Number of places.
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }

    fn set(&self, number: u64) -> usize {
        (number & ((1 << self.set_bits) - 1)) as usize
    }

    /// The entry of a number, without its mark.
    fn entry(&self, number: u64) -> u32 {
        ((number >> self.set_bits) as u32).wrapping_add(1) << 1
    }

    /// The place of `number`.
    pub(super) fn find(&self, number: u64) -> Option<usize> {
        let entry = self.entry(number);
        let start = self.set(number) * self.ways;
        let is_it = |known: &u32| known & !USED == entry;
        // Four at a time: hosts compare them at once.
        let (fours, rest) = self.entries[start..start + self.ways].as_chunks::<4>();
        for (at, four) in fours.iter().enumerate() {
            let found = four.map(|known| u32::from(is_it(&known)));
            if found.iter().fold(0, |any, one| any | one) != 0 {
                let way = four.iter().position(is_it)?;
                return Some(start + at * 4 + way);
            }
        }
        let way = rest.iter().position(is_it)?;
        Some(start + fours.len() * 4 + way)
    }

    /// The place of `number`, if it is marked.
    pub(super) fn find_used(&self, number: u64) -> Option<usize> {
        let place = self.find(number)?;
        (self.entries[place] & USED != 0).then_some(place)
    }

    /// Marks `number` as used, if it is there; returns its place.
    pub(super) fn touch(&mut self, number: u64) -> Option<usize> {
        let place = match self.hints.is_empty() {
            true => self.find(number)?,
            false => self.find_hinted(number)?,
        };
        self.entries[place] |= USED;
        Some(place)
    }

    /// As [`find`](Self::find), first where the number was found last.
    fn find_hinted(&mut self, number: u64) -> Option<usize> {
        let hint = number as usize % HINTS;
        let place = self.hints[hint] as usize;
        // A number is only ever in its own set.
        if place / self.ways == self.set(number)
            && self.entries[place] & !USED == self.entry(number)
        {
            return Some(place);
        }
        let place = self.find(number)?;
        self.hints[hint] = place as u32;
        Some(place)
    }

    /// Adds `number`, which is not there, as used.
    pub(super) fn insert(&mut self, number: u64) -> Filled {
        let (entry, number) = (self.entry(number), self.set(number));
        let start = number * self.ways;
        let hand = &mut self.hands[number];
        let mut cleared = 0;
        loop {
            let way = usize::from(*hand);
            *hand = ((way + 1) % self.ways) as u8;
            cleared |= 1u64.checked_shl(way as u32).unwrap_or(0);
            let known = &mut self.entries[start + way];
            if *known & USED == 0 {
                *known = entry | USED;
                return Filled {
                    place: start + way,
                    cleared,
                };
            }
            *known &= !USED;
        }
    }

    /// The hands, and the entries that are not empty, by place.
    pub(super) fn saved(&self) -> (Vec<u8>, Vec<(u32, u32)>) {
        let filled = self.entries.iter().zip(0..);
        let filled = filled.filter_map(|(&entry, place)| (entry != 0).then_some((place, entry)));
        (self.hands.to_vec(), filled.collect())
    }

    /// Loads saved contents; false if they do not fit.
    pub(super) fn load(&mut self, (hands, entries): &(Vec<u8>, Vec<(u32, u32)>)) -> bool {
        let fits = hands.len() == self.hands.len()
            && hands.iter().all(|&hand| usize::from(hand) < self.ways)
            && entries
                .iter()
                .all(|&(place, _)| (place as usize) < self.entries.len());
        if fits {
            self.hands.copy_from_slice(hands);
            self.entries.fill(0);
            for &(place, entry) in entries {
                self.entries[place as usize] = entry;
            }
        }
        fits
    }
}
