//! The cost of the last block of a path, given the blocks before it.
//!
//! The path runs through an empty core; the cost is the time between the retirement of the block before and of the
//! last one. A path that repeats itself is continued, and its blocks share the mean of later rounds: one round alone
//! would always end in the same part of a cycle. `paths` is the caller.

use iced_x86::{Instruction, InstructionInfoFactory};

use crate::schedule::Schedule;
use crate::uops::{Flow, MicroOp};

/// Longest repeated part of a path, in blocks.
const MOST_PERIOD: usize = 16;
/// Instructions that a path must have after its first period, for a period.
const REPEATED: usize = 32;
/// Instructions up to which a repeating path is continued.
const CONTINUED: usize = 1200;

/// A block of a path: instructions of which only the last may jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimingBlock {
    /// RIP of the first instruction.
    pub rip: u64,
    /// RIP after the last one.
    pub end: u64,
    ops: Box<[MicroOp]>,
    /// Addresses of the instructions.
    addresses: Box<[u64]>,
}

impl TimingBlock {
    /// The block of these instructions, which are consecutive and at least one.
    pub fn new(instructions: &[Instruction]) -> Self {
        let mut info = InstructionInfoFactory::new();
        let before = [None].into_iter().chain(instructions.iter().map(Some));
        let ops = instructions.iter().zip(before);
        Self {
            rip: instructions.first().map_or(0, Instruction::ip),
            end: instructions.last().map_or(0, Instruction::next_ip),
            addresses: instructions.iter().map(Instruction::ip).collect(),
            ops: ops
                .map(|(one, before)| MicroOp::new(one, before, &mut info))
                .collect(),
        }
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// True for a block without instructions.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The address of instruction `index`, if it has as many.
    pub fn address(&self, index: u16) -> Option<u64> {
        self.addresses.get(usize::from(index)).copied()
    }

    /// The address and the micro-operations of an instruction, if the block has as many.
    #[inline]
    pub fn instruction(&self, index: u16) -> Option<(u64, &MicroOp)> {
        self.address(index).zip(self.ops.get(usize::from(index)))
    }

    /// True if the core is empty after it.
    pub fn serialises(&self) -> bool {
        self.ops.last().is_some_and(|op| op.class.serialises())
    }

    /// Its instructions.
    pub(crate) fn ops(&self) -> &[MicroOp] {
        &self.ops
    }

    /// Addresses of its instructions.
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    fn flow(&self) -> Flow {
        self.ops.last().map_or(Flow::Next, |op| op.flow)
    }
}

/// A block of a path, and the prediction of its last instruction.
#[derive(Clone, Copy, Debug)]
pub struct PathBlock<'a> {
    /// The block.
    pub block: &'a TimingBlock,
    /// True if its last instruction is a jump that was mispredicted.
    pub mispredicted: bool,
}

/// Ticks of the last block of `path`, which has at least one; at least one tick for each instruction.
pub fn cost(schedule: &mut Schedule, path: &[PathBlock<'_>]) -> u64 {
    let Some(last) = path.last() else {
        return 0;
    };
    let ticks = match period(path) {
        Some(period) => repeated(schedule, path, period),
        None => run(schedule, path, path.len() - 1),
    };
    ticks.max(last.block.len() as u64)
}

/// Runs `path` in an empty core; returns the ticks of the blocks from number `from` on.
fn run(schedule: &mut Schedule, path: &[PathBlock<'_>], from: usize) -> u64 {
    schedule.restart();
    let mut begin = schedule.ticks();
    for (number, one) in path.iter().enumerate() {
        if number == from {
            begin = schedule.ticks();
        }
        for op in &one.block.ops {
            schedule.step(op);
        }
        if let Some(next) = path.get(number + 1) {
            if next.block.rip != one.block.end {
                schedule.jump(one.block.flow());
            }
            if one.mispredicted {
                schedule.mispredict();
            }
        }
    }
    schedule.ticks() - begin
}

/// The number of blocks after which `path` repeats itself to its end: twice, or for [`REPEATED`] instructions.
fn period(path: &[PathBlock<'_>]) -> Option<usize> {
    let last = path.len() - 1;
    let repeats = |period: usize| {
        let instructions: usize = path[period..].iter().map(|one| one.block.len()).sum();
        (2 * period <= path.len() || instructions >= REPEATED)
            && (period..path.len()).all(|at| {
                let (one, other) = (&path[at], &path[at - period]);
                // The prediction of the last block's jump is not known yet.
                std::ptr::eq(one.block, other.block)
                    && (at == last || one.mispredicted == other.mispredicted)
            })
    };
    (1..=MOST_PERIOD.min(last)).find(|&period| repeats(period))
}

/// The share of the last block in the mean ticks of later rounds of a path with this `period`.
fn repeated(schedule: &mut Schedule, path: &[PathBlock<'_>], period: usize) -> u64 {
    // The round before the last block, whose predictions are all known.
    let last = path.len() - 1;
    let round = &path[last - period..last];
    let instructions: usize = round.iter().map(|one| one.block.len()).sum();
    let rounds = (CONTINUED / instructions + 4) & !1;
    let continued: Vec<PathBlock<'_>> = (0..rounds).flat_map(|_| round).copied().collect();
    let ticks = run(schedule, &continued, continued.len() / 2);
    let share = path[last].block.len() as u64;
    ticks * share / (rounds as u64 / 2 * instructions as u64)
}

#[cfg(test)]
mod tests;
