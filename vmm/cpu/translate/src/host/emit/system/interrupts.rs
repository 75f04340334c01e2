//! The interrupt flag, which stands in the context by itself, so that no other flag
//! changes with it.
//!
//! What depends on IOPL, and an STI at a block's end or while somebody waits for interrupts, is
//! left to the dispatcher. `emit/instruction` calls these; `emit/crossing` reads and sets RFLAGS by
//! them.

use iced_x86::Instruction;

use crate::architecture::flag;
use crate::context::at;
use crate::guest::decode::Follow;
use crate::host::asm::{RSP, S0, S1};
use crate::host::emit::Emitter;

impl Emitter {
    /// CLI. What a user may depends on IOPL, which only the dispatcher knows.
    pub(crate) fn clear_interrupts(&mut self, instruction: &Instruction) {
        if self.mode.user {
            return self.helper(instruction);
        }
        self.asm.store_imm32(at::INTERRUPT_FLAG, 0);
    }

    /// STI. Interrupts come at the earliest after the instruction that follows: that
    /// one is in the same block, so nothing stops between the two, unless somebody
    /// waits for interrupts to be possible.
    pub(crate) fn set_interrupts(&mut self, instruction: &Instruction, follow: Follow) {
        if self.mode.user || follow != Follow::Next {
            return self.helper(instruction);
        }
        self.helper_unless_zero(at::WINDOW_WANTED, instruction);
        self.asm.store_imm32(at::INTERRUPT_FLAG, flag::IF as u32);
    }

    /// PUSHFQ: the host's stack lends a place to see the flags.
    pub(crate) fn push_flags(&mut self, flags_dead: bool) {
        self.flags_to_s1();
        self.asm.store(at::CARRIED, S1);
        self.push_carried(flags_dead);
    }

    /// S1: RFLAGS. Takes S0, changes no flag.
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

    /// Lets the arithmetic flags be those in S1, which has no other bit. Takes S0.
    pub(crate) fn flags_from_s1(&mut self) {
        self.asm.mov(S0, RSP);
        self.asm.load(RSP, at::HOST_RSP);
        self.asm.push_s1();
        self.asm.pop_host_flags();
        self.asm.mov(RSP, S0);
    }

    /// Clears the bits of S1 that the mask at `mask` lacks. Changes no flag.
    pub(crate) fn keep_of_s1(&mut self, mask: i32) {
        self.asm.pext(S1, S1, mask);
        self.asm.pdep(S1, S1, mask);
    }
}
