//! The bytes of a pool's pages: found by their hash, then compared.
//!
//! A page is added once and never changed or removed, so its number stays valid; equal bytes at
//! another linear address are another page, up to `PLACES` of them. `pool` looks up pages when a
//! node first runs code in one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use twox_hash::XxHash3_64;

use super::{PageBytes, PageId};

/// The largest number of linear addresses for pages with the same bytes.
const PLACES: usize = 4;
/// The linear page number of relative code, whose addresses count from its page's beginning.
const RELATIVE: u64 = 0;

struct Page {
    bytes: Arc<PageBytes>,
    /// Number of the linear page.
    place: u64,
}

pub(super) struct PoolContents {
    pages: boxcar::Vec<Page>,
    by_hash: Mutex<BTreeMap<u64, Vec<PageId>>>,
    /// The largest number of pages.
    limit: usize,
}

impl PoolContents {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            pages: boxcar::Vec::new(),
            by_hash: Mutex::default(),
            limit,
        }
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.count()
    }

    /// All pages with their linear page numbers, in order.
    pub(super) fn each(&self) -> impl Iterator<Item = (&PageBytes, u64)> {
        self.pages
            .iter()
            .map(|(_, page)| (&*page.bytes, page.place))
    }

    /// Adds the next page of a saved pool.
    pub(super) fn restore(&self, bytes: &PageBytes, place: u64) {
        let hash = XxHash3_64::oneshot(bytes);
        let mut by_hash = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        let hashed = by_hash.entry(hash).or_default();
        let known = hashed.iter().find_map(|&id| {
            let page = self.pages.get(id as usize)?;
            (*page.bytes == *bytes).then(|| page.bytes.clone())
        });
        let bytes = known.unwrap_or_else(|| Arc::new(*bytes));
        hashed.push(self.pages.push(Page { bytes, place }) as PageId);
    }

    /// The page with these bytes at linear page number `place`, which is added if missing; `None`
    /// if there are too many pages, in total or with these bytes.
    pub(super) fn find_or_add(&self, bytes: &PageBytes, place: u64) -> Option<PageId> {
        let hash = XxHash3_64::oneshot(bytes);
        let mut by_hash = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        let hashed = by_hash.entry(hash).or_default();
        let (mut places, mut known) = (0, None);
        for &id in hashed.iter() {
            let Some(page) = self.pages.get(id as usize) else {
                continue;
            };
            if *page.bytes == *bytes {
                if page.place == place {
                    return Some(id);
                }
                places += 1;
                known = Some(page.bytes.clone());
            }
        }
        if places >= PLACES && place != RELATIVE || self.pages() >= self.limit {
            return None;
        }
        let bytes = known.unwrap_or_else(|| Arc::new(*bytes));
        let id = self.pages.push(Page { bytes, place }) as PageId;
        hashed.push(id);
        Some(id)
    }

    /// True if page `id` has these bytes.
    pub(super) fn holds(&self, id: PageId, bytes: &PageBytes) -> bool {
        let page = self.pages.get(id as usize);
        page.is_some_and(|page| *page.bytes == *bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_bytes_and_its_place() {
        let contents = PoolContents::new(3);
        let mut page = [7; 4096];
        assert_eq!(contents.find_or_add(&page, 1), Some(0));
        assert_eq!(contents.find_or_add(&page, 9), Some(1));
        page[4095] = 8;
        assert_eq!(contents.find_or_add(&page, 1), Some(2));
        assert_eq!(contents.find_or_add(&[7; 4096], 9), Some(1));
        assert!(contents.holds(2, &page) && !contents.holds(0, &page));
        assert!(contents.holds(1, &[7; 4096]));
        assert_eq!(
            contents.find_or_add(&[9; 4096], 1),
            None,
            "there is no room"
        );
        assert_eq!(contents.find_or_add(&page, 1), Some(2));
    }

    #[test]
    fn what_stands_somewhere_else_each_time_is_kept_a_few_times() {
        let contents = PoolContents::new(100);
        let found = [0, 1, 2, 3, 4, 5, 3].map(|place| contents.find_or_add(&[7; 4096], place));
        let expected = [Some(0), Some(1), Some(2), Some(3), None, None, Some(3)];
        assert_eq!(found, expected);
    }
}
