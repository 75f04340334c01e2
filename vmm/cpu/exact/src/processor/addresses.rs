//! What is remembered of linear addresses beyond the TLB: pages that code was fetched from, and what a change of
//! address space must forget in the upper half.
//!
//! `memory` notes it and forgets by it.

use belljar_cpu::{Access, PAGE_SIZE};

use crate::processor::mmu::Mapping;

/// Pages remembered of those that code was fetched from.
pub(crate) const FETCHED: usize = 64;

/// No page has this number.
pub(crate) const NOT_FETCHED: (u64, u64) = (u64::MAX, 0);

/// Pages of the upper half that are cached and not global. Nothing that is cached of
/// them reaches beyond the page; see [`explore`](ExactVcpu::explore).
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
