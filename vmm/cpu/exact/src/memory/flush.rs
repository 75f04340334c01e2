//! Invalidation of cached data about address spaces: translations of data and code, and jump caches
//! (Intel SDM vol. 3, 4.10.4).
//!
//! A new CR3 keeps global pages, and kernels map nearly all of themselves as global. Caches do not
//! mark global pages: entries in the lower half of the address space are assumed to be local,
//! entries in the upper half global, and a list has the few exceptions there.

use belljar_cpu::{Access, PAGE_SIZE};
use belljar_translate::architecture::{cr4, efer, is_above};

use crate::processor::mmu::PageMapping;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::addresses::{FETCHED, LocalPages, NOT_FETCHED};

/// The large pages that may contain a linear address: size and number.
fn large_pages(linear: u64) -> [(u64, u64); 2] {
    [1 << 21, 1 << 30].map(|bytes| (bytes, linear / bytes))
}

impl ExactVcpu {
    /// Records data about a mapping that is about to be cached, for its invalidation.
    pub(crate) fn note_mapping(&mut self, linear: u64, mapping: &PageMapping, access: Access) {
        if mapping.page_bytes > PAGE_SIZE {
            let page = (mapping.page_bytes, linear / mapping.page_bytes);
            if !self.addresses.large.contains(&page) {
                self.addresses.large.insert(page);
            }
        }
        if is_above(linear) && !mapping.global {
            self.addresses.local_above.note(linear, mapping, access);
        }
    }

    /// Invalidates all address spaces, including global pages.
    pub(crate) fn flush_translations(&mut self) {
        self.statistics.complete_flushes += 1;
        self.flush_lines();
        for view in &mut self.context.views {
            view.flush_tlb();
            view.jumps.flush();
        }
        self.addresses.large.clear();
        self.addresses.local_above = LocalPages::default();
        *self.addresses.fetched = [[NOT_FETCHED; FETCHED]; 2];
        self.flush_slots();
    }

    /// Invalidates the present address space, except for global pages.
    pub(crate) fn flush_address_space(&mut self) {
        if self.addresses.local_above.too_many || self.state.system.cr4 & cr4::PGE == 0 {
            return self.flush_translations();
        }
        self.statistics.address_spaces += 1;
        self.flush_lines();
        for view in &mut self.context.views {
            view.flush_below();
            view.jumps.flush_below();
        }
        self.addresses
            .large
            .retain(|&(bytes, number)| is_above(number.wrapping_mul(bytes)));
        for page in self.addresses.fetched.as_flattened_mut() {
            if !is_above(page.0 << 12) {
                *page = NOT_FETCHED;
            }
        }
        let pages = std::mem::take(&mut self.addresses.local_above.pages);
        self.context.slots.flush_below_and(&pages);
        for page in pages {
            for view in &mut self.context.views {
                view.forget_translation(page);
            }
        }
    }

    /// Invalidates a page of the address space.
    pub(crate) fn flush_page(&mut self, linear: u64) {
        let long = self.state.system.efer & efer::LMA != 0;
        if !long
            || large_pages(linear)
                .iter()
                .any(|page| self.addresses.large.contains(page))
        {
            // The TLB has its parts in many entries.
            return self.flush_translations();
        }
        self.statistics.pages_flushed += 1;
        self.flush_lines();
        for view in &mut self.context.views {
            view.flush_page(linear);
            view.jumps.forget_into(linear);
        }
        for fetched in &mut *self.addresses.fetched {
            let page = &mut fetched[(linear >> 12) as usize % FETCHED];
            if page.0 == linear >> 12 {
                *page = NOT_FETCHED;
            }
        }
        self.context.slots.flush_page(linear);
    }

    /// Clears the slots of group checks.
    pub(crate) fn flush_slots(&mut self) {
        self.context.slots.flush();
    }
}
