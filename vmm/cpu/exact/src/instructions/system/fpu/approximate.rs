//! Approximations left to the dispatcher: reciprocals of special numbers, and the more precise instructions of
//! AVX-512.
//!
//! On every host, the results are bit-identical to [reciprocal](belljar_translate::defined::reciprocal), or to
//! IEEE 754's division and square root. `system` and its table call these if the engine's own results are
//! requested.

use belljar_translate::defined::reciprocal::{self, Approximation};
use iced_x86::{Instruction, Mnemonic as M, OpKind, Register};

use crate::instructions::done::Done;
use crate::instructions::system::operand::check_segment;
use crate::memory::access::Stop;
use crate::processor::mmu::is_canonical;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// Flush denormal results to zero, treat denormal operands as zero: bits of MXCSR.
const FLUSH: u32 = 1 << 15;
const DENORMALS_ARE_ZEROS: u32 = 1 << 6;

impl ExactVcpu {
    /// An approximation between registers, lane by lane.
    pub(crate) fn approximate(&mut self, instruction: &Instruction, approximation: Approximation) {
        let last = instruction.op_count() - 1;
        let number = |operand| instruction.op_register(operand).number();
        let source = self.context.vectors[number(last)].0;
        let mut result = self.context.vectors[number(last.saturating_sub(1))].0;
        let target = instruction.op0_register();
        let lanes = if reciprocal::is_scalar(instruction.mnemonic()) {
            1
        } else {
            target.size() / 4
        };
        for (to, from) in result
            .chunks_exact_mut(4)
            .zip(source.chunks_exact(4))
            .take(lanes)
        {
            let operand = u32::from_le_bytes([from[0], from[1], from[2], from[3]]);
            to.copy_from_slice(&reciprocal::approximate(approximation, operand).to_le_bytes());
        }
        if reciprocal::is_vex(instruction) {
            result[target.size()..].fill(0);
        }
        self.context.vectors[target.number()].0 = result;
    }

    /// VRCP14PS and similar instructions: the result of IEEE 754's division, rounded to nearest, after the
    /// square root if there is one. They set no exception flags.
    pub(crate) fn approximate_closely(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let last = instruction.op_count() - 1;
        let scalar = last == 2;
        let target = instruction.op0_register();
        let bytes = element_bytes(instruction.mnemonic());
        let lanes = if scalar { 1 } else { target.size() / bytes };
        let old = self.context.vectors[target.number()].0;
        let mut result = if scalar {
            self.context.vectors[instruction.op1_register().number()].0
        } else {
            [0; 64]
        };
        self.check_lanes(instruction, last, lanes, bytes)?;
        for lane in 0..lanes {
            let place = lane * bytes..(lane + 1) * bytes;
            if self.is_masked_out(instruction, lane) {
                if instruction.zeroing_masking() {
                    result[place].fill(0);
                } else {
                    result[place.clone()].copy_from_slice(&old[place]);
                }
                continue;
            }
            let operand = self.lane_operand(instruction, last, lane, bytes)?;
            let value = close(instruction.mnemonic(), operand, self.context.guest_mxcsr);
            result[place].copy_from_slice(&value.to_le_bytes()[..bytes]);
        }
        result[target.size()..].fill(0);
        self.context.vectors[target.number()].0 = result;
        Ok(Done::Next)
    }

    fn is_masked_out(&self, instruction: &Instruction, lane: usize) -> bool {
        match instruction.op_mask() {
            Register::None => false,
            mask => self.context.masks[mask.number()] >> lane & 1 == 0,
        }
    }

    /// Checks that all accessed elements of a vector operand in memory have canonical addresses, which happens
    /// before any page is accessed.
    fn check_lanes(
        &self,
        instruction: &Instruction,
        operand: u32,
        lanes: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        if instruction.op_kind(operand) == OpKind::Register {
            return Ok(());
        }
        for lane in (0..lanes).filter(|&lane| !self.is_masked_out(instruction, lane)) {
            let first = self.element_address(instruction, lane, bytes);
            check_segment(instruction, first, bytes)?;
            if !is_canonical(first) || !is_canonical(first.wrapping_add(bytes as u64 - 1)) {
                return Err(Fault::protection(0));
            }
        }
        Ok(())
    }

    /// The address of element `lane` of the operand in memory.
    fn element_address(&self, instruction: &Instruction, lane: usize, bytes: usize) -> u64 {
        let offset = if instruction.is_broadcast() {
            0
        } else {
            lane * bytes
        };
        self.linear(instruction).wrapping_add(offset as u64)
    }

    /// Element `lane` of a vector operand, in a register or in memory.
    fn lane_operand(
        &mut self,
        instruction: &Instruction,
        operand: u32,
        lane: usize,
        bytes: usize,
    ) -> Result<u64, Stop> {
        let mut value = [0; 8];
        if instruction.op_kind(operand) == OpKind::Register {
            let number = instruction.op_register(operand).number();
            let from = &self.context.vectors[number].0[lane * bytes..][..bytes];
            value[..bytes].copy_from_slice(from);
            return Ok(u64::from_le_bytes(value));
        }
        let at = self.element_address(instruction, lane, bytes);
        self.load(at, bytes)
    }
}

/// Bytes of an element.
fn element_bytes(mnemonic: M) -> usize {
    match mnemonic {
        M::Vrcp14pd | M::Vrcp14sd | M::Vrsqrt14pd | M::Vrsqrt14sd => 8,
        _ => 4,
    }
}

/// The reciprocal of a number, or of its square root.
fn close(mnemonic: M, operand: u64, mxcsr: u32) -> u64 {
    let root = matches!(
        mnemonic,
        M::Vrsqrt14ps | M::Vrsqrt14ss | M::Vrsqrt14pd | M::Vrsqrt14sd
    );
    let (flush, zeros) = (mxcsr & FLUSH != 0, mxcsr & DENORMALS_ARE_ZEROS != 0);
    if element_bytes(mnemonic) == 8 {
        let mut value = f64::from_bits(operand);
        if value.is_nan() {
            return operand | 1 << 51;
        }
        if zeros && value.is_subnormal() {
            value = 0f64.copysign(value);
        }
        if root && value < 0.0 {
            return 0xfff8 << 48;
        }
        let result = 1.0 / if root { value.sqrt() } else { value };
        return match result {
            _ if flush && result.is_subnormal() => 0f64.copysign(result).to_bits(),
            _ => result.to_bits(),
        };
    }
    let mut value = f32::from_bits(operand as u32);
    if value.is_nan() {
        return operand | 1 << 22;
    }
    if zeros && value.is_subnormal() {
        value = 0f32.copysign(value);
    }
    if root && value < 0.0 {
        return 0xffc0_0000;
    }
    let result = 1.0 / if root { value.sqrt() } else { value };
    let result = match result {
        _ if flush && result.is_subnormal() => 0f32.copysign(result),
        _ => result,
    };
    u64::from(result.to_bits())
}
