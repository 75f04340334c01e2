//! String instructions. With a REP prefix, `ELEMENTS_AT_A_TIME` repetitions count as one
//! instruction, which is only interrupted between those, by a fault, or by a device; its registers
//! then show its progress, and it continues from there. While TF is set, each repetition counts as
//! an instruction, followed by a trap.

use belljar_cpu::{Exit, PAGE_SIZE, Registers};
use belljar_translate::architecture::flag;
use iced_x86::{Instruction, Register};

use super::operand::mask;
use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::devices::Answer;

/// Costs of string instructions under a time model.
mod cost;
/// Decoded string instructions: operation and registers.
mod operation;

use cost::Trail;
use operation::{StringOp, StringOperation, accumulator, address_size, counter, parse, pointer};

/// Number of repetitions that count as one instruction: more than an operating system requests at
/// once, and few enough to prevent a huge count from stopping the clock.
const ELEMENTS_AT_A_TIME: u64 = 1 << 20;

const CF: u64 = 1;
const PF: u64 = 1 << 2;
const AF: u64 = 1 << 4;
const ZF: u64 = 1 << 6;
const SF: u64 = 1 << 7;
const OF: u64 = 1 << 11;

impl ExactVcpu {
    pub(super) fn string(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let Some((operation, size)) = parse(instruction) else {
            return Err(Fault::invalid_opcode().into());
        };
        let op = StringOp {
            operation,
            size,
            repeat: instruction.has_rep_prefix() || instruction.has_repne_prefix(),
            until_equal: instruction.has_repne_prefix(),
            source_base: self.segment_base(instruction.memory_segment()),
            target_base: self.segment_base(Register::ES),
            address_size: address_size(instruction),
        };
        let start = self.register(counter(op));
        let [loads, stores] = operation.sides();
        let nulls = self.state.nulls();
        let missing =
            loads && nulls.has(instruction.memory_segment()) || stores && nulls.has(Register::ES);
        if missing && !(op.repeat && start == 0) {
            return Err(Fault::protection(0).into());
        }
        let flags = self.context.flags;
        let result = self.elements(op, start);
        if op.repeat {
            // A fault restores the flags from before (Intel SDM, volume 2, "REP"), discarding
            // comparisons up to then; comparisons do not depend on them.
            if result.is_err() {
                self.context.flags = flags;
            }
            let done = start.wrapping_sub(self.register(counter(op)));
            let paid = !matches!(result, Err(_) | Ok(Done::Again(_)));
            self.pay_elements(op, done & mask(op.address_size), paid);
        }
        result
    }

    /// Processes elements until the instruction or a part of it is complete.
    fn elements(&mut self, op: StringOp, start: u64) -> Result<Done, Stop> {
        let mut trail = Trail::default();
        let steps = op.repeat && self.state.flags & flag::TF != 0;
        let most = if steps { 1 } else { ELEMENTS_AT_A_TIME };
        loop {
            let left = self.register(counter(op));
            if op.repeat && left == 0 {
                return Ok(Done::Next);
            }
            let done = start.wrapping_sub(left) & mask(op.address_size);
            if op.repeat && done >= most {
                return Ok(self.part(steps));
            }
            if self.bulk(op, most - done, &mut trail)? {
                continue;
            }
            let from = (self.source(op), self.target(op));
            let ends = self.element(op)?;
            if !matches!(ends, Some(Done::Again(Exit::PioRead { .. })))
                && self.pending.stores.is_empty()
            {
                self.touch_elements(op, from, 1, &mut trail);
            }
            if let Some(done) = ends {
                return Ok(self.told_by_steps(op, steps, done));
            }
            self.pending.replies.clear();
            if !op.repeat {
                return Ok(Done::Next);
            }
            self.step_counter(op, 1);
            // A repeated store to a device exits after each element, so the instruction is
            // incomplete and not counted.
            if !steps && let Some(store) = self.pending.stores.pop() {
                return Ok(Done::Again(store));
            }
            let equal = self.context.flags & ZF != 0;
            let compares = matches!(
                op.operation,
                StringOperation::Scan | StringOperation::Compare
            );
            if compares && equal == op.until_equal {
                return Ok(Done::Next);
            }
        }
    }

    /// Ends after some, but not all repetitions. RF is in the flags that a trap between two of them
    /// saves (Intel SDM, volume 3, 18.3.1.1).
    fn part(&mut self, steps: bool) -> Done {
        if steps {
            self.state.flags |= flag::RF;
        }
        Done::Part
    }

    /// A repetition with an exit to the caller counts if a trap follows it.
    fn told_by_steps(&mut self, op: StringOp, steps: bool, done: Done) -> Done {
        match done {
            Done::Again(exit @ Exit::PioWrite { .. }) if steps => {
                if self.register(counter(op)) == 0 {
                    return Done::Exit(exit);
                }
                self.part(steps);
                Done::PartExit(exit)
            }
            other => other,
        }
    }

    fn source(&self, op: StringOp) -> u64 {
        let offset = self.register(pointer(op, Register::RSI));
        self.state.wrap_linear(op.source_base.wrapping_add(offset))
    }

    fn target(&self, op: StringOp) -> u64 {
        let offset = self.register(pointer(op, Register::RDI));
        self.state.wrap_linear(op.target_base.wrapping_add(offset))
    }

    fn advance(&mut self, op: StringOp, register: Register, elements: u64) {
        let bytes = elements.wrapping_mul(op.size as u64);
        let register = pointer(op, register);
        let value = self.register(register);
        let moved = if self.state.flags & flag::DF != 0 {
            value.wrapping_sub(bytes)
        } else {
            value.wrapping_add(bytes)
        };
        self.set_register(register, moved);
    }

    fn step_counter(&mut self, op: StringOp, elements: u64) {
        let left = self.register(counter(op)).wrapping_sub(elements);
        self.set_register(counter(op), left);
    }

    /// Processes one element. `Some` ends the instruction for now.
    fn element(&mut self, op: StringOp) -> Result<Option<Done>, Stop> {
        match op.operation {
            StringOperation::Move => {
                let value = self.load_element(self.source(op), op.size)?;
                self.store_element(op, value, true)?;
            }
            StringOperation::Store => {
                let value = self.context.gpr[0] & mask(op.size);
                self.store_element(op, value, false)?;
            }
            StringOperation::Load => {
                let value = self.load_element(self.source(op), op.size)?;
                self.set_register(accumulator(op.size), value);
                self.advance(op, Register::RSI, 1);
            }
            StringOperation::Scan => {
                let value = self.load_element(self.target(op), op.size)?;
                self.compare_flags(self.context.gpr[0] & mask(op.size), value, op.size);
                self.advance(op, Register::RDI, 1);
            }
            StringOperation::Compare => {
                let left = self.load_element(self.source(op), op.size)?;
                let right = self.load_element(self.target(op), op.size)?;
                self.compare_flags(left, right, op.size);
                self.advance(op, Register::RSI, 1);
                self.advance(op, Register::RDI, 1);
            }
            StringOperation::Input | StringOperation::Output => return self.port_element(op),
        }
        Ok(None)
    }

    fn store_element(&mut self, op: StringOp, value: u64, moves_source: bool) -> Result<(), Stop> {
        self.store_element_at(self.target(op), value, op.size)?;
        self.advance(op, Register::RDI, 1);
        if moves_source {
            self.advance(op, Register::RSI, 1);
        }
        Ok(())
    }

    fn port_element(&mut self, op: StringOp) -> Result<Option<Done>, Stop> {
        let port = self.context.gpr[Registers::RDX] as u16;
        let len = op.size as u8;
        self.require_ports(port, len)?;
        if op.operation == StringOperation::Output {
            let data = self.load_element(self.source(op), op.size)? as u32;
            self.advance(op, Register::RSI, 1);
            let exit = Exit::PioWrite { port, len, data };
            if op.repeat {
                self.step_counter(op, 1);
                return Ok(Some(Done::Again(exit)));
            }
            return Ok(Some(Done::Exit(exit)));
        }
        match self.take_answer() {
            Answer::Value(value) => {
                self.store_element_at(self.target(op), value, op.size)?;
                self.advance(op, Register::RDI, 1);
                Ok(None)
            }
            _ => Ok(Some(Done::Again(Exit::PioRead { port, len }))),
        }
    }

    /// True if no pointer wraps around before the counter reaches zero.
    fn runs_straight(&self, op: StringOp) -> bool {
        let bytes = self.register(counter(op)).saturating_mul(op.size as u64);
        let end = mask(op.address_size);
        [Register::RSI, Register::RDI]
            .into_iter()
            .all(|register| bytes <= end - self.register(pointer(op, register)))
            && (self.state.is_long()
                || (bytes <= 0xffff_ffff - self.source(op)
                    && bytes <= 0xffff_ffff - self.target(op)))
    }

    /// REP MOVS and REP STOS over contiguous RAM, at most `most` elements. Returns true if it
    /// processed any.
    fn bulk(&mut self, op: StringOp, most: u64, trail: &mut Trail) -> Result<bool, Stop> {
        let suits = op.repeat
            && self.runs_straight(op)
            && self.state.flags & flag::DF == 0
            && matches!(op.operation, StringOperation::Move | StringOperation::Store);
        if !suits {
            return Ok(false);
        }
        let wanted = self.register(counter(op)).min(most);
        let (source, target) = (self.source(op), self.target(op));
        let mut done = 0;
        let result = loop {
            let from = |at: u64| at.wrapping_add(done * op.size as u64);
            let left = wanted - done;
            match self.bulk_piece(op, from(source), from(target), left, trail) {
                Ok(elements) if elements > 0 => done += elements,
                other => break other,
            }
        };
        if done > 0 {
            if op.operation == StringOperation::Move {
                self.advance(op, Register::RSI, done);
            }
            self.advance(op, Register::RDI, done);
            self.step_counter(op, done);
        }
        result.map(|_| done > 0)
    }

    /// As [`bulk`](Self::bulk), of at most `most` elements, as far as both ends are contiguous, and
    /// without updating registers. Returns the number of elements.
    fn bulk_piece(
        &mut self,
        op: StringOp,
        from: u64,
        to: u64,
        most: u64,
        trail: &mut Trail,
    ) -> Result<u64, Stop> {
        let user = self.state.is_user();
        let size = op.size as u64;
        let wanted = most.saturating_mul(size);
        // For an element that crosses pages, the load, with its faults, must precede the store.
        let crosses = |at: u64| at % PAGE_SIZE + size > PAGE_SIZE;
        let moves = op.operation == StringOperation::Move;
        if wanted == 0 || crosses(to) || (moves && crosses(from)) {
            return Ok(0);
        }
        let source = if moves {
            let run = self.direct_run(from, wanted, false, user)?;
            let Some(run) = run.filter(|&(_, run)| run >= size) else {
                return Ok(0);
            };
            Some(run)
        } else {
            None
        };
        let Some((target, run)) = self.direct_run(to, wanted, true, user)? else {
            return Ok(0);
        };
        let bytes = run.min(source.map_or(u64::MAX, |(_, run)| run)) / size * size;
        if bytes == 0 {
            return Ok(0);
        }
        match source {
            Some((source, _)) => copy_forward(source, target, bytes, size),
            None => fill(target, bytes, self.context.gpr[0], op.size),
        }
        self.touch_elements(op, (from, to), bytes / size, trail);
        Ok(bytes / size)
    }

    fn load_element(&mut self, linear: u64, size: usize) -> Result<u64, Stop> {
        let mut bytes = [0; 8];
        let user = self.state.is_user();
        self.read_past_caches(linear, &mut bytes[..size], user)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn store_element_at(&mut self, linear: u64, value: u64, size: usize) -> Result<(), Fault> {
        let user = self.state.is_user();
        self.write_past_caches(linear, &value.to_le_bytes()[..size], user)
    }

    /// Flags of `left - right` in `size` bytes.
    fn compare_flags(&mut self, left: u64, right: u64, size: usize) {
        let result = left.wrapping_sub(right) & mask(size);
        let sign = 1u64 << (size * 8 - 1);
        let mut flags = 0;
        let mut set = |flag, on: bool| flags |= if on { flag } else { 0 };
        set(CF, left < right);
        set(PF, (result as u8).count_ones().is_multiple_of(2));
        set(AF, (left ^ right ^ result) & 0x10 != 0);
        set(ZF, result == 0);
        set(SF, result & sign != 0);
        set(OF, (left ^ right) & (left ^ result) & sign != 0);
        self.context.flags = flags;
    }
}

/// Bytes copied at once. For longer copies the C library uses the host's REP MOVSB, which is four
/// times as slow for some alignments.
const COPIED: u64 = 2048;

/// Copies element by element, ascending, as the instruction does: an overlap with the target after
/// the source repeats a pattern.
#[allow(unsafe_code)]
fn copy_forward(source: u64, target: u64, bytes: u64, size: u64) {
    let overlaps_ahead = target > source && target - source < bytes;
    let step = if overlaps_ahead { size } else { COPIED };
    for at in (0..bytes).step_by(step as usize) {
        let (source, target) = ((source + at) as *const u8, (target + at) as *mut u8);
        // SAFETY: both ranges lie in guest RAM, as `direct_run` found; `copy` permits the remaining
        // overlaps, of a piece's target with earlier sources.
        unsafe { std::ptr::copy(source, target, step.min(bytes - at) as usize) };
    }
}

#[allow(unsafe_code)]
fn fill(target: u64, bytes: u64, value: u64, size: usize) {
    let pattern = value.to_le_bytes();
    // SAFETY: the range lies in guest RAM, as `direct_run` found, and no Rust reference to guest
    // RAM exists.
    let bytes = unsafe { std::slice::from_raw_parts_mut(target as *mut u8, bytes as usize) };
    if size == 1 || pattern[..size].iter().all(|&byte| byte == pattern[0]) {
        bytes.fill(pattern[0]);
        return;
    }
    for element in bytes.chunks_exact_mut(size) {
        element.copy_from_slice(&pattern[..size]);
    }
}
