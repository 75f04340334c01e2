//! The budget in a register of the x87's, while the guest does not use that.
//!
//! A budget in memory makes each block wait for the one before. Where the host has no vector
//! register to spare, but the guest's x87 is as after reset, as that of most programs always is,
//! the host's x87 need not hold it: its MM7 counts. Code is translated for one of both cases
//! ([`Mode::apart`](belljar_translate::guest::mode::Mode::apart)). What is made apart leaves in front of
//! instructions that touch the x87; then the guest's is loaded, and code that counts in memory
//! continues until the run ends. The budget is in MM7 again if the x87 is as after reset then, or after
//! an instruction that saves or loads it, where that alone is what it was loaded for.

use belljar_translate::guest::analyse::touches_x87;
use iced_x86::{Instruction, Mnemonic};

use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::budget::BudgetPlace;
use crate::processor::x87::{FxImage, begin_x87, end_x87, is_reset, load_x87, spoil_x87};

/// Whether an instruction reads or changes the x87's state.
pub(crate) fn uses_x87(instruction: &Instruction) -> bool {
    let saves = matches!(
        instruction.mnemonic(),
        Mnemonic::Fxsave
            | Mnemonic::Fxsave64
            | Mnemonic::Fxrstor
            | Mnemonic::Fxrstor64
            | Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
            | Mnemonic::Xsaves
            | Mnemonic::Xsaves64
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64
            | Mnemonic::Xrstors
            | Mnemonic::Xrstors64
    );
    saves || touches_x87(instruction)
}

/// Whether an instruction leaves an x87 that is as after reset so, and what it tells is known.
pub(crate) fn keeps_reset(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Fninit | Mnemonic::Fnclex | Mnemonic::Fnstcw | Mnemonic::Emms | Mnemonic::Wait
    )
}

impl ExactVcpu {
    /// Carries out an instruction that [keeps](keeps_reset) the x87 as after reset.
    pub(crate) fn on_reset_x87(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        if instruction.mnemonic() == Mnemonic::Fnstcw {
            let control = u16::from_le_bytes([FxImage::reset().0[0], FxImage::reset().0[1]]);
            self.write_operand(instruction, 0, control.into())?;
        }
        Ok(Done::Next)
    }

    /// Whether the budget is in MM7 while translated code runs, and the guest's x87 as after
    /// reset.
    pub(crate) fn is_apart(&self) -> bool {
        self.budget.place == BudgetPlace::Apart
    }

    /// Begins a run.
    pub(crate) fn begin_apart(&mut self) {
        self.move_budget(self.x87.is_initial());
        if !self.is_apart() {
            begin_x87(&self.x87);
        }
    }

    /// Ends a run: the x87 is the host's again.
    pub(crate) fn end_apart(&mut self) {
        if !self.is_apart() {
            return end_x87(&mut self.context, &mut self.x87);
        }
        // What joined and parted again since found it as after reset, too.
        debug_assert!(self.x87.is_initial(), "a run with another x87 parted");
        self.context.x87_used = 0;
        spoil_x87();
    }

    /// Loads the guest's x87, as an instruction that uses it comes next.
    pub(crate) fn join_x87(&mut self) {
        load_x87(&FxImage::reset());
        self.context.x87_used = 1;
        self.move_budget(false);
    }

    /// Leaves the x87 to the budget again if it is as after reset.
    pub(crate) fn part_x87(&mut self) {
        self.move_budget(is_reset());
    }

    /// Has the budget in MM7 if `wanted`, and if it may be there at all.
    fn move_budget(&mut self, wanted: bool) {
        self.budget.place = self.budget.place.moved(wanted);
        let [load, store] = self.store.apart_code();
        let (enter, leave) = if self.is_apart() {
            (load, store)
        } else {
            (self.store.enter_code(), self.context.leave)
        };
        self.context.target = enter;
        self.context.settle = leave;
    }
}
