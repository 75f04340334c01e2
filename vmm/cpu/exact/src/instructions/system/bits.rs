//! Bit strings in memory: BT, BTS, BTR and BTC with offsets beyond the operand; and double shifts
//! by more than their length.
//!
//! The bits are read and written in one access of the operand's width, as in the manual. Called for
//! instructions that translated code leaves to Rust.

use belljar_translate::architecture::flag;
use belljar_translate::context::ARITHMETIC;
use belljar_translate::guest::flags::undefined::{self, Count};
use iced_x86::{Instruction, Mnemonic, OpKind};

use super::operand::check_segment;
use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::mmu::is_canonical;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

impl ExactVcpu {
    /// BT, BTS, BTR, BTC on memory with a register offset, which may be negative and arbitrarily
    /// large. Only CF changes.
    pub(super) fn bit_string(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let size = instruction.op1_register().size();
        let (address, bit) = self.bit_address(instruction);
        check_segment(instruction, address, size)?;
        let writes = instruction.mnemonic() != Mnemonic::Bt;
        if writes {
            self.check_writable(address, size)?;
        }
        let value = self.load(address, size)?;
        let changed = match instruction.mnemonic() {
            Mnemonic::Bts => value | 1 << bit,
            Mnemonic::Btr => value & !(1 << bit),
            Mnemonic::Btc => value ^ 1 << bit,
            _ => value,
        };
        if writes {
            self.store(address, changed, size)?;
        }
        self.context.flags = self.context.flags & !1 | value >> bit & 1;
        Ok(Done::Next)
    }

    /// SHLD and SHRD of 16 bits. By more than 16, the first operand follows again after the second;
    /// manuals leave this undefined. Also undefined are OF, except for a count of one, and AF: both
    /// are set to zero.
    pub(super) fn double_shift(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let count = match undefined::count(instruction) {
            Count::Known(count) => count,
            Count::InCl { mask } => self.context.gpr[1] as u32 & mask,
        };
        if instruction.op0_kind() == OpKind::Memory {
            let at = self.linear(instruction);
            check_segment(instruction, at, 2)?;
            if !is_canonical(at) || !is_canonical(at.wrapping_add(1)) {
                return Err(Fault::protection(0).into());
            }
            self.check_writable(at, 2)?;
        }
        let first = self.read_operand(instruction, 0)?;
        let second = self.read_operand(instruction, 1)?;
        let all = first << 32 | second << 16 | first;
        let (result, carry) = match instruction.mnemonic() {
            _ if count == 0 => (first, 0),
            Mnemonic::Shld => (all << count >> 32, all >> (48 - count)),
            _ => (all >> count, all >> (count - 1)),
        };
        let result = result & 0xffff;
        self.write_operand(instruction, 0, result)?;
        if count == 0 {
            return Ok(Done::Next);
        }
        let changed = (result ^ first) & 0x8000 != 0;
        let even = (result as u8).count_ones().is_multiple_of(2);
        let flags = [
            (carry & 1 == 1, flag::CF),
            (even, flag::PF),
            (result == 0, flag::ZF),
            (result & 0x8000 != 0, flag::SF),
            (count == 1 && changed, flag::OF),
        ];
        let set = flags.into_iter().filter(|(is_set, _)| *is_set);
        self.context.flags =
            self.context.flags & !ARITHMETIC | set.map(|(_, flag)| flag).sum::<u64>();
        Ok(Done::Next)
    }

    /// Address of the word that such an instruction accesses, and the bit in it.
    pub(crate) fn bit_address(&self, instruction: &Instruction) -> (u64, u32) {
        let size = instruction.op1_register().size();
        let bits = size as i64 * 8;
        let raw = self.register(instruction.op1_register());
        let shift = 64 - bits as u32;
        let offset = (raw << shift) as i64 >> shift;
        let step = offset.div_euclid(bits) * size as i64;
        let linear = self.linear(instruction).wrapping_add(step as u64);
        (
            self.state.wrap_linear(linear),
            offset.rem_euclid(bits) as u32,
        )
    }
}
