//! Hot code: traces of frequently run blocks, whose accesses are checked in groups.
//!
//! The choice and the time of hot code only affect speed, never results.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::context::HOT_RUNS;
use belljar_translate::guest::decode::GuestBlock;
use belljar_translate::guest::mode::Mode;
use belljar_translate::guest::rename::{choose, rename};
use belljar_translate::guest::size::CodeSize;
use belljar_translate::host::exit_stub::{BlockId, POOLED};

use crate::code::form::{Form, Sought};
use crate::processor::vcpu::ExactVcpu;

impl ExactVcpu {
    /// Handles block `head`, at which the guest is or in whose loop it is, having run so often that
    /// a better translation is worthwhile.
    pub(crate) fn ran_hot(&mut self, head: BlockId) {
        let block = self.store.block(head);
        let (rip, mode, origin) = (block.rip, block.mode, block.origin);
        if let Some(heat) = block.heat {
            if self.is_new_heat(heat) {
                return;
            }
            self.context.heat[heat as usize] = i32::MAX;
        }
        if head & POOLED != 0 {
            return self.promote_pooled(head, rip, mode);
        }
        if !self.store.has_room() {
            self.flush_code();
            return;
        }
        // Other code is not worthwhile: only the first steps of booting run in it.
        if mode.size != CodeSize::Long
            || origin.second.is_some()
            || !self.store.block(head).valid
            || self.found(origin.first, rip, mode, Sought::Best) != Some(head)
        {
            return;
        }
        let Some(trace) = self.renamed_trace(rip, origin.first, mode) else {
            return;
        };
        if let Some(first) = self.first_of_loop(&trace, origin.first, mode) {
            self.count_again(head);
            return self.ran_hot(first);
        }
        let hot = self.store.add(&trace, origin, mode, Form::Trace).id;
        self.begin_heats();
        for slot in self.store.block(hot).slots.clone() {
            self.begin_slot(slot);
        }
        self.begin_hot(head, hot, &trace);
    }

    /// Makes hot code of a pool's block for all nodes, unless another node already did.
    fn promote_pooled(&mut self, head: BlockId, rip: u64, mode: Mode) {
        let linear = rip.wrapping_add(self.origin_of(mode.relative));
        let linear = self.state.code_address(linear);
        let Ok(physical) = self.fetch_address(linear) else {
            return;
        };
        let found = self.found(physical, rip, mode, Sought::Best);
        if let Some(hot) = found.filter(|&found| found != head) {
            self.store.lead_thunks(head, hot);
            return self.lead_to(hot);
        }
        let Some(trace) = self.renamed_trace(rip, physical, mode) else {
            return;
        };
        if let Some(first) = self.first_of_loop(&trace, physical, mode) {
            self.count_again(head);
            return self.ran_hot(first);
        }
        if found.is_none() || !self.still_shares(physical, rip) {
            return;
        }
        if let Some(hot) = self.store.add_pooled(&trace, physical, mode, Form::Trace) {
            self.begin_heats();
            self.begin_hot(head, hot.id, &trace);
        }
    }

    /// The plain block at the lowest address of the loop `trace`, if the trace begins elsewhere: an
    /// inner loop becomes hot before the loop around it. Initial values of the outer loop's rounds
    /// are only known at its beginning.
    fn first_of_loop(&self, trace: &GuestBlock, physical: u64, mode: Mode) -> Option<BlockId> {
        let first = trace.bytes.0;
        if !trace.loops || first == trace.rip {
            return None;
        }
        let page = physical & !(PAGE_SIZE - 1);
        let found = self
            .store
            .find(page + first % PAGE_SIZE, first, mode, Sought::Best)?;
        let block = self.store.block(found.id);
        (!block.hot && block.valid).then_some(found.id)
    }

    /// Restarts the count of block `head`'s runs.
    fn count_again(&mut self, head: BlockId) {
        if let Some(heat) = self.store.block(head).heat {
            self.context.heat[heat as usize] = HOT_RUNS;
        }
    }

    /// Replaces `head` by `hot`, which was made from `trace`.
    fn begin_hot(&mut self, head: BlockId, hot: BlockId, trace: &GuestBlock) {
        self.store.redirect(head, hot);
        self.statistics.promoted += 1;
        self.statistics.translated += trace.instructions.len() as u64;
        self.lead_to(hot);
    }

    /// Makes indirect jumps lead to block `id`.
    fn lead_to(&mut self, id: BlockId) {
        let block = self.store.block(id);
        if block.mode.relative {
            // Entry thunks are updated elsewhere.
            return;
        }
        let (rip, code, user) = (block.rip, block.indirect_entry, block.mode.user);
        self.context.views[usize::from(user)].jumps.set(rip, code);
    }

    fn renamed_trace(&mut self, rip: u64, physical: u64, mode: Mode) -> Option<GuestBlock> {
        let mut trace = self.trace(rip, physical, mode)?;
        self.predict_return(&mut trace, mode);
        let mut registers = self.context.gpr;
        trace.renamed = choose(&trace.instructions);
        if let Some(pairs) = trace.renamed {
            rename(&mut trace.instructions, pairs);
            for (number, pair) in [14, 15].into_iter().zip(pairs) {
                registers.swap(number, usize::from(pair));
            }
        }
        trace.entered_with = Some(registers);
        Some(trace)
    }

    pub(crate) fn found(
        &self,
        physical: u64,
        rip: u64,
        mode: Mode,
        sought: Sought,
    ) -> Option<BlockId> {
        let found = self.store.find(physical, rip, mode, sought);
        found.map(|found| found.id)
    }
}
