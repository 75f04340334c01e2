//! A simple implementation of the processor model: blocks, contexts and predictors, instruction by instruction.
//!
//! Costs of blocks are those of `belljar-pipeline`; which block runs after which context is worked out here.

use belljar_cpu::{InstructionSet, PAGE_SIZE, Registers};
use belljar_pipeline::paths::{BlockSource, Paths, TimingBlockId};
use belljar_pipeline::processor::{Processor, Text};
use belljar_translate::context::path::{
    COUNTERS, HISTORY_JUMPS, MARKED, RETURNS, TAGGED, TARGETS, counter_term, jump_seed, jump_term,
};
use belljar_translate::guest::decode::{Decoded, GuestBlock, MAX_INSTRUCTIONS, decode, options};
use belljar_translate::guest::features::Features;
use iced_x86::{Decoder, FlowControl as F, Instruction, Mnemonic as M};

use super::memory::PlainSite;

/// The block that runs, with its ticks after its context.
struct Running {
    block: TimingBlockId,
    instructions: Vec<Instruction>,
    index: usize,
    ticks: u64,
    recurrent: u64,
}

/// The path of a program.
pub(super) struct PlainPath {
    code: Vec<u8>,
    base: u64,
    features: Features,
    paths: Paths,
    context: Vec<(TimingBlockId, bool)>,
    running: Option<Running>,
    history: u64,
    counters: Vec<u8>,
    /// Tag, counter and usefulness.
    tagged: Vec<(u32, u8, u8)>,
    targets: Vec<u64>,
    returns: Vec<u64>,
    text: Text,
    penalty: u64,
    mispredicted: bool,
}

impl PlainPath {
    /// The path of `code` at `base`, from nothing on.
    pub(super) fn new(
        processor: &std::sync::Arc<Processor>,
        set: &InstructionSet,
        code: &[u8],
        base: u64,
    ) -> Self {
        Self {
            code: code.to_vec(),
            base,
            features: Features::new(set),
            paths: Paths::new(processor.clone()),
            context: Vec::new(),
            running: None,
            history: 0,
            counters: vec![1; COUNTERS],
            tagged: vec![(0, 0, 0); TAGGED],
            targets: vec![0; TARGETS],
            returns: Vec::new(),
            text: processor.text,
            penalty: processor.core.mispredict.into(),
            mispredicted: false,
        }
    }

    /// The ticks of `instruction`, after which RIP is `next`; a string instruction has `elements` elements. Also
    /// returns the instruction's place.
    pub(super) fn ticks(
        &mut self,
        instruction: &Instruction,
        before: &Registers,
        next: u64,
        elements: u64,
    ) -> (u64, PlainSite) {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.begin(before.rip),
        };
        let (count, at) = (running.instructions.len() as u64, running.index as u64);
        let mut ticks = running.ticks * (at + 1) / count - running.ticks * at / count;
        ticks += match instruction.mnemonic() {
            M::Movsb => {
                let start = if elements > 64 {
                    self.text.start
                } else {
                    self.text.short
                };
                let (more, rate) = match before.gpr[7] % 32 {
                    0 => (0, self.text.bytes_per_cycle),
                    _ => (self.text.unaligned, self.text.unaligned_bytes_per_cycle),
                };
                match elements {
                    0 => 0,
                    _ => (elements * 1000).div_ceil(rate.into()) + u64::from(start + more) * 1000,
                }
            }
            M::Scasw => elements * 1000,
            _ => 0,
        };
        let site = PlainSite {
            address: Some(before.rip),
            recurrent: running.recurrent >> at & 1 != 0,
            block: Some((running.ticks, count)),
        };
        running.index += 1;
        let continues = running.instructions.get(running.index).map(Instruction::ip) == Some(next);
        if continues {
            self.running = Some(running);
            return (ticks, site);
        }
        if self.paths.block(running.block).serialises() {
            self.context.clear();
        } else if self.mispredicts(instruction, next) {
            self.context = vec![(running.block, true)];
            self.mispredicted = true;
        } else {
            self.context.push((running.block, false));
        }
        (ticks, site)
    }

    /// Cycles of the last jump's misprediction, once.
    pub(super) fn take_misprediction(&mut self) -> u64 {
        match std::mem::take(&mut self.mispredicted) {
            true => self.penalty,
            false => 0,
        }
    }

    fn begin(&mut self, rip: u64) -> Running {
        let guest = self.decode(rip);
        let start = (rip - self.base) as usize;
        let bytes = &self.code[start..start + (guest.bytes.1 - guest.bytes.0) as usize];
        let source = BlockSource {
            rip,
            bits: 64,
            count: guest.instructions.len() as u16,
            bytes: bytes.into(),
        };
        let mut decoder = Decoder::with_ip(64, bytes, rip, options(&self.features));
        let instructions: Vec<Instruction> = decoder.iter().collect();
        assert_eq!(instructions.len(), guest.instructions.len());
        let block = self.paths.block_of(source, |_| instructions.clone());
        let context = self.paths.context_of(&self.context);
        let edge = self.paths.edge_of(context, block);
        Running {
            block,
            instructions,
            index: 0,
            ticks: self.paths.edge(edge).ticks.into(),
            recurrent: self.paths.edge(edge).recurrent,
        }
    }

    fn decode(&self, rip: u64) -> GuestBlock {
        let start = (rip - self.base) as usize;
        let mut rest = self.code[start..].to_vec();
        // Memory behind the code is zero.
        rest.resize(2 * PAGE_SIZE as usize, 0);
        let left = (PAGE_SIZE - rip % PAGE_SIZE) as usize;
        if let Decoded::Block(block) = decode(rip, &rest[..left], MAX_INSTRUCTIONS, &self.features)
        {
            return block;
        }
        match decode(rip, &rest, 1, &self.features) {
            Decoded::Block(block) => block,
            Decoded::Crosses => panic!("an instruction crosses two pages"),
        }
    }

    fn mispredicts(&mut self, instruction: &Instruction, next: u64) -> bool {
        let rip = instruction.ip();
        let after = instruction.next_ip();
        match instruction.flow_control() {
            F::ConditionalBranch => {
                let taken = next != after;
                let right = self.conditional(rip, taken);
                self.history = self.history << 1 | u64::from(taken);
                !right
            }
            F::Call => {
                self.call(after);
                false
            }
            F::IndirectCall => {
                self.call(after);
                self.indirect(rip, next)
            }
            F::IndirectBranch => self.indirect(rip, next),
            F::Return => self.returns.pop() != Some(next),
            _ => false,
        }
    }

    /// Updates the counters of a conditional jump; returns true if it was predicted.
    fn conditional(&mut self, rip: u64, taken: bool) -> bool {
        let last = self.history % (1 << HISTORY_JUMPS);
        let at = (last + counter_term(rip)) as usize;
        let (before, marked) = (self.counters[at] & 3, self.counters[at] & MARKED);
        let moved = |counter: u8, most: u8| match taken {
            true => (counter + 1).min(most),
            false => counter.saturating_sub(1),
        };
        self.counters[at] = moved(before, 3) | marked;
        if self.counters[at] == before && marked == 0 {
            return true;
        }
        let without = (before >= 2) == taken;
        let hash = crc32c(jump_seed(rip), self.history as u32);
        let (tag, counter, useful) = &mut self.tagged[hash as usize % TAGGED];
        if *tag == hash {
            let right = (*counter >= 4) == taken;
            let is_new = matches!(*counter, 3 | 4) && *useful == 0;
            *counter = moved(*counter, 7);
            match (right, without) {
                (true, false) => *useful = (*useful + 1).min(3),
                (false, true) => *useful = useful.saturating_sub(1),
                _ => {}
            }
            return if is_new { without } else { right };
        }
        if without {
            self.counters[at] &= 3;
        } else if *useful == 0 {
            (*tag, *counter) = (hash, if taken { 4 } else { 3 });
            self.counters[at] |= MARKED;
        } else {
            *useful -= 1;
        }
        without
    }

    fn call(&mut self, after: u64) {
        self.returns.push(after);
        assert!(self.returns.len() <= RETURNS, "the stack wraps around");
    }

    fn indirect(&mut self, rip: u64, next: u64) -> bool {
        let at = self.history.wrapping_add(jump_term(rip, TARGETS)) as usize % TARGETS;
        std::mem::replace(&mut self.targets[at], next) != next
    }
}

/// CRC-32C of four bytes, bit by bit, without inversions.
fn crc32c(seed: u32, value: u32) -> u32 {
    let shift = |crc: u32, _| crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
    (0..32).fold(seed ^ value, shift)
}
