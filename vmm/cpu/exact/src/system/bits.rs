//! Bit strings in memory: BT, BTS, BTR and BTC whose offset may lead beyond the operand.
//!
//! The bits are read and written in one access of the operand's width, as the manual has it.
//! Called for what translated code leaves to Rust.

use iced_x86::{Instruction, Mnemonic};

use super::Done;
use super::operand::check_segment;
use crate::access::Stop;
use crate::vcpu::ExactVcpu;

impl ExactVcpu {
    /// BT, BTS, BTR, BTC on memory with a register offset, which may be negative
    /// and reach anywhere. Only CF changes.
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
