//! Instructions that exist only in 16- and 32-bit code, and forms of others that 64-bit code lacks
//! (Intel SDM vol. 2).
//!
//! 64-bit code reaches these only if the encoding exists there, too. Flags that manuals leave
//! undefined are zero, as elsewhere in the engine. `table` calls these functions.

use belljar_translate::architecture::flag::{AF, CF, OF, PF, SF, ZF};
use belljar_translate::architecture::vector;
use belljar_translate::context::ARITHMETIC;
use iced_x86::{Code, Instruction, Mnemonic as M, Register};

use super::operand::mask;
use super::width;
use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// #OF and #BR.
const OVERFLOW: u8 = 4;
const BOUND_RANGE: u8 = 5;

impl ExactVcpu {
    /// Near jumps, calls and returns with operands or stacks of 16 bits, and LOOP and
    /// JCXZ with CX.
    pub(super) fn near_transfer(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let size = near_size(instruction);
        let target = match instruction.mnemonic() {
            M::Ret => {
                let target = self.peek(0, size)?;
                let extra = if instruction.op_count() == 1 {
                    u64::from(instruction.immediate16())
                } else {
                    0
                };
                self.drop_stack(size as u64 + extra);
                target
            }
            M::Call => {
                let target = self.read_operand(instruction, 0)?;
                self.push(instruction.next_ip(), size)?;
                target
            }
            M::Jmp => self.read_operand(instruction, 0)?,
            _ if self.counts_to_jump(instruction) => instruction.near_branch_target(),
            _ => return Ok(Done::Next),
        };
        self.state.rip = target & mask(size);
        Ok(Done::Jumped)
    }

    /// JCXZ, LOOP, LOOPE and LOOPNE with CX.
    fn counts_to_jump(&mut self, instruction: &Instruction) -> bool {
        if instruction.mnemonic() == M::Jcxz {
            return self.register(Register::CX) == 0;
        }
        let left = self.register(Register::CX).wrapping_sub(1) & 0xffff;
        self.set_register(Register::CX, left);
        let zero = self.context.flags & ZF != 0;
        left != 0
            && match instruction.mnemonic() {
                M::Loope => zero,
                M::Loopne => !zero,
                _ => true,
            }
    }

    /// LEAVE with a stack that is not flat, or has 16 bits.
    pub(super) fn leave(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let (size, register) = match instruction.code() {
            Code::Leavew => (2, Register::BP),
            Code::Leaved => (4, Register::EBP),
            _ => (8, Register::RBP),
        };
        let frame = self.context.gpr[5];
        let value = self.load_from_stack(self.state.stack_address(frame), size)?;
        self.set_stack_pointer(frame.wrapping_add(size as u64));
        self.set_register(register, value);
        Ok(Done::Next)
    }

    pub(super) fn push_pop_all(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let size = width(instruction) / 8;
        let before = self.context.gpr[4];
        if matches!(instruction.mnemonic(), M::Pusha | M::Pushad) {
            for number in 0..8 {
                let value = self.context.gpr[number];
                let value = if number == 4 { before } else { value };
                if let Err(stop) = self.push(value & mask(size), size) {
                    self.context.gpr[4] = before;
                    return Err(stop);
                }
            }
            return Ok(Done::Next);
        }
        let mut values = [0; 8];
        for (index, value) in values.iter_mut().enumerate() {
            *value = self.peek((index * size) as u64, size)?;
        }
        self.drop_stack(8 * size as u64);
        for (number, value) in (0..8).rev().zip(values) {
            if number != 4 {
                let slot = &mut self.context.gpr[number];
                *slot = if size == 2 {
                    *slot & !0xffff | value
                } else {
                    value
                };
            }
        }
        Ok(Done::Next)
    }

    /// BOUND and INTO.
    pub(super) fn check_range(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        if instruction.mnemonic() == M::Into {
            if self.context.flags & OF == 0 {
                return Ok(Done::Next);
            }
            self.software_interrupt(OVERFLOW, instruction.next_ip())?;
            return Ok(Done::Jumped);
        }
        let size = instruction.op0_register().size();
        let signed = |value: u64| {
            if size == 2 {
                i64::from(value as u16 as i16)
            } else {
                i64::from(value as u32 as i32)
            }
        };
        let index = signed(self.register(instruction.op0_register()));
        let low = signed(self.load_at(instruction, 0, size)?);
        let high = signed(self.load_at(instruction, size as u64, size)?);
        if (low..=high).contains(&index) {
            Ok(Done::Next)
        } else {
            Err(Fault::plain(BOUND_RANGE).into())
        }
    }

    pub(super) fn arpl(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        if !self.state.is_protected() {
            return Err(Fault::invalid_opcode().into());
        }
        let target = self.read_operand(instruction, 0)?;
        let wanted = self.register(instruction.op1_register()) & 3;
        if target & 3 < wanted {
            self.write_operand(instruction, 0, target & !3 | wanted)?;
            self.context.flags |= ZF;
        } else {
            self.context.flags &= !ZF;
        }
        Ok(Done::Next)
    }

    /// AAA, AAS, AAM, AAD, DAA, DAS and SALC. Flags that they leave undefined are zero.
    pub(super) fn adjust(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let (al, ax) = (self.register(Register::AL), self.register(Register::AX));
        let carry = self.context.flags & CF != 0;
        let half = self.context.flags & AF != 0;
        match instruction.mnemonic() {
            M::Salc => {
                self.set_register(Register::AL, if carry { 0xff } else { 0 });
            }
            M::Aam | M::Aad => {
                let base = u64::from(instruction.immediate8());
                let value = if instruction.mnemonic() == M::Aad {
                    (al + self.register(Register::AH) * base) & 0xff
                } else {
                    let quotient = al.checked_div(base);
                    let quotient = quotient.ok_or(Fault::plain(vector::DIVIDE))?;
                    quotient << 8 | (al % base)
                };
                self.set_register(Register::AX, value);
                self.context.flags = result_flags(value & 0xff);
            }
            M::Aaa | M::Aas => {
                let adjusts = al & 15 > 9 || half;
                let step = if adjusts { 0x106 } else { 0 };
                let value = if instruction.mnemonic() == M::Aaa {
                    ax.wrapping_add(step)
                } else {
                    ax.wrapping_sub(step)
                };
                self.set_register(Register::AX, value & 0xff0f);
                self.context.flags = if adjusts { CF | AF } else { 0 };
            }
            _ => self.decimal(instruction.mnemonic() == M::Das, al, carry, half),
        }
        Ok(Done::Next)
    }

    /// DAA and DAS.
    fn decimal(&mut self, subtracts: bool, al: u64, carry: bool, half: bool) {
        let low = al & 15 > 9 || half;
        let high = al > 0x99 || carry;
        let step = if low { 6 } else { 0 } + if high { 0x60 } else { 0 };
        let value = if subtracts {
            al.wrapping_sub(step)
        } else {
            al + step
        } & 0xff;
        // DAS also carries if subtracting 6 borrows.
        let borrows = subtracts && low && al < 6;
        self.set_register(Register::AL, value);
        let mut flags = result_flags(value);
        if high || borrows {
            flags |= CF;
        }
        if low {
            flags |= AF;
        }
        self.context.flags = flags & ARITHMETIC;
    }
}

fn near_size(instruction: &Instruction) -> usize {
    use Code as C;
    match instruction.code() {
        C::Retnw | C::Retnw_imm16 | C::Call_rel16 | C::Call_rm16 | C::Jmp_rm16 => 2,
        C::Jcxz_rel8_16 | C::Loop_rel8_16_CX | C::Loope_rel8_16_CX | C::Loopne_rel8_16_CX => 2,
        _ => 4,
    }
}

/// SF, ZF and PF of a byte.
fn result_flags(value: u64) -> u64 {
    let mut flags = 0;
    if value == 0 {
        flags |= ZF;
    }
    if value & 0x80 != 0 {
        flags |= SF;
    }
    if value.count_ones().is_multiple_of(2) {
        flags |= PF;
    }
    flags
}
