//! What is remembered of linear addresses beyond the TLB: pages that code was fetched from, what a change of
//! address space must forget in the upper half, what the jump caches hold, and when slots were worth a question.
//!
//! `memory` notes it and forgets by it.

use std::collections::BTreeSet;

use belljar_cpu::{Access, PAGE_SIZE};
use belljar_translate::context::SLOTS;

use crate::processor::mmu::Mapping;

/// Pages remembered of those that code was fetched from.
pub(crate) const FETCHED: usize = 64;

/// No page has this number.
pub(crate) const NOT_FETCHED: (u64, u64) = (u64::MAX, 0);

/// What a vCPU remembers of linear addresses beyond the TLB.
pub(crate) struct Addresses {
    /// Pages that code was fetched from, supervisor and user: number and physical address.
    pub(crate) fetched: Box<[[(u64, u64); FETCHED]; 2]>,
    /// Large pages of which the TLB may hold parts: bytes and number.
    pub(crate) large: BTreeSet<(u64, u64)>,
    /// What a change of address space must forget in the upper half.
    pub(crate) local_above: LocalPages,
    /// Under which circumstances the jump caches, supervisor's and user's, were filled: the mode and the base of CS.
    pub(crate) jumps_of: [(u32, u64); 2],
    /// Instructions retired when a slot was last asked for its worth.
    pub(crate) slot_asked: Vec<u64>,
}

impl Default for Addresses {
    /// Nothing was seen yet.
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

/// Pages of the upper half that are cached and not global. Nothing that is cached of
/// them reaches beyond the page; `explore` stops there.
#[derive(Default)]
pub(crate) struct LocalPages {
    pub(crate) pages: Vec<u64>,
    /// There are more, or large ones, or such that code was fetched from.
    pub(crate) too_many: bool,
}

impl LocalPages {
    pub(crate) const MOST: usize = 32;

    pub(crate) fn note(&mut self, linear: u64, mapping: &Mapping, access: Access) {
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
