//! System instructions that kernels and the C library's clocks execute often.
//!
//! They leave for the dispatcher if translated code cannot execute them: RDTSC if the context marks
//! the counter as hidden, SWAPGS in user mode. `emit/instruction` calls these.

use iced_x86::{Instruction, Mnemonic};

use super::Emitter;
use crate::context::at;
use crate::host::asm::{RAX, RCX, RDX, S0, S1};

/// SYSCALL and SYSRET.
mod crossing;
/// CLI, STI and PUSHF.
mod interrupts;
/// Short REP STOS and REP MOVS.
mod repeat;

impl Emitter {
    /// SWAPGS. A run ends here, because checks of addresses through GS are invalid after it.
    pub(super) fn swap_gs(&mut self, instruction: &Instruction) {
        if self.mode.user {
            return self.helper(instruction);
        }
        self.asm.load(S0, at::GS_BASE);
        self.asm.load(S1, at::KERNEL_GS_BASE);
        self.asm.store(at::GS_BASE, S1);
        self.asm.store(at::KERNEL_GS_BASE, S0);
        self.jump_to_guest(instruction.next_ip());
    }

    /// RDTSC and RDTSCP, if the counter follows from the count alone. Changes no flag.
    pub(super) fn read_tsc(&mut self, instruction: &Instruction) {
        if self.free {
            return self.helper(instruction);
        }
        self.helper_unless_zero(at::TSC_HIDDEN, instruction);
        self.load_budget();
        // The entry subtracted this instruction and all later ones from the count.
        let early = i32::from(self.counted) - i32::from(self.index);
        self.asm.load(S0, at::TSC_AT_ZERO);
        self.asm.not(S1);
        self.asm.lea_sum(S0, S0, S1, 1 - early);
        self.asm.rorx(RDX, S0, 32);
        self.asm.mov32(RDX, RDX);
        self.asm.mov32(RAX, S0);
        if instruction.mnemonic() == Mnemonic::Rdtscp {
            self.asm.load(RCX, at::TSC_AUX);
        }
        self.jump_to_guest(instruction.next_ip());
    }
}
