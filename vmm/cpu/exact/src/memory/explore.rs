//! Contiguous guest memory around an address, so that checks of whole groups of accesses, and
//! copies, can cover more than a page.
//!
//! A resulting range can be accessed directly in all its length: it is contiguous on the host, and
//! contains no device, translated code or watchpoint that must detect the access. The dispatcher calls it for
//! misses of group checks (`refill`), long copies (`access/linear`) and seams (`beside`).

use belljar_cpu::{Access, PAGE_SIZE};
use belljar_translate::architecture::is_above;
use belljar_translate::context::explored::Range;
use belljar_translate::context::tlb_index;

use crate::processor::mmu::{TranslationRequest, map};
use crate::processor::vcpu::ExactVcpu;

/// Number of neighbouring pages that are examined on each side.
const NEIGHBOURS: u64 = 8;
/// If more are known on one side, as many are examined on the other side, up to this number.
const MOST_NEIGHBOURS: u64 = 128;
/// The longest stretch that is examined at once.
const LARGEST: u64 = 1 << 21;

/// Guest memory that is contiguous on the host.
#[derive(Clone, Copy)]
struct ContiguousMemory {
    start: u64,
    end: u64,
    /// Host address less linear address.
    delta: u64,
    /// True if no cached range may extend beyond it.
    alone: bool,
}

impl ContiguousMemory {
    fn range(&self) -> Range {
        Range {
            start: self.start,
            bytes: self.end.wrapping_sub(self.start),
            delta: self.delta,
        }
    }

    /// True if a range may cover both.
    fn joins(&self, other: &Self) -> bool {
        self.delta == other.delta && !self.alone && !other.alone
    }
}

impl ExactVcpu {
    /// Fills the TLB for `linear` without side effects in the guest's tables, and finds the
    /// contiguous memory around it: start and length. `None` if accesses must be detected.
    pub(crate) fn explore(&mut self, linear: u64, write: bool) -> Option<(u64, u64)> {
        let (user, way) = (usize::from(self.state.is_user()), usize::from(write));
        let range = match self.context.views[user].explored[way].around(linear) {
            Some(range) => range,
            None => self.range_around(linear, write)?,
        };
        let page = linear & !(PAGE_SIZE - 1);
        self.fill(linear, page.wrapping_add(range.delta), write);
        let tlb = &mut self.context.views[user].tlb[way];
        let entry = tlb_index(linear);
        tlb.range[entry] = range.start;
        tlb.range_bytes[entry] = range.bytes;
        Some((range.start, range.bytes))
    }

    /// Finds the range around `linear`, and stores it.
    fn range_around(&mut self, linear: u64, write: bool) -> Option<Range> {
        let here = self.stretch(linear, write)?;
        let user = usize::from(self.state.is_user());
        let mut range = here.range();
        let known = &self.context.views[user].explored[usize::from(write)];
        let beside = known.beside(range).filter(|_| !here.alone);
        let pages = beside.map_or(0, |known| known.bytes / PAGE_SIZE);
        let reach = pages.clamp(NEIGHBOURS, MOST_NEIGHBOURS);
        match beside {
            Some(known) if known.end() == range.start => {
                range.start = known.start;
                range.bytes += known.bytes;
                self.extend_up(&mut range, &here, write, reach);
            }
            Some(known) => {
                range.bytes += known.bytes;
                self.extend_down(&mut range, &here, write, reach);
            }
            None => {
                self.extend_up(&mut range, &here, write, reach);
                self.extend_down(&mut range, &here, write, reach);
            }
        }
        if !here.alone {
            self.context.views[user].explored[usize::from(write)].keep(range);
        }
        Some(range)
    }

    fn extend_up(&mut self, range: &mut Range, here: &ContiguousMemory, write: bool, reach: u64) {
        for _ in 0..reach {
            match self.stretch(range.end(), write) {
                Some(next) if here.joins(&next) => {
                    range.bytes = next.end.wrapping_sub(range.start);
                }
                _ => break,
            }
        }
    }

    fn extend_down(&mut self, range: &mut Range, here: &ContiguousMemory, write: bool, reach: u64) {
        for _ in 0..reach {
            match self.stretch(range.start.wrapping_sub(1), write) {
                Some(before) if here.joins(&before) => {
                    range.bytes = range.end().wrapping_sub(before.start);
                    range.start = before.start;
                }
                _ => break,
            }
        }
    }

    /// The guest's page around `linear`, or the 2 MiB around it, or only its 4 KiB: the largest
    /// that is contiguous and directly accessible.
    fn stretch(&mut self, linear: u64, write: bool) -> Option<ContiguousMemory> {
        let request = TranslationRequest {
            access: if write { Access::Write } else { Access::Read },
            user: self.state.is_user(),
            mark: false,
        };
        let mapping = map(&self.memory, &self.state.system, linear, request).ok()?;
        if !mapping.marked {
            return None;
        }
        self.note_mapping(linear, &mapping, request.access);
        for bytes in [mapping.page_bytes.min(LARGEST), PAGE_SIZE] {
            let start = linear & !(bytes - 1);
            let physical = mapping.physical & !(bytes - 1);
            if let Some(host) = self.memory.unseen(physical, bytes, write)
                && !self.is_closed(start, physical, bytes, write)
            {
                return Some(ContiguousMemory {
                    start,
                    end: start.wrapping_add(bytes),
                    delta: host.wrapping_sub(start),
                    alone: is_above(linear) && !mapping.global,
                });
            }
        }
        None
    }
}
