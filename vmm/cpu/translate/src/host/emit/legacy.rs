//! 16- and 32-bit code, emitted as 64-bit code.
//!
//! Registers keep their places. A 32-bit result clears the upper half of its host register;
//! addresses are computed in 32 bits, so the content of an upper half does not matter. Instructions
//! that 64-bit code lacks are rewritten or executed in Rust.

use iced_x86::{Instruction, OpKind, Register};

use super::Emitter;
use crate::context::at;
use crate::guest::analyse::InstructionClass;
use crate::host::asm::{Asm, Operand, RBP, RSP, Reg, S0, S1};

impl Asm {
    /// `mov reg32, [S0 + S1]`.
    fn load_host32(&mut self, reg: Reg) {
        let operand = Operand {
            base: S0,
            index: Some((S1, 1)),
            disp: 0,
        };
        self.load_operand32(reg, operand);
    }

    /// `mov [S0 + S1], reg32`.
    fn store_host32(&mut self, reg: Reg) {
        self.bytes(&[0x43 | (reg >> 3) << 2, 0x89, (reg & 7) << 3 | 4, 0x3e]);
    }

    /// `mov dword [S0 + S1], value`.
    fn store_host_imm32(&mut self, value: u32) {
        self.bytes(&[0x43, 0xc7, 0x04, 0x3e]);
        self.bytes(&value.to_le_bytes());
    }

    /// `mov dword [S1], S0`.
    fn store_s0_at_s1_32(&mut self) {
        self.bytes(&[0x45, 0x89, 0x37]);
    }

    /// `mov S0d, reg32`.
    fn narrow_to_s0(&mut self, reg: Reg) {
        self.bytes(&[0x41 | (reg >> 3) << 2, 0x89, 0xc6 | (reg & 7) << 3]);
    }

    /// `movzx S0d, S0w`.
    fn cut_s0_to_16(&mut self) {
        self.bytes(&[0x45, 0x0f, 0xb7, 0xf6]);
    }

    /// `lea dst32, [base + disp]`.
    fn lea32(&mut self, dst: Reg, base: Reg, disp: i32) {
        self.lea_full(dst, Some(base), None, disp, true);
    }
}

/// Size of an address in bytes, from the memory operand.
fn address_size(instruction: &Instruction) -> usize {
    match (instruction.memory_base(), instruction.memory_index()) {
        (Register::None, Register::None) => match instruction.memory_displ_size() {
            2 => 2,
            _ => 4,
        },
        (Register::None, index) => index.size(),
        (base, _) => base.size(),
    }
}

impl Emitter {
    /// Emits an instruction of 16- or 32-bit code that differs from 64-bit code. Returns true if it
    /// was one.
    pub(super) fn legacy_instruction(
        &mut self,
        instruction: &Instruction,
        class: InstructionClass,
        flags_dead: bool,
    ) -> bool {
        match class {
            InstructionClass::Push => self.push32(instruction, flags_dead),
            InstructionClass::Pop => self.pop32(instruction, flags_dead),
            InstructionClass::Leave => self.leave_frame32(flags_dead),
            InstructionClass::Call => {
                self.push_return_address32(instruction, flags_dead);
                self.jump_to_guest(instruction.near_branch_target());
            }
            InstructionClass::Ret => self.ret32(instruction, flags_dead),
            InstructionClass::JumpIndirect => {
                self.branch_target32(instruction, flags_dead);
                self.jump_cached();
            }
            InstructionClass::CallIndirect => {
                self.branch_target32(instruction, flags_dead);
                self.asm.store(at::CARRIED, S0);
                self.push_return_address32(instruction, flags_dead);
                self.asm.load(S0, at::CARRIED);
                self.jump_cached();
            }
            // Other classes are emitted as in 64-bit code.
            _ => return false,
        }
        true
    }

    /// As [`linear_address`](Self::linear_address), outside 64-bit mode.
    pub(super) fn legacy_address(&mut self, instruction: &Instruction) {
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let short = address_size(instruction) == 2;
        let number =
            |register: Register| (register != Register::None).then(|| register.number() as Reg);
        if base == Register::None && index == Register::None {
            let mask = if short { 0xffff } else { 0xffff_ffff };
            self.asm
                .mov_imm(S0, instruction.memory_displacement64() & mask);
        } else {
            let scale = instruction.memory_index_scale() as u8;
            let index = number(index).map(|index| (index, scale));
            let disp = instruction.memory_displacement64() as i32;
            self.asm.lea_full(S0, number(base), index, disp, true);
            if short {
                self.asm.cut_s0_to_16();
            }
        }
        let slot = match instruction.memory_segment() {
            Register::FS => at::FS_BASE,
            Register::GS => at::GS_BASE,
            register if self.mode.size.is_segmented() => at::segment_base(register.number()),
            _ => return,
        };
        self.asm.load(S1, slot);
        self.asm.lea_full(S0, Some(S0), Some((S1, 1)), 0, true);
    }

    fn push32(&mut self, instruction: &Instruction, flags_dead: bool) {
        match instruction.op0_kind() {
            OpKind::Register => {
                self.asm.lea32(S0, RSP, -4);
                let access = self.begin_access(4, true, flags_dead);
                self.asm
                    .store_host32(instruction.op0_register().number() as Reg);
                self.asm.lea32(RSP, RSP, -4);
                self.end_access(access);
            }
            OpKind::Memory => {
                self.branch_target32(instruction, flags_dead);
                self.asm.store(at::CARRIED, S0);
                self.asm.lea32(S0, RSP, -4);
                let access = self.begin_access(4, true, flags_dead);
                self.asm.lea_sum(S1, S0, S1, 0);
                self.asm.load(S0, at::CARRIED);
                self.asm.store_s0_at_s1_32();
                self.asm.lea32(RSP, RSP, -4);
                self.end_access(access);
            }
            _ => self.push_constant32(instruction.immediate(0) as u32, flags_dead),
        }
    }

    fn push_constant32(&mut self, value: u32, flags_dead: bool) {
        self.asm.lea32(S0, RSP, -4);
        let access = self.begin_access(4, true, flags_dead);
        self.asm.store_host_imm32(value);
        self.asm.lea32(RSP, RSP, -4);
        self.end_access(access);
    }

    fn push_return_address32(&mut self, instruction: &Instruction, flags_dead: bool) {
        self.push_constant32(instruction.next_ip() as u32, flags_dead);
    }

    fn pop32(&mut self, instruction: &Instruction, flags_dead: bool) {
        self.asm.narrow_to_s0(RSP);
        let access = self.begin_access(4, false, flags_dead);
        self.asm.lea32(RSP, RSP, 4);
        self.asm
            .load_host32(instruction.op0_register().number() as Reg);
        self.end_access(access);
    }

    /// `mov esp, ebp; pop ebp`.
    fn leave_frame32(&mut self, flags_dead: bool) {
        self.asm.narrow_to_s0(RBP);
        let access = self.begin_access(4, false, flags_dead);
        self.asm.lea32(RSP, RBP, 4);
        self.asm.load_host32(RBP);
        self.end_access(access);
    }

    fn ret32(&mut self, instruction: &Instruction, flags_dead: bool) {
        let extra = if instruction.op_count() == 1 {
            i32::from(instruction.immediate16())
        } else {
            0
        };
        self.asm.narrow_to_s0(RSP);
        let access = self.begin_access(4, false, flags_dead);
        self.asm.load_host32(S0);
        self.asm.lea32(RSP, RSP, 4 + extra);
        self.end_access(access);
        self.jump_cached();
    }

    /// Loads the first operand, register or memory of 32 bits, into S0.
    fn branch_target32(&mut self, instruction: &Instruction, flags_dead: bool) {
        if instruction.op0_kind() == OpKind::Memory {
            self.legacy_address(instruction);
            let access = self.begin_access(4, false, flags_dead);
            self.asm.load_host32(S0);
            self.end_access(access);
        } else {
            self.asm
                .narrow_to_s0(instruction.op0_register().number() as Reg);
        }
    }
}
