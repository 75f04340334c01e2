//! Cycle accounting in a vCPU: what a run takes off its budget, and what it gives back.
//!
//! What a block's entry took off the budget is what its instructions cost, and what did not run is given back
//! before anybody looks at the clock. `visit`, `access` and `system` take and give; `dispatch` settles the clock
//! at a run's end.

use belljar_translate::host::block::Charge;
use belljar_translate::host::exit_stub::BlockId;
use belljar_translate::prices::classes::Prices;
use belljar_translate::prices::cost_class::CostClass;
use belljar_translate::prices::timing::TICKS_PER_CYCLE;

use crate::processor::vcpu::ExactVcpu;

impl ExactVcpu {
    /// Ticks of the clock, in the middle of a run too.
    pub(crate) fn ticks_now(&self) -> u64 {
        self.clock
            .ticks
            .wrapping_add((self.budget.granted - self.context.count) as u64)
    }

    /// Instructions retired, in the middle of a run too.
    pub(crate) fn retired_now(&self) -> u64 {
        if self.accounting.is_none() {
            return self.ticks_now();
        }
        self.clock.retired.wrapping_add(self.context.retired as u64)
    }

    /// Takes what has run off the budget.
    pub(crate) fn take(&mut self, charge: Charge) {
        self.context.count -= charge.ticks;
        self.context.retired += charge.instructions;
    }

    /// Gives back what was taken for what did not run.
    pub(crate) fn give(&mut self, charge: Charge) {
        self.context.count += charge.ticks;
        self.context.retired -= charge.instructions;
    }

    /// Ticks to grant to a run, for which no more instructions retire than asked for.
    pub(crate) fn ticks_to_stop(&self) -> u64 {
        let left = self.budget.stop_at.saturating_sub(self.clock.retired);
        left.saturating_mul(u64::from(self.cheapest()))
    }

    /// Ticks that any instruction takes at least.
    pub(crate) fn cheapest(&self) -> u32 {
        let prices = self
            .accounting
            .as_ref()
            .map(|accounting| &accounting.prices);
        prices.map_or(1, Prices::cheapest)
    }

    /// Gives back what instruction `index` of a block and those after it were taken
    /// for, and puts RIP on it.
    pub(crate) fn refund(&mut self, block: BlockId, index: u16) {
        let block = self.store.block(block);
        let charge = block.charge_from(index);
        self.state.rip = block.rip_of(index, self.context.code_page);
        self.give(charge);
        self.give_rounds();
    }

    /// As [`refund`](Self::refund), but instruction `index` is done.
    pub(crate) fn refund_behind(&mut self, block: BlockId, index: u16) {
        let block = self.store.block(block);
        let charge = block.charge_from(index + 1);
        self.state.rip = if usize::from(index) + 1 < block.offsets.len() {
            block.rip_of(index + 1, self.context.code_page)
        } else {
            block.end_in(self.context.code_page)
        };
        self.give(charge);
        self.give_rounds();
    }

    /// Gives back what was taken for rounds of a loop that will not run.
    fn give_rounds(&mut self) {
        self.context.count += std::mem::take(&mut self.context.ahead) as i64;
    }

    /// What an event that stands for an instruction takes.
    pub(crate) fn charge_of_event(&self) -> Charge {
        let ticks = if self.accounting.is_some() {
            TICKS_PER_CYCLE
        } else {
            1
        };
        Charge {
            ticks: i64::from(ticks),
            instructions: 1,
        }
    }

    /// What a system instruction takes.
    pub(crate) fn charge_of_system(&self) -> Charge {
        let ticks = self.accounting.as_ref().map_or(1, |accounting| {
            accounting.prices.of_class(CostClass::System)
        });
        Charge {
            ticks: i64::from(ticks),
            instructions: 1,
        }
    }

    /// Moves what was used since the last time from the budget to the clock.
    pub(crate) fn settle_clock(&mut self) {
        (self.clock.ticks, self.clock.retired) = (self.ticks_now(), self.retired_now());
        self.budget.granted = 0;
        self.context.count = 0;
        self.context.retired = 0;
    }
}
