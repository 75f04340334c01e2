//! Instructions that compute: on registers directly, on memory through a check.
//!
//! The host executes the guest's own instruction, with S0 in place of R14 or R15 and a host address
//! as memory operand. A fault in it is mapped back to the guest's instruction. `emit/instruction`
//! calls these by the instruction's class.

use iced_x86::{Code, Instruction, OpKind, Register};

use super::Emitter;
use super::access::Address;
use crate::context::at;
use crate::guest::analyse::operands::has_high_byte;
use crate::host::asm::{Operand, RBP, RCX, RSI, RSP, Reg, S0, S1};
use crate::host::rewrite::{Spilled, drop_lock, set_memory, spilled_operands, use_first_scratch};

impl Emitter {
    /// A guest register's host register: itself, or `scratch` loaded from memory.
    pub(super) fn fetch(&mut self, register: Register, scratch: Reg) -> Reg {
        let number = register.number() as Reg;
        if number < S0 {
            return number;
        }
        self.asm.load(scratch, at::gpr(number as usize));
        scratch
    }

    /// An instruction without memory operand. The host's R14 and R15 hold the guest's while it
    /// runs.
    pub(super) fn plain(&mut self, instruction: &Instruction) {
        let spilled = spilled_operands(instruction);
        for (index, register) in [S0, S1].into_iter().enumerate() {
            if spilled.loads[index] {
                self.asm.load(register, at::gpr(register as usize));
            }
        }
        self.encode(instruction);
        for (index, register) in [S0, S1].into_iter().enumerate() {
            if spilled.stores[index] {
                self.asm.store(at::gpr(register as usize), register);
            }
        }
    }

    /// LEA only computes, and ignores segments.
    pub(super) fn lea(&mut self, instruction: &Instruction) {
        let mut instruction = *instruction;
        instruction.set_segment_prefix(Register::None);
        let constant = instruction.is_ip_rel_memory_operand()
            || (instruction.memory_base() == Register::None
                && instruction.memory_index() == Register::None);
        let target = instruction.op0_register();
        if constant {
            return self.lea_constant(&instruction);
        }
        for (register, full) in [(S0, Register::R14), (S1, Register::R15)] {
            let named = [
                instruction.memory_base(),
                instruction.memory_index(),
                target,
            ]
            .iter()
            .any(|named| named.full_register() == full);
            if named {
                self.asm.load(register, at::gpr(register as usize));
            }
        }
        self.encode(&instruction);
        let number = target.number() as Reg;
        if number >= S0 {
            self.asm.store(at::gpr(number as usize), number);
        }
    }

    /// LEA of a constant address.
    fn lea_constant(&mut self, instruction: &Instruction) {
        let target = instruction.op0_register();
        let address = instruction.memory_displacement64();
        let (base, number) = (instruction.memory_base(), target.number() as Reg);
        if target.size() == 2 {
            return self.set_low_half(target, address as u16);
        }
        if base == Register::RIP && target.size() == 8 {
            self.guest_address(number, address);
        } else {
            let narrow = target.size() == 4 || base == Register::EIP;
            let mask = if narrow { 0xffff_ffff } else { u64::MAX };
            self.asm.mov_imm(number, address & mask);
        }
        if number >= S0 {
            self.asm.store(at::gpr(number as usize), number);
        }
    }

    /// `mov target, value` of 16 bits.
    pub(super) fn set_low_half(&mut self, target: Register, value: u16) {
        let code = Code::Mov_r16_imm16;
        if let Ok(moves) = Instruction::with2(code, target, u32::from(value)) {
            self.plain(&moves);
        }
    }

    /// An instruction with one memory operand.
    pub(super) fn memory(
        &mut self,
        instruction: &Instruction,
        size: u16,
        write: bool,
        flags_dead: bool,
    ) {
        let (operand, access) = self.open(Address::Of(instruction), size, write, flags_dead);
        let spilled = spilled_operands(instruction);
        let mut rewritten = *instruction;
        drop_lock(&mut rewritten);
        if has_high_byte(instruction) {
            self.with_high_byte(rewritten, operand);
        } else if spilled.is_empty() {
            set_memory(&mut rewritten, operand);
            self.encode(&rewritten);
        } else if spilled.loads == [true; 2] {
            self.with_both_spilled(rewritten, spilled, size, operand);
        } else {
            self.with_spilled(rewritten, spilled, operand);
        }
        self.end_access(access);
    }

    /// BT and similar instructions with a bit offset in a register: executed by the host if the bit
    /// lies in the addressed operand. Others, and all if caches are modelled, are executed in Rust.
    pub(super) fn bit_string(&mut self, instruction: &Instruction, size: u16, write: bool) {
        if self.lines.is_some() {
            return self.helper(instruction);
        }
        let offset = self.fetch(instruction.op1_register().full_register(), S1);
        self.asm.mov(S0, RCX);
        self.asm.pext(RCX, offset, at::beyond_bits(size));
        let within = self.asm.jump_rcx_zero();
        self.asm.mov(RCX, S0);
        self.helper(instruction);
        self.asm.land(within);
        self.asm.mov(RCX, S0);
        self.memory(instruction, size, write, false);
    }

    /// AH to DH cannot be encoded with a REX prefix, which the scratch registers need: RSI is
    /// borrowed as the base.
    fn with_high_byte(&mut self, mut instruction: Instruction, operand: Operand) {
        self.asm.store(at::BORROWED, RSI);
        self.asm.lea_operand(RSI, operand);
        let base = Operand {
            base: RSI,
            index: None,
            disp: 0,
        };
        set_memory(&mut instruction, base);
        self.encode(&instruction);
        self.asm.load(RSI, at::BORROWED);
    }

    /// One register operand is R14 or R15, replaced by S0.
    fn with_spilled(&mut self, mut instruction: Instruction, spilled: Spilled, operand: Operand) {
        let number = if spilled.loads[0] { S0 } else { S1 };
        let operand = self.free_first(operand);
        self.asm.load(S0, at::gpr(number as usize));
        use_first_scratch(&mut instruction);
        set_memory(&mut instruction, operand);
        self.encode(&instruction);
        if spilled.stores != [false; 2] {
            self.asm.store(at::gpr(number as usize), S0);
        }
    }

    /// Both R14 and R15 are register operands: the memory operand, which all such instructions only
    /// read, goes through the context.
    fn with_both_spilled(
        &mut self,
        mut instruction: Instruction,
        spilled: Spilled,
        size: u16,
        operand: Operand,
    ) {
        if size == 8 {
            self.asm.load_operand(S0, operand);
        } else {
            self.asm.load_operand32(S0, operand);
        }
        self.asm.store(at::CARRIED, S0);
        self.asm.load(S0, at::gpr(S0 as usize));
        self.asm.load(S1, at::gpr(S1 as usize));
        set_memory(&mut instruction, operand);
        instruction.set_memory_base(Register::None);
        instruction.set_memory_index(Register::None);
        instruction.set_memory_displacement64(at::CARRIED as u64);
        instruction.set_memory_displ_size(8);
        instruction.set_segment_prefix(Register::GS);
        self.encode(&instruction);
        for (index, register) in [S0, S1].into_iter().enumerate() {
            if spilled.stores[index] {
                self.asm.store(at::gpr(register as usize), register);
            }
        }
    }

    pub(super) fn push(&mut self, instruction: &Instruction, flags_dead: bool) {
        match instruction.op0_kind() {
            OpKind::Register => {
                let (operand, access) = self.open(Address::On(RSP, -8), 8, true, flags_dead);
                let register = instruction.op0_register();
                if (register.number() as Reg) < S0 {
                    self.asm.store_operand(operand, register.number() as Reg);
                } else {
                    let operand = self.free_first(operand);
                    let source = self.fetch(register, S0);
                    self.asm.store_operand(operand, source);
                }
                self.move_stack(-8);
                self.end_access(access);
            }
            OpKind::Memory => {
                self.load_carried(instruction, flags_dead);
                self.push_carried(flags_dead);
            }
            _ => {
                let value = instruction.immediate(0) as i32;
                let (operand, access) = self.open(Address::On(RSP, -8), 8, true, flags_dead);
                self.asm.store_operand_imm(operand, value);
                self.move_stack(-8);
                self.end_access(access);
            }
        }
    }

    /// Reads the 64-bit memory operand into the context's carried value.
    pub(super) fn load_carried(&mut self, instruction: &Instruction, flags_dead: bool) {
        self.linear_address(instruction);
        let (operand, access) = self.open_linear(8, false, flags_dead);
        self.asm.load_operand(S0, operand);
        self.end_access(access);
        self.asm.store(at::CARRIED, S0);
    }

    pub(super) fn push_carried(&mut self, flags_dead: bool) {
        self.asm.lea(S0, RSP, -8);
        let (operand, access) = self.open_linear(8, true, flags_dead);
        let operand = self.free_first(operand);
        self.asm.load(S0, at::CARRIED);
        self.asm.store_operand(operand, S0);
        self.move_stack(-8);
        self.end_access(access);
    }

    pub(super) fn pop(&mut self, instruction: &Instruction, flags_dead: bool) {
        let (operand, access) = self.open(Address::On(RSP, 0), 8, false, flags_dead);
        let number = instruction.op0_register().number() as Reg;
        if number == RSP {
            self.asm.load_operand(RSP, operand);
        } else if number < S0 {
            self.asm.load_operand(number, operand);
            self.move_stack(8);
        } else {
            self.asm.load_operand(S0, operand);
            self.asm.store(at::gpr(number as usize), S0);
            self.move_stack(8);
        }
        self.end_access(access);
    }

    /// `mov rsp, rbp; pop rbp`.
    pub(super) fn leave_frame(&mut self, flags_dead: bool) {
        let (operand, access) = self.open(Address::On(RBP, 0), 8, false, flags_dead);
        self.asm.lea(RSP, RBP, 8);
        self.asm.load_operand(RBP, operand);
        self.end_access(access);
    }
}
