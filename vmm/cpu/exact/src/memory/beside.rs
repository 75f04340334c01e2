//! Seams: addresses at which a program's memory continues in another page of RAM, so that group
//! checks alternate between the two pages. A stack that crosses one is an example.
//!
//! A frequently filled slot reports its last fill. If that was at a seam seen before, its two pages
//! are mapped adjacently. This only affects speed: it is invisible to the guest.

use belljar_cpu::{Access, PAGE_SIZE};
use belljar_translate::host::exit_stub::Refill;

use crate::processor::mmu::{TranslationRequest, map};
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::seams::Advice;

impl ExactVcpu {
    /// Handles a frequently filled slot, the last time for memory from linear address `low` on.
    /// Returns true if the slot may improve from now on.
    pub(crate) fn mend_seam(&mut self, refill: Refill, low: u64) -> bool {
        let Some(seam) = self.seam(refill, low) else {
            return false;
        };
        match self.seams.meet(refill.slot, seam) {
            Advice::Wait => true,
            Advice::Leave => false,
            Advice::Mend => self.join_at(seam),
        }
    }

    /// The seam within the group's range, or between it and the slot's previous range.
    fn seam(&mut self, refill: Refill, low: u64) -> Option<u64> {
        let (start, bytes) = self.explore(low, refill.write)?;
        let (end, span) = (start.wrapping_add(bytes), u64::from(refill.span));
        if low.wrapping_sub(start) + span > bytes {
            return Some(end);
        }
        let known = &self.context.slots.each[refill.slot as usize];
        let known_end = known.base.wrapping_add(known.limit + span - 1);
        match known.limit {
            0 => None,
            _ if known_end == start => Some(start),
            _ if known.base == end => Some(end),
            _ => None,
        }
    }

    /// Maps the pages on both sides of `seam` adjacently.
    fn join_at(&mut self, seam: u64) -> bool {
        let (Some(low), Some(high)) =
            (self.small_page(seam.wrapping_sub(1)), self.small_page(seam))
        else {
            return false;
        };
        let joined = self.memory.join(low, high);
        if joined {
            self.statistics.seams += 1;
            for view in &mut self.context.views {
                view.forget_ranges();
            }
        }
        joined
    }

    /// The page of RAM at `linear`, if it is mapped as a small page.
    fn small_page(&self, linear: u64) -> Option<u64> {
        let request = TranslationRequest {
            access: Access::Read,
            user: self.state.is_user(),
            mark: false,
        };
        let mapping = map(&self.memory, &self.state.system, linear, request).ok()?;
        let small = mapping.page_bytes == PAGE_SIZE;
        small.then_some(mapping.physical & !(PAGE_SIZE - 1))
    }
}
