//! The budget in an x87 register, while the guest does not use the x87.
//!
//! A budget in memory makes each block wait for the previous one. If the host has no spare vector
//! register, but the guest's x87 is in its reset state, as in most programs at all times, the host need
//! not load it: its MM7 holds the budget. Code is translated for one of the two cases
//! ([`Mode::apart`](belljar_translate::guest::mode::Mode::apart)). Apart code leaves before instructions
//! that use the x87; then the guest's state is loaded, and code that counts in memory continues until
//! the run ends. The budget returns to MM7 if the x87 is in its reset state then. It also returns after
//! an instruction that saves or loads the x87, if that is all it was loaded for.

use belljar_translate::guest::analyse::touches_x87;
use iced_x86::{Instruction, Mnemonic};

use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::budget::BudgetPlace;
use crate::processor::x87::{FxImage, begin_x87, end_x87, is_reset, load_x87, spoil_x87};

/// True if an instruction reads or changes the x87's state.
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

/// True if an instruction keeps the reset state of the x87, with a result that is known.
pub(crate) fn keeps_reset(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Fninit | Mnemonic::Fnclex | Mnemonic::Fnstcw | Mnemonic::Emms | Mnemonic::Wait
    )
}

impl ExactVcpu {
    /// Executes an instruction that [keeps](keeps_reset) the reset state of the x87.
    pub(crate) fn on_reset_x87(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        if instruction.mnemonic() == Mnemonic::Fnstcw {
            let control = u16::from_le_bytes([FxImage::reset().0[0], FxImage::reset().0[1]]);
            self.write_operand(instruction, 0, control.into())?;
        }
        Ok(Done::Next)
    }

    /// True if the budget is in MM7 while translated code runs, and the guest's x87 is in its reset
    /// state.
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

    /// Ends a run: returns the x87 to the host.
    pub(crate) fn end_apart(&mut self) {
        if !self.is_apart() {
            return end_x87(&mut self.context, &mut self.x87);
        }
        // Runs that loaded the x87 and unloaded it again found it in its reset state, too.
        debug_assert!(self.x87.is_initial(), "a run with another x87 parted");
        self.context.x87_used = 0;
        spoil_x87();
    }

    /// Loads the guest's x87, because the next instruction uses it.
    pub(crate) fn join_x87(&mut self) {
        load_x87(&FxImage::reset());
        self.context.x87_used = 1;
        self.move_budget(false);
    }

    /// Returns the budget to MM7 if the x87 is in its reset state.
    pub(crate) fn part_x87(&mut self) {
        self.move_budget(is_reset());
    }

    /// Moves the budget to MM7 if `wanted`, and if the engine may use it at all.
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
