//! The mutable state of a pool, for one thread at a time.
//!
//! The pool holds it in a lock. Placed bytes never change; a jump is linked or redirected to hot
//! code by one write of its cell, which threads in the code may read at any time.

use std::collections::{BTreeMap, BTreeSet};

use belljar_translate::guest::features::Features;
use belljar_translate::guest::mode::Mode;
use belljar_translate::host::block::Incoming;
use belljar_translate::host::cache::{CELL_BYTES, CodeMemory};
use belljar_translate::host::emit::Emitter;
use belljar_translate::host::exit_stub::BlockId;

pub(super) struct PoolWriter {
    pub memory: CodeMemory,
    pub emitter: Emitter,
    /// Number of cells in use.
    pub cells: usize,
    /// Instructions whose accesses seldom repeat their last address range.
    pub scattered: BTreeSet<u64>,
    /// The jumps linked to each block.
    incoming: BTreeMap<BlockId, Vec<Incoming>>,
    /// The jumps that earlier runs linked, by block; those of blocks in `redirected` are among the others.
    earlier: Vec<(BlockId, Incoming)>,
    redirected: BTreeSet<BlockId>,
    /// Features under which code was translated, by the numbers in modes.
    pub features: Vec<Features>,
}

impl PoolWriter {
    pub(super) fn new(memory: CodeMemory, emitter: Emitter) -> Self {
        Self {
            memory,
            emitter,
            cells: 0,
            scattered: BTreeSet::new(),
            incoming: BTreeMap::new(),
            earlier: Vec::new(),
            redirected: BTreeSet::new(),
            features: Vec::new(),
        }
    }

    /// Places the last emitted code and its cells, with initial values `cells`.
    pub(super) fn place(&mut self, cells: &[u64]) {
        self.memory.place(self.emitter.code());
        let first = self.memory.cell(self.cells);
        for (index, &target) in cells.iter().enumerate() {
            self.memory
                .set_cell(first + (index * CELL_BYTES) as u64, target);
        }
        self.cells += cells.len();
    }

    /// Links `jump` to block `to`, which begins at host address `entry`.
    pub(super) fn link(&mut self, jump: Incoming, to: BlockId, entry: u64) {
        self.memory.set_cell(jump.hole, entry);
        self.incoming.entry(to).or_default().push(jump);
    }

    /// Redirects jumps from block `from` to block `to`, which begins at host address `entry`.
    pub(super) fn redirect(&mut self, from: BlockId, to: BlockId, entry: u64) {
        let mut incoming = self.incoming.remove(&from).unwrap_or_default();
        if self.redirected.insert(from) {
            incoming.extend(self.earlier_to(from));
        }
        let (stay, go): (Vec<_>, Vec<_>) = incoming.into_iter().partition(|jump| jump.plain);
        self.incoming.insert(from, stay);
        for jump in go {
            self.link(jump, to, entry);
        }
    }

    /// Takes over the jumps that earlier runs linked.
    pub(super) fn restore_links(&mut self, mut links: Vec<(BlockId, Incoming)>) {
        links.sort_by_key(|(to, _)| *to);
        self.earlier = links;
    }

    fn earlier_to(&self, to: BlockId) -> impl Iterator<Item = Incoming> {
        let first = self.earlier.partition_point(|(other, _)| *other < to);
        let from = self.earlier[first..].iter();
        from.take_while(move |(other, _)| *other == to)
            .map(|(_, jump)| *jump)
    }

    /// All linked jumps, each with its block.
    pub(super) fn each_link(&self) -> impl Iterator<Item = (BlockId, Incoming)> {
        let incoming = self.incoming.iter();
        let own = incoming.flat_map(|(&to, jumps)| jumps.iter().map(move |&jump| (to, jump)));
        let earlier = self.earlier.iter().copied();
        own.chain(earlier.filter(|(to, _)| !self.redirected.contains(to)))
    }

    pub(super) fn number_of(&mut self, features: &Features) -> Option<u8> {
        let known = self.features.iter().position(|known| known == features);
        let number = known.unwrap_or(self.features.len());
        if number == Mode::FEATURE_SETS {
            return None;
        }
        if known.is_none() {
            self.features.push(*features);
        }
        Some(number as u8)
    }
}
