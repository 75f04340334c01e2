//! Emits a guest instruction by its class.
//!
//! The class selects the part of the emitter that writes the code; all other instructions leave for
//! the dispatcher, which executes them in Rust. `emit` calls `instruction` for each instruction of
//! a block in turn.

use iced_x86::Instruction;

use super::Emitter;
use crate::architecture::vector;
use crate::defined::reciprocal::{self, Approximation};
use crate::guest::analyse::{InstructionClass, touches_x87};
use crate::guest::decode::{Follow, GuestInstruction};
use crate::guest::rename::exchange;
use crate::guest::size::CodeSize;
use crate::host::asm::{RCX, S0};
use crate::host::exit_stub::ExitStubKind;

impl Emitter {
    pub(super) fn instruction(&mut self, guest: &GuestInstruction, flags_dead: bool) {
        let (instruction, follow) = (&guest.instruction, guest.follow);
        // The class must be the same as in other modes, because the analysis of flags depends on
        // it.
        if self.mode.apart && touches_x87(instruction) && guest.class.is_native() {
            let mut own = *instruction;
            if let Some(pairs) = self.allocation.renamed {
                exchange(&mut own, pairs);
            }
            return self.helper(&own);
        }
        if self.mode.size != CodeSize::Long
            && self.legacy_instruction(instruction, guest.class, flags_dead)
        {
            return;
        }
        if let Some(approximation) = self.defines(instruction, guest.class) {
            let size = match guest.class {
                InstructionClass::Memory { size, .. } => Some(size),
                _ => None,
            };
            return self.approximate(instruction, approximation, size, flags_dead);
        }
        match guest.class {
            InstructionClass::Nop => {}
            InstructionClass::Plain => self.plain(instruction),
            InstructionClass::Lea => self.lea(instruction),
            InstructionClass::Memory { size, write } => {
                self.memory(instruction, size, write, flags_dead)
            }
            InstructionClass::Push => self.push(instruction, flags_dead),
            InstructionClass::Pop => self.pop(instruction, flags_dead),
            InstructionClass::Leave => self.leave_frame(flags_dead),
            InstructionClass::Jump if follow == Follow::Target => {}
            InstructionClass::Jump => self.jump_to_guest(instruction.near_branch_target()),
            InstructionClass::JumpIf if follow == Follow::Leave => self.jump_if(instruction),
            InstructionClass::JumpIf => self.side_exit(instruction, follow),
            InstructionClass::Call => self.call(instruction, follow, flags_dead),
            InstructionClass::Ret => self.ret(instruction, follow, flags_dead),
            InstructionClass::JumpIndirect => self.jump_indirect(instruction, flags_dead),
            InstructionClass::CallIndirect => self.call_indirect(instruction, flags_dead),
            InstructionClass::ClearInterrupts => self.clear_interrupts(instruction),
            InstructionClass::SetInterrupts => self.set_interrupts(instruction, follow),
            InstructionClass::PushFlags => self.push_flags(flags_dead),
            InstructionClass::SwapGs => self.swap_gs(instruction),
            InstructionClass::ReadTsc => self.read_tsc(instruction),
            InstructionClass::Repeat { size, moves } => self.repeat(instruction, size as u8, moves),
            InstructionClass::BitString { size, write } => {
                self.bit_string(instruction, size, write)
            }
            InstructionClass::ClearDirection => self.clear_direction(instruction),
            InstructionClass::SystemCall => self.system_call(instruction),
            InstructionClass::SystemReturn => self.system_return(instruction),
            InstructionClass::Helper => self.helper(instruction),
            InstructionClass::Fault(vector) => {
                let hole = self.asm.jump();
                self.leave_from(hole, ExitStubKind::Fault { vector }, false);
            }
        }
    }

    /// The approximation that an instruction computes, unless the host's own is requested.
    fn defines(&self, instruction: &Instruction, class: InstructionClass) -> Option<Approximation> {
        let computes = matches!(
            class,
            InstructionClass::Plain | InstructionClass::Memory { .. }
        );
        if !computes || self.host_results {
            return None;
        }
        reciprocal::which(instruction)
    }

    /// Leaves the instruction to the dispatcher.
    pub(super) fn helper(&mut self, instruction: &Instruction) {
        let hole = self.asm.jump();
        self.leave_from(hole, ExitStubKind::Helper(Box::new(*instruction)), false);
    }

    /// As [`helper`](Self::helper), if the context's word at `flag` is nonzero. Clobbers S0,
    /// changes no flag.
    pub(super) fn helper_unless_zero(&mut self, flag: i32, instruction: &Instruction) {
        self.asm.mov(S0, RCX);
        self.asm.load(RCX, flag);
        let zero = self.asm.jump_rcx_zero();
        self.asm.mov(RCX, S0);
        self.helper(instruction);
        self.asm.land(zero);
        self.asm.mov(RCX, S0);
    }

    /// Encodes a rewritten guest instruction here. One without an encoding is not implemented, and
    /// raises #UD.
    pub(super) fn encode(&mut self, instruction: &Instruction) {
        let at = self.asm.here();
        let start = self.asm.offset();
        self.encoder.set_buffer(self.asm.take());
        let result = self.encoder.encode(instruction, at);
        let code = self.encoder.take_buffer();
        self.asm.put(code);
        if result.is_err() {
            self.asm.cut(start);
            let hole = self.asm.jump();
            let kind = ExitStubKind::Fault {
                vector: vector::INVALID_OPCODE,
            };
            self.leave_from(hole, kind, false);
        }
    }
}
