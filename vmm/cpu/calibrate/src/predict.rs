//! Cycles of a loop by the model of a processor's core.
//!
//! The path of a round is followed through its code: conditional jumps forward are not taken, all others are. `fit`
//! chooses parameters by it whose effect no formula gives; `self_test` compares it with the processor.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_pipeline::TICKS_PER_CYCLE;
use belljar_pipeline::cost::{PathBlock, TimingBlock, cost};
use belljar_pipeline::processor::Processor;
use belljar_pipeline::schedule::Schedule;
use iced_x86::{Decoder, FlowControl, Instruction};

use crate::CalibrateError;
use crate::clock::{ORIGIN, function};
use crate::loops::Loop;

/// Instructions of a block, and of the blocks before that it depends on.
const BLOCK: usize = 64;
const CONTEXT: usize = 96;
/// Instructions of a round, at most.
const MOST: usize = 100_000;

/// The code of a loop: blocks of a round, in the order of execution.
pub(crate) struct Round {
    blocks: Vec<Arc<TimingBlock>>,
}

impl Round {
    /// The round of a loop.
    pub(crate) fn of(one: &Loop) -> Result<Self, CalibrateError> {
        Ok(Self::in_code(&function(one.name, &one.setup, &one.body)?))
    }

    fn in_code(code: &[u8]) -> Self {
        let all: BTreeMap<u64, Instruction> = Decoder::with_ip(64, code, ORIGIN, 0)
            .into_iter()
            .map(|one| (one.ip(), one))
            .collect();
        let back = |one: &&Instruction| {
            one.flow_control() == FlowControl::ConditionalBranch
                && one.near_branch_target() < one.ip()
        };
        let Some(last) = all.values().find(back).copied() else {
            return Self { blocks: Vec::new() };
        };
        let mut known: BTreeMap<u64, Arc<TimingBlock>> = BTreeMap::new();
        let (mut blocks, mut part, mut returns) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = last.near_branch_target();
        for _ in 0..MOST {
            let Some(one) = all.get(&at) else {
                break;
            };
            part.push(*one);
            at = one.next_ip();
            match one.flow_control() {
                FlowControl::UnconditionalBranch => at = one.near_branch_target(),
                FlowControl::Call => {
                    returns.push(at);
                    at = one.near_branch_target();
                }
                FlowControl::Return => at = returns.pop().unwrap_or(at),
                _ => {}
            }
            if one.flow_control() != FlowControl::Next || part.len() == BLOCK {
                let new = || Arc::new(TimingBlock::new(&part));
                blocks.push(known.entry(part[0].ip()).or_insert_with(new).clone());
                part.clear();
            }
            if one.ip() == last.ip() {
                break;
            }
        }
        Self { blocks }
    }

    /// Cycles of a round in the steady state, without mispredictions.
    pub(crate) fn cycles(&self, processor: &Processor) -> f64 {
        let mut schedule = Schedule::new(processor.clone().into());
        let ticks = (0..self.blocks.len()).map(|at| self.ticks(&mut schedule, at, false));
        ticks.sum::<u64>() as f64 / TICKS_PER_CYCLE as f64
    }

    /// Cycles of a round whose first jump is mispredicted in every round: contexts then begin at that block.
    pub(crate) fn mispredicted_cycles(&self, processor: &Processor) -> f64 {
        let mut schedule = Schedule::new(processor.clone().into());
        let ticks = (0..self.blocks.len()).map(|at| self.ticks(&mut schedule, at, true));
        ticks.sum::<u64>() as f64 / TICKS_PER_CYCLE as f64
    }

    /// Ticks of block `at` after the rounds before it.
    fn ticks(&self, schedule: &mut Schedule, at: usize, mispredicts: bool) -> u64 {
        let count = self.blocks.len();
        let (mut path, mut instructions) = (Vec::new(), 0);
        let mut number = at;
        loop {
            let block = &*self.blocks[number];
            let mispredicted = mispredicts && number == 0;
            path.push(PathBlock {
                block,
                mispredicted: mispredicted && !path.is_empty(),
            });
            if path.len() > 1 {
                instructions += block.len();
                if instructions >= CONTEXT || mispredicted {
                    break;
                }
            }
            number = (number + count - 1) % count;
        }
        path.reverse();
        cost(schedule, &path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::times;
    use iced_x86::code_asm::{rax, rbx};

    fn zen5() -> Processor {
        Processor::built_in("zen5").unwrap()
    }

    #[test]
    fn a_chain_takes_its_latency() {
        let one = Loop::new("x", 40, |a| times(a, 40, |a| a.imul_2(rax, rbx)));
        let cycles = Round::of(&one).unwrap().cycles(&zen5());
        assert!((cycles - 120.0).abs() < 0.5, "{cycles}");
    }

    #[test]
    fn a_misprediction_costs_its_restart() {
        let one = Loop::new("x", 1, |a| {
            let mut next = a.create_label();
            a.test(rax, rbx)?;
            a.jne(next)?;
            a.set_label(&mut next)?;
            a.nop()
        });
        let round = Round::of(&one).unwrap();
        assert_eq!(round.blocks.len(), 2);
        let mut slower = zen5();
        slower.core.mispredict += 30;
        let (few, many) = (
            round.mispredicted_cycles(&zen5()),
            round.mispredicted_cycles(&slower),
        );
        assert!((many - few - 30.0).abs() < 1e-9, "{few} {many}");
        assert!(few > round.cycles(&zen5()) + 15.0);
    }
}
