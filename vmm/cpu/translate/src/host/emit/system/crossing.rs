//! SYSCALL and SYSRET: from user code to the kernel and back, through the jump cache of the other
//! privilege level.
//!
//! Here they change the state that translated code uses: RCX, R11 and the flags. Segments, and so
//! the privilege level, are updated when translated code is left; the context's `crossed` records
//! that this is due. The dispatcher executes the instruction if the flags would become unusual, if
//! an interrupt window is requested, or if the other cache was filled in another mode; see
//! `open_crossing`.

use iced_x86::Instruction;

use crate::architecture::flag;
use crate::context::{ENTERED_KERNEL, LEFT_KERNEL, at};
use crate::guest::mode::Pace;
use crate::host::asm::{R11, RCX, S0, S1};
use crate::host::emit::Emitter;
use crate::host::stubs::jump_cached;

impl Emitter {
    /// SYSCALL from user mode.
    pub(crate) fn system_call(&mut self, instruction: &Instruction) {
        if !self.mode.user || !self.may_cross() {
            return self.helper(instruction);
        }
        self.helper_unless_zero(at::CROSSING_CLOSED, instruction);
        self.flags_to_s1();
        self.asm.mov(R11, S1);
        self.guest_address(RCX, instruction.next_ip());
        self.cross(ENTERED_KERNEL);
        self.asm.store_imm32(at::INTERRUPT_FLAG, 0);
        // Clears all flags.
        self.asm.mov_imm(S1, 1);
        self.asm.cmp(S1, 0);
        self.asm.load(S0, at::SYSTEM_ENTRY);
        jump_cached(&mut self.asm, false);
    }

    /// SYSRET to 64-bit user code.
    pub(crate) fn system_return(&mut self, instruction: &Instruction) {
        if self.mode.user || !self.may_cross() {
            return self.helper(instruction);
        }
        self.helper_unless_zero(at::CROSSING_CLOSED, instruction);
        self.asm.mov(S0, RCX);
        self.asm.pext(S1, RCX, at::ABOVE_USERS_MASK);
        self.asm.pext(RCX, R11, at::SELDOM_MASK);
        self.asm.lea_sum(RCX, RCX, S1, 0);
        let usual = self.asm.jump_rcx_zero();
        self.asm.mov(RCX, S0);
        self.helper(instruction);
        self.asm.land(usual);
        self.asm.mov(RCX, S0);
        self.cross(LEFT_KERNEL);
        self.asm.mov(S1, R11);
        self.keep_of_s1(at::INTERRUPT_MASK);
        self.asm.store(at::INTERRUPT_FLAG, S1);
        self.asm.mov(S1, R11);
        self.keep_of_s1(at::ARITHMETIC_MASK);
        self.flags_from_s1();
        self.asm.mov(S0, RCX);
        jump_cached(&mut self.asm, true);
    }

    fn may_cross(&self) -> bool {
        self.mode.pace == Pace::Full && !self.free && self.allocation.is_usual()
    }

    /// Afterwards, all system flags but IF are clear.
    fn cross(&mut self, way: u64) {
        self.asm.store_imm32(at::PUSHED_FLAGS, flag::FIXED as u32);
        self.asm.store_imm32(at::CROSSED, way as u32);
    }
}
