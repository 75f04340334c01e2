//! The dispatcher's handling of group checks: it looks for contiguous memory around an address, and
//! decides whether a frequently filled slot is useful.
//!
//! Translated code leaves through the exit stubs of its checks, and `visit` calls this. The guest
//! is not affected: a check without memory, a trace made again without a slot, and a plain block
//! perform the same accesses.

use belljar_translate::context::SLOT_FILLS;
use belljar_translate::host::exit_stub::{BlockId, POOLED, Refill};

use crate::code::form::Sought;
use crate::code::news::News;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::left::Next;

/// Number of runs per fill of a slot below which it is not useful.
const WORTH: u64 = 6;

impl ExactVcpu {
    /// Handles a group check whose range is not in the TLB: looks for contiguous memory there, or
    /// continues with a plain block.
    pub(crate) fn group_miss(
        &mut self,
        block: BlockId,
        index: u16,
        span: u16,
        write: bool,
        resume: u64,
    ) -> Next {
        self.statistics.group_misses += 1;
        let linear = self.context.scratch[0];
        if let Some((start, bytes)) = self.explore(linear, write)
            && linear - start + u64::from(span) <= bytes
        {
            return Next::Resume(resume);
        }
        self.refund(block, index);
        Next::Plain
    }

    /// Handles a slot that was filled frequently: accesses with a different address nearly every
    /// time are faster without it.
    pub(crate) fn refilled(&mut self, id: BlockId, index: u16, refill: Refill) -> Next {
        let slot = refill.slot;
        let low = self.context.scratch[0];
        self.refund(id, index);
        if self.is_new_slot(slot) {
            return Next::Plain;
        }
        if self.mend_seam(refill, low) {
            self.context.slots.each[slot as usize].fills = SLOT_FILLS;
            return Next::Plain;
        }
        let now = self.retired_now();
        let block = self.store.block(id);
        let since = now - std::mem::replace(&mut self.addresses.slot_asked[slot as usize], now);
        let runs = since / u64::from(block.counted).max(1);
        self.context.slots.each[slot as usize].fills = SLOT_FILLS;
        if runs < SLOT_FILLS as u64 * WORTH {
            let group = (slot - block.slots.start) as usize;
            let (rip, mode, physical) = (block.rip, block.mode, block.origin.first);
            let members = block.members[group].clone();
            let plain = if id & POOLED != 0 {
                let plain = self.store.retire(id, members);
                self.forget_jumps_to(id);
                plain
            } else {
                self.store.scatter(id, members);
                self.forget_hot(id);
                self.found(physical, rip, mode, Sought::Plain)
            };
            if let Some(plain) = plain
                && let Some(heat) = self.store.block(plain).heat
            {
                self.context.heat[heat as usize] = 1;
            }
        }
        Next::Plain
    }

    fn forget_hot(&mut self, id: BlockId) {
        let clean = self.store.discard(id);
        for page in clean {
            self.memory.unwatch(page);
        }
        self.forget_jumps_to(id);
    }

    fn forget_jumps_to(&mut self, id: BlockId) {
        let block = self.store.block(id);
        if block.mode.relative {
            // Entry thunks are updated elsewhere.
            return;
        }
        let (rip, code, user) = (block.rip, block.indirect_entry, block.mode.user);
        self.context.views[usize::from(user)]
            .jumps
            .forget(rip, code);
        self.store.tell(News::Forgotten { rip, code, user });
    }
}
