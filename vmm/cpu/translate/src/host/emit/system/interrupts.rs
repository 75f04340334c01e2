//! The interrupt flag, which is a separate field of the context, so that its changes leave other
//! flags alone.
//!
//! Operations that depend on IOPL, and an STI at a block's end or while an interrupt window is
//! requested, are left to the dispatcher. `emit/instruction` calls these; `emit/crossing` uses them
//! to read and set RFLAGS.

use iced_x86::Instruction;

use crate::architecture::flag;
use crate::context::at;
use crate::guest::decode::Follow;
use crate::host::asm::{RSP, S0, S1};
use crate::host::emit::Emitter;

impl Emitter {
    /// CLI. In user mode it depends on IOPL, which the dispatcher checks.
    pub(crate) fn clear_interrupts(&mut self, instruction: &Instruction) {
        if self.mode.user {
            return self.helper(instruction);
        }
        self.asm.store_imm32(at::INTERRUPT_FLAG, 0);
    }

    /// STI. Interrupts are possible after the following instruction at the earliest: it is in the
    /// same block, which does not stop in between, unless an interrupt window is requested.
    pub(crate) fn set_interrupts(&mut self, instruction: &Instruction, follow: Follow) {
        if self.mode.user || follow != Follow::Next {
            return self.helper(instruction);
        }
        self.helper_unless_zero(at::WINDOW_WANTED, instruction);
        self.asm.store_imm32(at::INTERRUPT_FLAG, flag::IF as u32);
    }

    /// PUSHFQ: reads the flags through the host's stack.
    pub(crate) fn push_flags(&mut self, flags_dead: bool) {
        self.flags_to_s1();
        self.asm.store(at::CARRIED, S1);
        self.push_carried(flags_dead);
    }

    /// Loads RFLAGS into S1. Clobbers S0, changes no flag.
    pub(crate) fn flags_to_s1(&mut self) {
        self.asm.mov(S0, RSP);
        self.asm.load(RSP, at::HOST_RSP);
        self.asm.push_host_flags();
        self.asm.pop_s1();
        self.asm.mov(RSP, S0);
        self.keep_of_s1(at::ARITHMETIC_MASK);
        for part in [at::PUSHED_FLAGS, at::INTERRUPT_FLAG] {
            self.asm.load(S0, part);
            self.asm.lea_sum(S1, S1, S0, 0);
        }
    }

    /// Sets the arithmetic flags from S1, which has no other bits. Clobbers S0.
    pub(crate) fn flags_from_s1(&mut self) {
        self.asm.mov(S0, RSP);
        self.asm.load(RSP, at::HOST_RSP);
        self.asm.push_s1();
        self.asm.pop_host_flags();
        self.asm.mov(RSP, S0);
    }

    /// Clears the bits of S1 outside the mask at `mask`. Changes no flag.
    pub(crate) fn keep_of_s1(&mut self, mask: i32) {
        self.asm.pext(S1, S1, mask);
        self.asm.pdep(S1, S1, mask);
    }
}
