//! Operands of instructions that are executed in Rust.
//!
//! Addresses are computed and wrapped by the mode of the running code, and a stack access outside
//! the canonical range raises #SS instead of #GP. A 32-bit write clears the upper half of its
//! register. All of `system` reads and writes operands with these functions.

use belljar_cpu::SegmentRegister;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::width;
use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::mmu::is_canonical;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::x87::{ST_OFFSET, load_x87};

impl ExactVcpu {
    /// Offset within the segment of the memory operand.
    pub(crate) fn effective_address(&self, instruction: &Instruction) -> u64 {
        let mut address = instruction.memory_displacement64();
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let mut narrow = base == Register::EIP;
        let mut short = false;
        if !instruction.is_ip_rel_memory_operand() {
            if base != Register::None {
                address = address.wrapping_add(self.register(base.full_register()));
                narrow |= base.size() == 4;
                short |= base.size() == 2;
            }
            if index != Register::None {
                let scaled = self
                    .register(index.full_register())
                    .wrapping_mul(u64::from(instruction.memory_index_scale()));
                address = address.wrapping_add(scaled);
                narrow |= index.size() == 4;
                short |= index.size() == 2;
            }
        }
        if short {
            address & 0xffff
        } else if narrow || !self.state.is_long() {
            address & 0xffff_ffff
        } else {
            address
        }
    }

    /// Linear address of the memory operand.
    pub(crate) fn linear(&self, instruction: &Instruction) -> u64 {
        let base = self.segment_base(instruction.memory_segment());
        let linear = self.effective_address(instruction).wrapping_add(base);
        self.state.wrap_linear(linear)
    }

    /// Loads `size` bytes that lie `offset` bytes after the memory operand's start.
    pub(crate) fn load_at(
        &mut self,
        instruction: &Instruction,
        offset: u64,
        size: usize,
    ) -> Result<u64, Stop> {
        let linear = self.linear(instruction).wrapping_add(offset);
        let linear = self.state.wrap_linear(linear);
        check_segment(instruction, linear, size)?;
        self.load(linear, size)
    }

    /// Stores `size` bytes that lie `offset` bytes after the memory operand's start.
    pub(super) fn store_at(
        &mut self,
        instruction: &Instruction,
        offset: u64,
        value: u64,
        size: usize,
    ) -> Result<(), Stop> {
        let linear = self.linear(instruction).wrapping_add(offset);
        let linear = self.state.wrap_linear(linear);
        check_segment(instruction, linear, size)?;
        self.store(linear, value, size)
    }

    /// The base of a segment.
    pub(crate) fn segment_base(&self, segment: Register) -> u64 {
        match segment {
            Register::FS => self.context.fs_base,
            Register::GS => self.context.gs_base,
            _ if self.state.is_long() => 0,
            Register::ES => self.state.segment(SegmentRegister::Es).base,
            Register::CS => self.state.segment(SegmentRegister::Cs).base,
            Register::SS => self.state.segment(SegmentRegister::Ss).base,
            _ => self.state.segment(SegmentRegister::Ds).base,
        }
    }

    /// A general register of any width.
    pub(crate) fn register(&self, register: Register) -> u64 {
        let full = self.context.gpr[register.full_register().number()];
        match register {
            Register::AH | Register::CH | Register::DH | Register::BH => full >> 8 & 0xff,
            _ => full & mask(register.size()),
        }
    }

    /// Writes a general register of any width; a 32-bit write clears the upper half.
    pub(crate) fn set_register(&mut self, register: Register, value: u64) {
        let slot = &mut self.context.gpr[register.full_register().number()];
        match register {
            Register::AH | Register::CH | Register::DH | Register::BH => {
                *slot = *slot & !0xff00 | (value & 0xff) << 8;
            }
            _ => match register.size() {
                8 => *slot = value,
                4 => *slot = value & 0xffff_ffff,
                size => *slot = *slot & !mask(size) | value & mask(size),
            },
        }
    }

    /// An operand's value, zero-extended.
    pub(crate) fn read_operand(
        &mut self,
        instruction: &Instruction,
        operand: u32,
    ) -> Result<u64, Stop> {
        match instruction.op_kind(operand) {
            OpKind::Register => Ok(self.register(instruction.op_register(operand))),
            OpKind::Memory => {
                let size = instruction.memory_size().size().min(8);
                let linear = self.linear(instruction);
                check_segment(instruction, linear, size)?;
                self.load(linear, size)
            }
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {
                Ok(instruction.near_branch_target())
            }
            _ => Ok(instruction.immediate(operand)),
        }
    }

    /// Writes an operand.
    pub(crate) fn write_operand(
        &mut self,
        instruction: &Instruction,
        operand: u32,
        value: u64,
    ) -> Result<(), Stop> {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                self.set_register(instruction.op_register(operand), value);
                Ok(())
            }
            _ => {
                let size = instruction.memory_size().size().min(8);
                let linear = self.linear(instruction);
                check_segment(instruction, linear, size)?;
                self.store(linear, value, size)
            }
        }
    }

    /// Loads `size` bytes, at most 8, at the current privilege level.
    pub(crate) fn load(&mut self, linear: u64, size: usize) -> Result<u64, Stop> {
        let mut bytes = [0; 8];
        let user = self.state.is_user();
        self.read_linear(linear, &mut bytes[..size], user)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Stores `size` bytes, at most 8, at the current privilege level.
    pub(crate) fn store(&mut self, linear: u64, value: u64, size: usize) -> Result<(), Stop> {
        let user = self.state.is_user();
        Ok(self.write_linear(linear, &value.to_le_bytes()[..size], user)?)
    }

    /// Pushes `size` bytes.
    pub(crate) fn push(&mut self, value: u64, size: usize) -> Result<(), Stop> {
        let sp = self.context.gpr[4].wrapping_sub(size as u64);
        let at = self.state.stack_address(sp);
        check_stack_address(at, size)?;
        self.store(at, value, size)?;
        self.set_stack_pointer(sp);
        Ok(())
    }

    /// Sets the part of RSP that the stack uses.
    pub(crate) fn set_stack_pointer(&mut self, value: u64) {
        let mask = self.state.stack_mask();
        let slot = &mut self.context.gpr[4];
        *slot = if mask == 0xffff {
            *slot & !mask | value & mask
        } else {
            value & mask
        };
    }

    /// Pops `bytes` bytes off the stack.
    pub(crate) fn drop_stack(&mut self, bytes: u64) {
        let sp = self.context.gpr[4].wrapping_add(bytes);
        self.set_stack_pointer(sp);
    }

    /// Reads the stack `offset` bytes above RSP.
    pub(crate) fn peek(&mut self, offset: u64, size: usize) -> Result<u64, Stop> {
        let sp = self.context.gpr[4].wrapping_add(offset);
        let at = self.state.stack_address(sp);
        self.load_from_stack(at, size)
    }

    /// Loads a value at the linear address `at` in the stack segment.
    pub(crate) fn load_from_stack(&mut self, at: u64, size: usize) -> Result<u64, Stop> {
        check_stack_address(at, size)?;
        self.load(at, size)
    }

    /// MOV with segment registers, 16-bit PUSH and POP, POP to memory.
    pub(super) fn move_general(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let value = if names_segment(instruction, 0) {
                    u64::from(self.selector(instruction.op0_register()))
                } else {
                    self.read_operand(instruction, 0)?
                };
                self.push(value, width(instruction))?;
            }
            Mnemonic::Pop => {
                let size = width(instruction);
                let value = self.peek(0, size)?;
                let rsp = self.context.gpr[4];
                self.drop_stack(size as u64);
                let result = if names_segment(instruction, 0) {
                    self.load_segment(instruction.op0_register(), value as u16)
                        .map_err(Stop::from)
                } else {
                    self.write_operand(instruction, 0, value)
                };
                if let Err(stop) = result {
                    self.context.gpr[4] = rsp;
                    return Err(stop);
                }
                self.shadow_stack_load(instruction);
            }
            _ if names_segment(instruction, 1) => {
                let selector = self.selector(instruction.op1_register());
                self.write_operand_16(instruction, selector)?;
            }
            _ => {
                let value = self.read_operand_16(instruction)?;
                self.load_segment(instruction.op0_register(), value)?;
                self.shadow_stack_load(instruction);
            }
        }
        Ok(Done::Next)
    }

    /// A load of SS blocks interrupts and traps before the next instruction.
    fn shadow_stack_load(&mut self, instruction: &Instruction) {
        self.state.shadow = instruction.op0_register() == Register::SS;
        self.state.holds_traps = self.state.shadow;
    }

    fn write_operand_16(&mut self, instruction: &Instruction, selector: u16) -> Result<(), Stop> {
        if instruction.op0_kind() == OpKind::Memory {
            return self.store_at(instruction, 0, u64::from(selector), 2);
        }
        self.set_register(instruction.op0_register(), u64::from(selector));
        Ok(())
    }

    fn read_operand_16(&mut self, instruction: &Instruction) -> Result<u16, Stop> {
        if instruction.op1_kind() == OpKind::Memory {
            return Ok(self.load_at(instruction, 0, 2)? as u16);
        }
        Ok(self.register(instruction.op1_register()) as u16)
    }

    /// Other instructions: 16-bit LEAVE, XLAT, masked stores.
    pub(super) fn odd(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        match instruction.mnemonic() {
            Mnemonic::Xlatb => {
                let base = instruction.memory_base();
                let offset = self.register(base).wrapping_add(self.context.gpr[0] & 0xff);
                let segment = self.segment_base(instruction.memory_segment());
                let linear = segment.wrapping_add(offset & mask(base.size()));
                let value = self.load(self.state.wrap_linear(linear), 1)?;
                self.set_register(Register::AL, value);
            }
            Mnemonic::Maskmovq => {
                let image = self.mmx_image()?;
                let [data, mask] = [1, 2].map(|operand| {
                    let number = instruction.op_register(operand).number();
                    let mut bytes = [0; 16];
                    bytes[..8].copy_from_slice(&image.0[ST_OFFSET + number * 16..][..8]);
                    bytes
                });
                self.store_masked(instruction, &data, &mask)?;
                load_x87(&image);
            }
            Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => {
                let [data, mask] = [1, 2].map(|operand| {
                    let number = instruction.op_register(operand).number();
                    let mut bytes = [0; 16];
                    bytes.copy_from_slice(&self.context.vectors[number].0[..16]);
                    bytes
                });
                self.store_masked(instruction, &data, &mask)?;
            }
            _ => return Err(Fault::invalid_opcode().into()),
        }
        Ok(Done::Next)
    }

    /// Stores the bytes of `data` whose bytes of `mask` have the top bit, at RDI; all are checked
    /// before the first store.
    fn store_masked(
        &mut self,
        instruction: &Instruction,
        data: &[u8; 16],
        mask: &[u8; 16],
    ) -> Result<(), Stop> {
        let narrow = instruction.op0_kind() == OpKind::MemorySegEDI;
        let start = if narrow {
            self.context.gpr[7] & 0xffff_ffff
        } else {
            self.context.gpr[7]
        };
        let start = start.wrapping_add(self.segment_base(instruction.memory_segment()));
        let user = self.state.is_user();
        let chosen = |at: &u64| mask[*at as usize] & 0x80 != 0;
        for at in (0..16).filter(chosen) {
            self.direct_run(start.wrapping_add(at), 1, true, user)?;
        }
        for at in (0..16).filter(chosen) {
            self.store(start.wrapping_add(at), u64::from(data[at as usize]), 1)?;
        }
        Ok(())
    }
}

fn names_segment(instruction: &Instruction, operand: u32) -> bool {
    instruction.op_kind(operand) == OpKind::Register
        && instruction.op_register(operand).is_segment_register()
}

/// #SS if any of `size` bytes on the stack is at a non-canonical address.
pub(super) fn check_stack_address(linear: u64, size: usize) -> Result<(), Fault> {
    let last = linear.wrapping_add(size as u64 - 1);
    if is_canonical(linear) && is_canonical(last) {
        Ok(())
    } else {
        Err(Fault::stack())
    }
}

/// As [`check_stack_address`], for accesses through the stack segment.
pub(super) fn check_segment(
    instruction: &Instruction,
    linear: u64,
    size: usize,
) -> Result<(), Fault> {
    if instruction.memory_segment() == Register::SS {
        check_stack_address(linear, size)?;
    }
    Ok(())
}

/// A mask of the low `size` bytes.
pub(crate) fn mask(size: usize) -> u64 {
    if size >= 8 {
        u64::MAX
    } else {
        (1 << (size * 8)) - 1
    }
}
