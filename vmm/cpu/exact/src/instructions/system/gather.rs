//! Gathers and scatters, lane by lane: at a fault, the earlier lanes are complete and their mask
//! bits cleared, so that the instruction can continue from there.
//!
//! `table` calls these for all gathers and scatters. A masked-out lane is not accessed. A lane is
//! loaded before its mask bit is cleared, so a stop in between leaves a state that processors could
//! have.

use iced_x86::{Instruction, Mnemonic as M, OpKind, Register};

use super::operand::check_segment;
use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// A decoded gather or scatter.
struct Lanes {
    /// The vector loaded or stored.
    data: usize,
    /// Its used bytes.
    width: usize,
    /// Bytes of an element.
    element: usize,
    count: usize,
    /// The vector of indices, their size, their scale.
    index: usize,
    index_bytes: usize,
    scale: u64,
    /// The address that is added to all lanes' offsets.
    base: u64,
    /// Addresses are truncated to 32 bits, before `segment` is added.
    narrow: bool,
    segment: u64,
    mask: Mask,
}

enum Mask {
    /// One bit per lane.
    Bits(usize),
    /// The sign of a vector's element.
    Vector(usize),
}

impl ExactVcpu {
    /// VPGATHER and similar instructions.
    pub(super) fn gather(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let lanes = self.lanes(instruction, false)?;
        let user = self.state.is_user();
        for lane in 0..lanes.count {
            if self.is_lane_on(&lanes, lane) {
                let mut bytes = [0; 8];
                let address = self.lane_address(&lanes, lane);
                check_segment(instruction, address, lanes.element)?;
                self.read_linear(address, &mut bytes[..lanes.element], user)?;
                let at = lane * lanes.element;
                self.context.vectors[lanes.data].0[at..at + lanes.element]
                    .copy_from_slice(&bytes[..lanes.element]);
            }
            self.finish_lane(&lanes, lane);
        }
        let used = lanes.count * lanes.element;
        self.context.vectors[lanes.data].0[used..].fill(0);
        match lanes.mask {
            Mask::Bits(number) => self.context.masks[number] = 0,
            Mask::Vector(number) => self.context.vectors[number].0.fill(0),
        }
        Ok(Done::Next)
    }

    /// VPSCATTER and similar instructions.
    pub(super) fn scatter(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let lanes = self.lanes(instruction, true)?;
        let user = self.state.is_user();
        for lane in 0..lanes.count {
            if self.is_lane_on(&lanes, lane) {
                let at = lane * lanes.element;
                let mut bytes = [0; 8];
                bytes[..lanes.element]
                    .copy_from_slice(&self.context.vectors[lanes.data].0[at..at + lanes.element]);
                let address = self.lane_address(&lanes, lane);
                check_segment(instruction, address, lanes.element)?;
                self.write_linear(address, &bytes[..lanes.element], user)?;
            }
            self.finish_lane(&lanes, lane);
        }
        if let Mask::Bits(number) = lanes.mask {
            self.context.masks[number] = 0;
        }
        Ok(Done::Next)
    }

    fn lanes(&self, instruction: &Instruction, stores: bool) -> Result<Lanes, Fault> {
        let data_operand = u32::from(stores);
        let data = instruction.op_register(data_operand);
        let index = instruction.memory_index();
        let element = instruction.memory_size().size();
        let index_bytes = index_element(instruction.mnemonic());
        let mask = if instruction.op_mask() == Register::None {
            Mask::Vector(instruction.op_register(2).number())
        } else {
            Mask::Bits(instruction.op_mask().number())
        };
        let clash = match mask {
            _ if stores => false,
            Mask::Bits(_) => data.number() == index.number(),
            Mask::Vector(mask) => {
                data.number() == index.number() || data.number() == mask || index.number() == mask
            }
        };
        let is_memory = instruction.op_kind(u32::from(!stores)) == OpKind::Memory;
        if clash || !is_memory || !matches!(element, 4 | 8) {
            return Err(Fault::invalid_opcode());
        }
        let base = instruction.memory_base();
        let mut start = instruction.memory_displacement64();
        if base != Register::None {
            start = start.wrapping_add(self.register(base.full_register()));
        }
        Ok(Lanes {
            data: data.number(),
            width: data.size(),
            element,
            count: (data.size() / element).min(index.size() / index_bytes),
            index: index.number(),
            index_bytes,
            scale: u64::from(instruction.memory_index_scale()),
            base: start,
            narrow: base.size() == 4,
            segment: self.segment_base(instruction.memory_segment()),
            mask,
        })
    }

    fn is_lane_on(&self, lanes: &Lanes, lane: usize) -> bool {
        match lanes.mask {
            Mask::Bits(number) => self.context.masks[number] >> lane & 1 == 1,
            Mask::Vector(number) => {
                let top = (lane + 1) * lanes.element - 1;
                self.context.vectors[number].0[top] & 0x80 != 0
            }
        }
    }

    fn finish_lane(&mut self, lanes: &Lanes, lane: usize) {
        match lanes.mask {
            Mask::Bits(number) => self.context.masks[number] &= !(1 << lane),
            Mask::Vector(number) => {
                let at = lane * lanes.element;
                self.context.vectors[number].0[at..at + lanes.element].fill(0);
            }
        }
    }

    fn lane_address(&self, lanes: &Lanes, lane: usize) -> u64 {
        debug_assert!(lanes.count * lanes.element <= lanes.width);
        let at = lane * lanes.index_bytes;
        let bytes = &self.context.vectors[lanes.index].0[at..at + lanes.index_bytes];
        let raw = bytes
            .iter()
            .rev()
            .fold(0, |all, &byte| all << 8 | u64::from(byte));
        let index = if lanes.index_bytes == 4 {
            i64::from(raw as i32) as u64
        } else {
            raw
        };
        let offset = lanes.base.wrapping_add(index.wrapping_mul(lanes.scale));
        let offset = if lanes.narrow {
            offset & 0xffff_ffff
        } else {
            offset
        };
        offset.wrapping_add(lanes.segment)
    }
}

/// Bytes of an index.
fn index_element(mnemonic: M) -> usize {
    match mnemonic {
        M::Vpgatherdd | M::Vpgatherdq | M::Vgatherdps | M::Vgatherdpd => 4,
        M::Vpscatterdd | M::Vpscatterdq | M::Vscatterdps | M::Vscatterdpd => 4,
        _ => 8,
    }
}
