//! Interned contexts of blocks, and the cost of each block after each context.
//!
//! A context is the sequence of blocks before a block, back to `CONTEXT_INSTRUCTIONS`, each with the prediction of
//! its last jump. A vCPU follows its path along edges: an edge leads from a context through a block to the next
//! context, and has the block's ticks. Numbers of contexts, blocks and edges follow from the order of questions, while
//! the ticks follow from the path alone; so saved state has paths, never numbers.

use std::sync::Arc;

use iced_x86::Instruction;

use crate::cost::{PathBlock, TimingBlock, cost};
use crate::processor::Processor;
use crate::recurrence::recurrent_loads;
use crate::schedule::Schedule;
use crate::shared_costs::{PathCost, PathKey, SharedCosts, key_of};

/// An index from keys of words to numbers.
mod table;

use table::Table;

/// Instructions of a context, rounded up to a block.
pub const CONTEXT_INSTRUCTIONS: usize = 96;
/// Bytes of blocks, contexts and edges from which on all are dropped.
const MOST_BYTES: usize = 96 << 20;
/// Bytes of an instruction of a block, and of an edge with its index, on average.
const OP_BYTES: usize = 200;
const EDGE_BYTES: usize = 64;

/// Number of a context; see [`Paths::START`].
pub type ContextId = u32;
/// Number of a block.
pub type TimingBlockId = u32;
/// Number of an edge.
pub type EdgeId = u32;

/// The last blocks of a path, as numbers of blocks and the prediction of their last jumps.
type Steps = Box<[(TimingBlockId, bool)]>;

/// The origin of a block: its bytes determine it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSource {
    /// RIP of the first instruction.
    pub rip: u64,
    /// Width of the code in bits.
    pub bits: u32,
    /// Number of instructions.
    pub count: u16,
    /// Their bytes.
    pub bytes: Box<[u8]>,
}

/// A block after a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The context before the block.
    pub from: ContextId,
    /// The block.
    pub block: TimingBlockId,
    /// Ticks of the block after this context.
    pub ticks: u32,
    /// Number of instructions of the block.
    pub count: u16,
    /// The context after the block.
    pub next: ContextId,
    /// The context after the block if its last jump is mispredicted.
    pub mispredicted: ContextId,
    /// The loads whose address depends on their own earlier data: a bit for each instruction.
    pub recurrent: u64,
}

impl Edge {
    /// Ticks of instruction `index` and all later ones: each has an equal share, except for remainders.
    #[inline]
    pub fn rest(&self, index: u16) -> u32 {
        let (ticks, count) = (u64::from(self.ticks), u64::from(self.count.max(1)));
        let before = ticks * u64::from(index.min(self.count)) / count;
        (ticks - before) as u32
    }
}

/// All contexts, blocks and edges of a vCPU.
#[derive(Debug)]
pub struct Paths {
    schedule: Schedule,
    shared: SharedCosts,
    blocks: Vec<(BlockSource, TimingBlock)>,
    /// Hashes of the blocks.
    keys: Vec<PathKey>,
    contexts: Vec<Steps>,
    edges: Vec<Edge>,
    block_index: Table,
    context_index: Table,
    edge_index: Table,
    bytes: usize,
}

impl Paths {
    /// The context without a block.
    pub const START: ContextId = 1;

    /// Nothing but the empty context.
    pub fn new(processor: Arc<Processor>) -> Self {
        let mut paths = Self {
            shared: processor.costs.clone(),
            schedule: Schedule::new(processor),
            blocks: Vec::new(),
            keys: Vec::new(),
            contexts: Vec::new(),
            edges: Vec::new(),
            block_index: Table::default(),
            context_index: Table::default(),
            edge_index: Table::default(),
            bytes: 0,
        };
        paths.clear();
        paths
    }

    /// Drops everything; all numbers become invalid but that of the empty context.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.keys.clear();
        self.edges.clear();
        self.contexts.clear();
        // Number 0 is no context.
        self.contexts.push(Steps::default());
        self.edges.push(Edge {
            from: 0,
            block: 0,
            ticks: 0,
            count: 0,
            next: 0,
            mispredicted: 0,
            recurrent: 0,
        });
        self.block_index = Table::default();
        self.context_index = Table::default();
        self.edge_index = Table::default();
        self.bytes = 0;
        let start = self.context(Steps::default());
        debug_assert_eq!(start, Self::START);
    }

    /// True if there is so much that [`clear`](Self::clear) is due.
    pub fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES
    }

    /// Number of edges so far.
    pub fn edge_count(&self) -> usize {
        self.edges.len() - 1
    }

    /// The edge with this number.
    #[inline]
    pub fn edge(&self, id: EdgeId) -> &Edge {
        &self.edges[id as usize]
    }

    /// The block with this number.
    pub fn block(&self, id: TimingBlockId) -> &TimingBlock {
        &self.blocks[id as usize].1
    }

    /// The origin of the block with this number.
    pub fn source(&self, id: TimingBlockId) -> &BlockSource {
        &self.blocks[id as usize].0
    }

    /// The blocks of a context and the predictions of their last jumps, the newest one last.
    pub fn steps(&self, context: ContextId) -> &[(TimingBlockId, bool)] {
        &self.contexts[context as usize]
    }

    /// The number of the block with this origin; `decode` returns its instructions if it is new.
    pub fn block_of(
        &mut self,
        source: BlockSource,
        decode: impl FnOnce(&BlockSource) -> Vec<Instruction>,
    ) -> TimingBlockId {
        let hash = hash_of_source(&source);
        let known = self
            .block_index
            .find(hash, |id| self.blocks[id as usize].0 == source);
        known.unwrap_or_else(|| {
            let block = TimingBlock::new(&decode(&source));
            let id = self.blocks.len() as TimingBlockId;
            self.bytes += block.len() * OP_BYTES;
            self.keys.push(source.key());
            self.blocks.push((source, block));
            self.block_index.add(hash, id);
            id
        })
    }

    /// The number of the context of these steps, the oldest of which are dropped if they are too many.
    pub fn context_of(&mut self, steps: &[(TimingBlockId, bool)]) -> ContextId {
        let mut from = steps.len();
        let mut instructions = 0;
        while from > 0 && instructions < CONTEXT_INSTRUCTIONS {
            from -= 1;
            instructions += self.block(steps[from].0).len();
        }
        self.context(steps[from..].into())
    }

    fn context(&mut self, steps: Steps) -> ContextId {
        let words = steps
            .iter()
            .map(|&(block, mispredicted)| u64::from(block) << 1 | u64::from(mispredicted));
        let hash = table::hash(words);
        let known = self
            .context_index
            .find(hash, |id| self.contexts[id as usize] == steps);
        known.unwrap_or_else(|| {
            let id = self.contexts.len() as ContextId;
            self.bytes += size_of_val(&*steps) + EDGE_BYTES;
            self.contexts.push(steps);
            self.context_index.add(hash, id);
            id
        })
    }

    /// The edge from `context` through `block`.
    pub fn edge_of(&mut self, context: ContextId, block: TimingBlockId) -> EdgeId {
        let hash = table::hash([u64::from(context), u64::from(block)]);
        let known = self.edge_index.find(hash, |id| {
            let edge = &self.edges[id as usize];
            edge.from == context && edge.block == block
        });
        known.unwrap_or_else(|| self.add_edge(hash, context, block))
    }

    /// The cost of the last of these steps after the others.
    fn cost_of(&mut self, steps: &[(TimingBlockId, bool)]) -> PathCost {
        let words = steps.iter().map(|&(block, mispredicted)| {
            let (first, second) = self.keys[block as usize];
            (first, second ^ u64::from(mispredicted))
        });
        let key = key_of(words);
        if let Some(known) = self.shared.find(key) {
            return known;
        }
        let path: Vec<PathBlock<'_>> = steps
            .iter()
            .map(|&(block, mispredicted)| PathBlock {
                block: &self.blocks[block as usize].1,
                mispredicted,
            })
            .collect();
        let ticks = cost(&mut self.schedule, &path);
        let found = PathCost {
            ticks: u32::try_from(ticks).unwrap_or(u32::MAX),
            recurrent: recurrent_loads(&path),
        };
        self.shared.add(key, found);
        found
    }

    fn add_edge(&mut self, hash: u64, from: ContextId, block: TimingBlockId) -> EdgeId {
        let mut steps = self.contexts[from as usize].to_vec();
        steps.push((block, false));
        let PathCost { ticks, recurrent } = self.cost_of(&steps);
        let (next, mispredicted) = if self.block(block).serialises() {
            (Self::START, Self::START)
        } else {
            (self.context_of(&steps), self.context_of(&[(block, true)]))
        };
        let id = self.edges.len() as EdgeId;
        self.edges.push(Edge {
            from,
            block,
            ticks,
            count: self.block(block).len() as u16,
            next,
            mispredicted,
            recurrent,
        });
        self.bytes += EDGE_BYTES;
        self.edge_index.add(hash, id);
        id
    }
}

impl BlockSource {
    /// A hash of all of it.
    fn key(&self) -> PathKey {
        let (words, rest) = self.bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let size =
            u64::from(self.bits) << 48 | u64::from(self.count) << 32 | self.bytes.len() as u64;
        let words = words
            .iter()
            .chain([&last])
            .map(|word| u64::from_le_bytes(*word));
        key_of(
            [(self.rip, size)]
                .into_iter()
                .chain(words.map(|word| (word, 0))),
        )
    }
}

fn hash_of_source(source: &BlockSource) -> u64 {
    let (words, rest) = source.bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let head = [
        source.rip,
        u64::from(source.bits) << 16 | u64::from(source.count),
    ];
    let words = words
        .iter()
        .chain([&last])
        .map(|word| u64::from_le_bytes(*word));
    table::hash(head.into_iter().chain(words))
}

#[cfg(test)]
mod tests;
