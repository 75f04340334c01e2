//! Cycle accounting in a vCPU: charges to a run's budget, and refunds.
//!
//! A block's entry charges the cost of all its instructions, and the unexecuted ones are refunded before the
//! clock is read. `visit`, `access` and `system` charge and refund; `dispatch` updates the clock at a run's end.

use belljar_translate::host::block::Charge;
use belljar_translate::host::exit_stub::BlockId;
use belljar_translate::prices::classes::Prices;
use belljar_translate::prices::cost_class::CostClass;
use belljar_translate::prices::timing::TICKS_PER_CYCLE;

use crate::processor::vcpu::ExactVcpu;

impl ExactVcpu {
    /// Ticks of the clock, also in the middle of a run.
    pub(crate) fn ticks_now(&self) -> u64 {
        self.clock
            .ticks
            .wrapping_add((self.budget.granted - self.context.count) as u64)
    }

    /// Instructions retired, also in the middle of a run.
    pub(crate) fn retired_now(&self) -> u64 {
        if self.accounting.is_none() {
            return self.ticks_now();
        }
        self.clock.retired.wrapping_add(self.context.retired as u64)
    }

    /// Subtracts the cost of executed instructions from the budget.
    pub(crate) fn take(&mut self, charge: Charge) {
        self.context.count -= charge.ticks;
        self.context.retired += charge.instructions;
    }

    /// Refunds the cost of unexecuted instructions.
    pub(crate) fn give(&mut self, charge: Charge) {
        self.context.count += charge.ticks;
        self.context.retired -= charge.instructions;
    }

    /// Ticks to grant to a run, so that it does not retire more instructions than requested.
    pub(crate) fn ticks_to_stop(&self) -> u64 {
        let left = self.budget.stop_at.saturating_sub(self.clock.retired);
        left.saturating_mul(u64::from(self.cheapest()))
    }

    /// The smallest cost of an instruction in ticks.
    pub(crate) fn cheapest(&self) -> u32 {
        if self.path_model().is_some() {
            return 1;
        }
        let prices = self
            .accounting
            .as_ref()
            .map(|accounting| &accounting.prices);
        prices.map_or(1, Prices::cheapest)
    }

    /// Refunds instruction `index` of a block and all later ones, and sets RIP to it.
    pub(crate) fn refund(&mut self, block: BlockId, index: u16) {
        let position = self.position_in(block, index);
        let charge = self.charge_from(block, index);
        self.unfold_history(block, index);
        let block = self.store.block(block);
        self.state.rip = block.rip_of(index, self.context.code_page);
        self.give(charge);
        self.give_rounds();
        self.leave_path(position);
    }

    /// The part of a running block's charge for instruction `index` and later ones.
    pub(crate) fn charge_from(&self, id: BlockId, index: u16) -> Charge {
        let block = self.store.block(id);
        match self.position_in(id, index) {
            Some(position) => self.charge_on_path(block, position, index),
            None => block.charge_from(index),
        }
    }

    /// The part of a running block's charge for instruction `index` alone.
    pub(crate) fn charge_of(&self, block: BlockId, index: u16) -> Charge {
        let (from, behind) = (
            self.charge_from(block, index),
            self.charge_from(block, index + 1),
        );
        Charge {
            ticks: from.ticks - behind.ticks,
            instructions: from.instructions - behind.instructions,
        }
    }

    /// As [`refund`](Self::refund), but without instruction `index`, which is complete.
    pub(crate) fn refund_behind(&mut self, block: BlockId, index: u16) {
        let position = self.position_in(block, index);
        let charge = self.charge_from(block, index + 1);
        self.unfold_history(block, index);
        let block = self.store.block(block);
        self.state.rip = if usize::from(index) + 1 < block.offsets.len() {
            block.rip_of(index + 1, self.context.code_page)
        } else {
            block.end_in(self.context.code_page)
        };
        self.give(charge);
        self.give_rounds();
        self.pass_helper(position);
    }

    /// Refunds the rounds of a loop that will not run.
    fn give_rounds(&mut self) {
        self.context.count += std::mem::take(&mut self.context.ahead) as i64;
    }

    /// The charge of an event that counts as an instruction.
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

    /// The charge of a system instruction.
    pub(crate) fn charge_of_system(&self) -> Charge {
        let ticks = self
            .accounting
            .as_ref()
            .map_or(1, |accounting| match &accounting.path {
                Some(path) => path.system_ticks(),
                None => accounting.prices.of_class(CostClass::System),
            });
        Charge {
            ticks: i64::from(ticks),
            instructions: 1,
        }
    }

    /// Moves the charges since the last call from the budget to the clock.
    pub(crate) fn settle_clock(&mut self) {
        (self.clock.ticks, self.clock.retired) = (self.ticks_now(), self.retired_now());
        self.budget.granted = 0;
        self.context.count = 0;
        self.context.retired = 0;
    }
}
