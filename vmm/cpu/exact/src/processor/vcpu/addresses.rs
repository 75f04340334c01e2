//! Cached data about linear addresses beyond the TLB: code pages, non-global pages in the upper half, the modes of
//! the jump caches, and the times of slots' last checks.
//!
//! `memory` records it, and uses it for invalidation.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use belljar_cpu::{Access, PAGE_SIZE};
use belljar_translate::context::SLOTS;

use crate::processor::mmu::PageMapping;

/// Number of cached code pages.
pub(crate) const FETCHED: usize = 64;

/// An invalid page number.
pub(crate) const NOT_FETCHED: (u64, u64) = (u64::MAX, 0);

/// A vCPU's cached data about linear addresses beyond the TLB.
pub(crate) struct Addresses {
    /// Pages from which code was fetched, supervisor and user: number and physical address.
    pub(crate) fetched: Box<[[(u64, u64); FETCHED]; 2]>,
    /// Large pages that the TLB may have parts of: size and number.
    pub(crate) large: LargePages,
    /// Pages of the upper half that a change of address space must invalidate.
    pub(crate) local_above: LocalPages,
    /// The mode and the base of CS for which the jump caches, supervisor's and user's, were filled.
    pub(crate) jumps_of: [(u32, u64); 2],
    /// Number of instructions retired when a slot's usefulness was last checked.
    pub(crate) slot_asked: Vec<u64>,
}

impl Default for Addresses {
    /// No cached data.
    fn default() -> Self {
        Self {
            fetched: Box::new([[NOT_FETCHED; FETCHED]; 2]),
            large: LargePages::default(),
            local_above: LocalPages::default(),
            jumps_of: [(u32::MAX, 0); 2],
            slot_asked: vec![0; SLOTS],
        }
    }
}

/// Large pages, by size and number, and the sizes of pages that were asked for lately.
pub(crate) struct LargePages {
    pages: BTreeSet<(u64, u64)>,
    /// By the lowest bits of the number of 4 KiB: that number and the bytes of its page. Only for speed.
    sizes: Box<[(u64, u64)]>,
}

/// Number of sizes that are kept; a power of two.
const SIZES: usize = 256;
/// Sizes of large pages: of 64-bit, 32-bit and 64-bit tables.
const LARGE: [u64; 3] = [1 << 21, 1 << 22, 1 << 30];

impl Default for LargePages {
    fn default() -> Self {
        Self {
            pages: BTreeSet::new(),
            sizes: vec![NOT_FETCHED; SIZES].into(),
        }
    }
}

impl LargePages {
    /// Bytes of the page that contains `linear`, which was translated.
    #[inline]
    pub(crate) fn bytes_at(&mut self, linear: u64) -> u64 {
        let number = linear / PAGE_SIZE;
        let known = &mut self.sizes[number as usize % SIZES];
        if known.0 != number {
            let is_in = |bytes: &u64| self.pages.contains(&(*bytes, linear / bytes));
            *known = (number, LARGE.into_iter().find(is_in).unwrap_or(PAGE_SIZE));
        }
        known.1
    }
}

impl Deref for LargePages {
    type Target = BTreeSet<(u64, u64)>;

    fn deref(&self) -> &Self::Target {
        &self.pages
    }
}

impl DerefMut for LargePages {
    /// A change of the pages: no size is known.
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.sizes.fill(NOT_FETCHED);
        &mut self.pages
    }
}

/// Cached pages of the upper half that are not global. No cached range extends beyond such a page; `explore` stops
/// there.
#[derive(Default)]
pub(crate) struct LocalPages {
    pub(crate) pages: Vec<u64>,
    /// True if there are more, or large ones, or ones from which code was fetched.
    pub(crate) too_many: bool,
}

impl LocalPages {
    pub(crate) const MOST: usize = 32;

    pub(crate) fn note(&mut self, linear: u64, mapping: &PageMapping, access: Access) {
        let page = linear & !(PAGE_SIZE - 1);
        if self.too_many {
            return;
        }
        if mapping.page_bytes > PAGE_SIZE || access == Access::Fetch {
            self.too_many = true;
        } else if !self.pages.contains(&page) {
            self.pages.push(page);
            self.too_many = self.pages.len() > Self::MOST;
        }
    }
}
