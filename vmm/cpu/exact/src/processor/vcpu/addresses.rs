//! Cached data about linear addresses beyond the TLB: code pages, non-global pages in the upper half, the modes of
//! the jump caches, and the times of slots' last checks.
//!
//! `memory` records it, and uses it for invalidation.

use std::collections::BTreeSet;

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
    pub(crate) large: BTreeSet<(u64, u64)>,
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
            large: BTreeSet::new(),
            local_above: LocalPages::default(),
            jumps_of: [(u32::MAX, 0); 2],
            slot_asked: vec![0; SLOTS],
        }
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
