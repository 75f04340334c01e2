//! A hash table from keys to numbers, whose keys are stored by the caller.
//!
//! Entries are added and never removed, and the table is never iterated, so its order has no effect. `paths` has one
//! each for blocks, contexts and edges.

/// Entries of a new table; a power of two.
const LEAST: usize = 64;

/// Numbers by the hash of their keys.
#[derive(Debug)]
pub(super) struct Table {
    /// The hash, and the number plus one; zero for a free entry.
    entries: Vec<(u64, u32)>,
    count: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            entries: vec![(0, 0); LEAST],
            count: 0,
        }
    }
}

/// A hash of these words.
pub(super) fn hash(words: impl IntoIterator<Item = u64>) -> u64 {
    let mix = |hash: u64, word: u64| {
        let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ product >> 29
    };
    words.into_iter().fold(0x243f_6a88_85a3_08d3, mix)
}

impl Table {
    /// The number whose key has this `hash` and satisfies `is_same`.
    pub(super) fn find(&self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.entries.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (tag, number) = self.entries[at];
            match number.checked_sub(1) {
                None => return None,
                Some(number) if tag == hash && is_same(number) => return Some(number),
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    /// Adds `number` under a `hash` whose key is not in the table.
    pub(super) fn add(&mut self, hash: u64, number: u32) {
        if self.count * 2 >= self.entries.len() {
            self.grow();
        }
        self.count += 1;
        self.insert(hash, number + 1);
    }

    fn insert(&mut self, hash: u64, entry: u32) {
        let mask = self.entries.len() - 1;
        let mut at = hash as usize & mask;
        while self.entries[at].1 != 0 {
            at = (at + 1) & mask;
        }
        self.entries[at] = (hash, entry);
    }

    fn grow(&mut self) {
        let longer = vec![(0, 0); self.entries.len() * 2];
        for (hash, entry) in std::mem::replace(&mut self.entries, longer) {
            if entry != 0 {
                self.insert(hash, entry);
            }
        }
    }
}
