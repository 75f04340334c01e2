//! An index of a pool's blocks: a hash table with chains. Entries never move and are never removed,
//! so threads can search it while another thread adds to it.
//!
//! A block is added when it is complete, and its chain's head is written last; retired blocks are
//! skipped. `pool` adds under its lock, and every node's dispatcher looks up blocks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use belljar_translate::host::block::Block;
use belljar_translate::host::exit_stub::{BlockId, POOLED};

use crate::code::form::Sought;
use crate::code::index::{BlockEntry, Key, chain_of};

/// A block as the index has it.
pub(super) struct IndexedBlock {
    pub(super) key: Key,
    pub(super) hot: bool,
    pub(super) retired: bool,
    pub(super) entry: u64,
    pub(super) indirect_entry: u64,
}

/// The end of a chain. Numbers are stored plus one.
const END: u32 = 0;
/// Number of chains; a power of two.
const CHAINS: usize = 1 << 19;

struct PoolIndexLine {
    key: Key,
    hot: bool,
    retired: AtomicBool,
    next: u32,
    entry: u64,
    indirect_entry: u64,
}

pub(super) struct PoolIndex {
    heads: Box<[AtomicU32]>,
    lines: boxcar::Vec<PoolIndexLine>,
}

impl PoolIndex {
    pub(super) fn new() -> Self {
        Self {
            heads: (0..CHAINS).map(|_| AtomicU32::new(END)).collect(),
            lines: boxcar::Vec::new(),
        }
    }

    fn line(&self, at: u32) -> Option<&PoolIndexLine> {
        self.lines.get(at.checked_sub(1)? as usize)
    }

    /// The newest block under `key`, which is the hot one if there is one; for plain code, the
    /// other one.
    pub(super) fn find(&self, key: Key, sought: Sought) -> Option<BlockEntry> {
        let mut at = self.heads[chain_of(key, CHAINS)].load(Ordering::Acquire);
        while let Some(line) = self.line(at) {
            let fits = line.key == key && !(sought == Sought::Plain && line.hot);
            if fits && !line.retired.load(Ordering::Relaxed) {
                return Some(line.found(at));
            }
            at = line.next;
        }
        None
    }

    /// Adds the next block, number `id`, which must be complete. Only one thread at a time may call
    /// this.
    pub(super) fn add(&self, key: Key, id: BlockId, block: &Block) -> BlockEntry {
        let line = IndexedBlock {
            key,
            hot: block.hot,
            retired: false,
            entry: block.entry,
            indirect_entry: block.indirect_entry,
        };
        self.restore(id, line)
    }

    /// Adds the next block, number `id`, as another index had it. Only one thread at a time may call
    /// this.
    pub(super) fn restore(&self, id: BlockId, block: IndexedBlock) -> BlockEntry {
        let head = &self.heads[chain_of(block.key, CHAINS)];
        let line = PoolIndexLine {
            key: block.key,
            hot: block.hot,
            retired: AtomicBool::new(block.retired),
            next: head.load(Ordering::Relaxed),
            entry: block.entry,
            indirect_entry: block.indirect_entry,
        };
        let at = (id & !POOLED) + 1;
        let found = line.found(at);
        self.lines.push(line);
        head.store(at, Ordering::Release);
        found
    }

    /// Block `id` as the index has it.
    pub(super) fn indexed(&self, id: BlockId) -> Option<IndexedBlock> {
        let line = self.line((id & !POOLED) + 1)?;
        Some(IndexedBlock {
            key: line.key,
            hot: line.hot,
            retired: line.retired.load(Ordering::Relaxed),
            entry: line.entry,
            indirect_entry: line.indirect_entry,
        })
    }

    /// Removes block `id` from lookups.
    pub(super) fn retire(&self, id: BlockId) {
        if let Some(line) = self.line((id & !POOLED) + 1) {
            line.retired.store(true, Ordering::Relaxed);
        }
    }
}

impl PoolIndexLine {
    fn found(&self, at: u32) -> BlockEntry {
        BlockEntry {
            id: POOLED | (at - 1),
            entry: self.entry,
            indirect_entry: self.indirect_entry,
            crosses: false,
        }
    }
}
