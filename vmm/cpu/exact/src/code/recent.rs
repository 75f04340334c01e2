//! Recent results of lookups by a block's key, in one line of memory each.
//!
//! A search of an index reads a chain of lines, which are cold when many vCPUs take turns. `store` asks here
//! first, for code that runs at the ends of turns.

use std::cell::Cell;

use crate::code::index::{Key, chain_of};

/// A result: its key, and the number of changes that had been made before it.
type Result<T> = Cell<Option<(Key, u64, T)>>;

/// A direct-mapped table of `N` results, a power of two, valid until the next [`change`](Self::change).
#[derive(Debug)]
pub(crate) struct RecentResults<T: Copy, const N: usize> {
    results: Box<[Result<T>]>,
    changes: u64,
}

impl<T: Copy, const N: usize> Default for RecentResults<T, N> {
    fn default() -> Self {
        Self {
            results: vec![Cell::new(None); N].into(),
            changes: 0,
        }
    }
}

impl<T: Copy, const N: usize> RecentResults<T, N> {
    /// Discards all results.
    pub(crate) fn change(&mut self) {
        self.changes += 1;
    }

    /// The result for `key`, from `search` if it is not known. Only found results are kept.
    #[inline]
    pub(crate) fn find(&self, key: Key, search: impl FnOnce() -> Option<T>) -> Option<T> {
        let place = &self.results[chain_of(key, N)];
        if let Some((known, changes, result)) = place.get()
            && known == key
            && changes == self.changes
        {
            return Some(result);
        }
        let result = search()?;
        place.set(Some((key, self.changes, result)));
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_known_until_a_change() {
        let mut recent = RecentResults::<u32, 64>::default();
        let key = |rip: u64| (rip, 0x1000 + rip, 1);
        assert_eq!(recent.find(key(1), || None), None);
        assert_eq!(recent.find(key(1), || Some(5)), Some(5));
        assert_eq!(recent.find(key(1), || None), Some(5));
        assert_eq!(recent.find((1, 0x1001, 2), || None), None);
        recent.change();
        assert_eq!(recent.find(key(1), || None), None);
    }

    #[test]
    fn keys_with_one_place_replace_each_other() {
        let recent = RecentResults::<u32, 64>::default();
        let place = |rip: u64| chain_of((rip, 0, 0), 64);
        let other = (2..).find(|&rip| place(rip) == place(1)).unwrap_or(0);
        assert_eq!(recent.find((1, 0, 0), || Some(1)), Some(1));
        assert_eq!(recent.find((other, 0, 0), || Some(2)), Some(2));
        assert_eq!(recent.find((1, 0, 0), || Some(3)), Some(3));
    }
}
