//! All translated blocks of a node's vCPUs: lookup, linking, invalidation.
//!
//! A block is found by its first byte's physical address, its RIP and its mode, hot ones first.
//! When bytes of a page change, all blocks with such bytes are dropped along with the jumps to
//! them; when there is no room, everything is dropped. The running vCPU has the store, through
//! `share`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use belljar_cpu::{CpuError, PAGE_SIZE};
use belljar_translate::context::{LineFilter, OWN_HEATS, OWN_SLOTS};
use belljar_translate::guest::decode::{GuestBlock, MAX_RUN};
use belljar_translate::guest::features::Features;
use belljar_translate::guest::groups::Scattered;
use belljar_translate::guest::mode::{Mode, Origin, Pace};
use belljar_translate::host::block::{Block, Incoming, Placement};
use belljar_translate::host::cache::{BLOCK_ROOM, CodeMemory};
use belljar_translate::host::emit::{Emitter, Links, Tier};
use belljar_translate::host::exit_stub::{BlockId, ExitStub, ExitStubId, POOLED};
use belljar_translate::host::shared::{Character, SharedCode};
use belljar_translate::host::stubs;

use crate::code::branch_profile::BranchProfile;
use crate::code::form::Form;
use crate::code::index::{BlockEntry, BlockIndex};
use crate::code::news::NewsLog;
use crate::code::pages::CodePages;
use crate::code::pool::Pool;
use crate::code::probed::ProbedCode;
use lookups::RecentLookups;

/// Lookups of blocks.
mod lookups;
/// Use of a pool by a node.
mod pooled;
/// Entry thunks of code that is relative to its page.
mod thunks;
/// Bytes of code per exit stub, as a bound on memory.
const BYTES_PER_SITE: usize = 64;
/// The smallest code memory: enough for some blocks of any size.
const LEAST_BYTES: usize = 8 * BLOCK_ROOM;

/// The translated code of a node's vCPUs.
pub(crate) struct Store {
    memory: CodeMemory,
    emitter: Emitter,
    shared: SharedCode,
    /// Bytes of shared code at the start of the memory.
    reserved: usize,
    blocks: Vec<Block>,
    sites: Vec<ExitStub>,
    pages: CodePages,
    /// The pool with the code of shared pages.
    pool: Option<Arc<Pool>>,
    /// Number of times that a page ceased to be shared.
    departures: u64,
    /// Number of times that everything was discarded.
    flushes: u64,
    index: BlockIndex,
    recent: RecentLookups,
    /// The entry thunks of relative code, by their number.
    thunks: BlockIndex,
    /// The entry thunks that lead to the pool's blocks.
    pool_thunks: BTreeMap<BlockId, Vec<Incoming>>,
    /// Slots and heat counters in use; smaller numbers are the pool's.
    slots: Range<u32>,
    heats: Range<u32>,
    lines: bool,
    /// True if code has absolute addresses even without a pool: a processor model knows blocks by them.
    absolute: bool,
    /// Instructions whose accesses seldom repeat their last address range.
    scattered: BTreeSet<u64>,
    /// Run counts of its conditional jumps' branches.
    pub profile: BranchProfile,
    /// Features under which code was translated, by the numbers in modes.
    features: Vec<Features>,
    /// Probes and watched return addresses.
    pub probed: ProbedCode,
    /// Changes that paused vCPUs must process.
    pub news: NewsLog,
}

/// Consequences of dropping code, for the caller.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Forgotten {
    /// Dropped blocks that jump caches may still contain: RIP, host code, user mode.
    pub jumps: Vec<(u64, u64, bool)>,
    /// Number of dropped blocks.
    pub blocks: u64,
    /// Pages that contain no code any more.
    pub clean: Vec<u64>,
}

impl Store {
    /// An empty store for code of this `character`.
    pub(crate) fn new(character: &Character, bytes: usize) -> Result<Self, CpuError> {
        let mut memory = CodeMemory::new(bytes.max(LEAST_BYTES))?;
        let shared = stubs::place(&mut memory, character);
        Ok(Self {
            reserved: memory.used(),
            memory,
            emitter: Emitter::of(character, shared),
            shared,
            blocks: Vec::new(),
            sites: Vec::new(),
            pages: CodePages::default(),
            pool: None,
            departures: 0,
            flushes: 0,
            index: BlockIndex::new(),
            recent: RecentLookups::default(),
            thunks: BlockIndex::new(),
            pool_thunks: BTreeMap::new(),
            slots: 0..0,
            heats: 0..0,
            lines: false,
            absolute: character.follows_path,
            scattered: BTreeSet::new(),
            profile: BranchProfile::default(),
            features: Vec::new(),
            probed: ProbedCode::default(),
            news: NewsLog::default(),
        })
    }

    /// Emits for a cache model from now on: accesses are checked line by line, and code never
    /// becomes hot.
    pub(crate) fn check_lines(&mut self, filter: LineFilter) {
        self.lines = true;
        self.emitter.check_lines(filter);
    }

    /// Host address of the entry of every visit.
    pub(crate) fn enter_code(&self) -> u64 {
        self.shared.enter
    }

    /// Host address of the code at the end of every visit.
    pub(crate) fn leave_code(&self) -> u64 {
        self.shared.leave
    }

    /// Host addresses of the entry for [apart](Mode::apart) code, and of the code that moves its
    /// budget back to the context.
    pub(crate) fn apart_code(&self) -> [u64; 2] {
        self.shared.apart
    }

    /// Host address of the code for jumps with a wrong entry in the first jump cache.
    pub(crate) fn lookup_code(&self, user: bool) -> u64 {
        self.shared.lookup[usize::from(user)]
    }

    /// Host address ranges of translated code: the node's own, and the pool's.
    pub(crate) fn ranges(&self) -> [Range<u64>; 2] {
        let pool = self.pool.as_ref();
        [self.memory.range(), pool.map_or(0..0, |pool| pool.range())]
    }

    pub(crate) fn block(&self, id: BlockId) -> &Block {
        if id & POOLED != 0 {
            return self.pool().block(id);
        }
        &self.blocks[id as usize]
    }

    pub(crate) fn site(&self, id: ExitStubId) -> &ExitStub {
        if id & POOLED != 0 {
            return self.pool().site(id);
        }
        &self.sites[id as usize]
    }

    /// A number that changes with every flush; data about blocks from before is invalid.
    pub(crate) fn generation(&self) -> u64 {
        self.flushes
    }

    /// The number of `features`; `None` if there are too many different ones, and all must be
    /// [dropped](Self::forget_features).
    pub(crate) fn number_of(&mut self, features: &Features) -> Option<u8> {
        if let Some(pool) = &self.pool {
            return pool.number_of(features);
        }
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

    /// Drops the numbers of features; no code translated under them may be left. A node cannot drop
    /// a pool's numbers: it continues without the pool.
    pub(crate) fn forget_features(&mut self) {
        self.features.clear();
        self.recent.forget();
        self.pool = None;
    }

    /// Excludes the accesses of these instructions of block `id` from groups.
    pub(crate) fn scatter(&mut self, id: BlockId, instructions: impl IntoIterator<Item = u64>) {
        let block = &self.blocks[id as usize];
        let from = Scattered::origin(block.mode, block.origin);
        let each = instructions.into_iter().map(|rip| rip.wrapping_add(from));
        self.scattered.extend(each);
    }

    /// The node's own heat counters in use.
    pub(crate) fn heats(&self) -> Range<u32> {
        self.heats.clone()
    }

    /// True if another block fits; otherwise [`flush`](Self::flush) first.
    pub(crate) fn has_room(&self) -> bool {
        self.memory.has_room(BLOCK_ROOM)
            && self.sites.len() < self.memory.limit() / BYTES_PER_SITE
            && self.slots.len() < OWN_SLOTS - MAX_RUN
            && self.heats.len() < OWN_HEATS - 1
    }

    /// Drops everything; returns the pages that contained code.
    pub(crate) fn flush(&mut self) -> Vec<u64> {
        self.memory.truncate(self.reserved);
        self.blocks.clear();
        self.sites.clear();
        self.index = BlockIndex::new();
        self.recent.forget();
        self.thunks = BlockIndex::new();
        self.pool_thunks.clear();
        self.slots.end = self.slots.start;
        self.heats.end = self.heats.start;
        self.scattered.clear();
        self.profile.clear();
        self.probed.forget_pages();
        self.flushes += 1;
        self.pages.clear()
    }

    /// Size of the code in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.used()
    }

    /// Releases unused memory to the host.
    pub(crate) fn release(&mut self) {
        self.memory.release();
        self.blocks.shrink_to_fit();
        self.sites.shrink_to_fit();
    }

    /// Translates `guest` in the given form and stores it. Its bytes are at `origin`
    /// (guest-physical addresses; a second one if it crosses pages).
    pub(crate) fn add(
        &mut self,
        guest: &GuestBlock,
        origin: Origin,
        mode: Mode,
        form: Form,
    ) -> BlockEntry {
        let id = self.blocks.len() as BlockId;
        let base = self.memory.next();
        let first_site = self.sites.len() as ExitStubId;
        let counts = form == Form::Block && !self.lines && mode.pace == Pace::Full;
        let has_path = self.absolute && !form.is_free() && !mode.is_piece();
        let heat = (counts || has_path).then_some(self.heats.end);
        let tier = if form.is_hot() {
            Tier::Hot {
                path: heat,
                first_slot: self.slots.end,
                scattered: Scattered {
                    instructions: &self.scattered,
                    from: Scattered::origin(mode, origin),
                },
            }
        } else {
            Tier::Plain(heat)
        };
        // The target blocks may be the pool's.
        let alone = mode.is_poolable() && self.is_shared_at(origin.first, guest.rip);
        let links = if alone { Links::Cached } else { Links::Patched };
        self.emitter.link_by(links);
        let mut emitted =
            self.emitter
                .emit(guest, mode, form.is_free(), tier, base, (id, first_site));
        self.memory.place(self.emitter.code());
        self.sites.append(&mut emitted.sites);
        let placement = Placement {
            mode,
            hot: form.is_hot(),
            origin,
            base,
            bytes: self.emitter.code().len(),
            heat,
            first_slot: self.slots.end,
        };
        let block = Block::new(guest, emitted, placement);
        self.heats.end += u32::from(heat.is_some());
        self.slots.end = block.slots.end;
        self.blocks.push(block);
        self.pages.add(origin, id);
        let key = (guest.rip, origin.first, mode.bits());
        self.index.add(key, &self.blocks[id as usize])
    }

    /// Links `jump` of block `from` to block `id`, if both are the node's own or both the pool's.
    pub(crate) fn link(&mut self, jump: Incoming, from: BlockId, id: BlockId) {
        match (from & POOLED != 0, id & POOLED != 0) {
            (false, false) => self.patch(jump, id),
            (true, true) => self.pool().link(jump, from, id),
            _ => {}
        }
    }

    fn patch(&mut self, jump: Incoming, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        block.incoming.push(jump);
        let entry = block.entry;
        self.lead(jump, entry);
    }

    /// Makes `jump` of the node's own code lead to host address `target`.
    fn lead(&mut self, jump: Incoming, target: u64) {
        if jump.wide {
            self.memory.set_word(jump.hole, target);
        } else {
            self.memory.patch(jump.hole, target);
        }
    }

    /// Redirects all jumps to block `from` to block `to`, except jumps that need plain code.
    pub(crate) fn redirect(&mut self, from: BlockId, to: BlockId) {
        if from & to & POOLED != 0 {
            self.pool().redirect(from, to);
            return self.lead_thunks(from, to);
        }
        let incoming = std::mem::take(&mut self.blocks[from as usize].incoming);
        let (stay, go): (Vec<_>, Vec<_>) = incoming.into_iter().partition(|jump| jump.plain);
        self.blocks[from as usize].incoming = stay;
        for jump in go {
            self.patch(jump, to);
        }
    }

    /// The block whose host code contains `pc`.
    pub(crate) fn block_at(&self, pc: u64) -> Option<BlockId> {
        if let Some(pool) = &self.pool
            && pool.range().contains(&pc)
        {
            return pool.block_at(pc);
        }
        let after = self
            .blocks
            .partition_point(|block| block.indirect_entry <= pc);
        let id = after.checked_sub(1)?;
        (pc < self.blocks[id].host_end).then_some(id as BlockId)
    }

    /// Drops the blocks with any of the `bytes` bytes at `physical`, which lie in one page.
    pub(crate) fn forget(&mut self, physical: u64, bytes: u64) -> Forgotten {
        let mut forgotten = Forgotten::default();
        let start = physical % PAGE_SIZE;
        let blocks = self.pages.blocks(physical).iter();
        let hit = blocks.copied().filter(|&id| {
            overlaps(
                &self.blocks[id as usize],
                physical / PAGE_SIZE,
                start,
                start + bytes,
            )
        });
        for id in hit.collect::<Vec<_>>() {
            let block = &self.blocks[id as usize];
            forgotten.blocks += 1;
            // Entry thunks then lead to the dispatcher.
            if !block.mode.relative {
                let jump = (block.rip, block.indirect_entry, block.mode.user);
                forgotten.jumps.push(jump);
            }
            self.remove(id, &mut forgotten.clean);
        }
        forgotten
    }

    /// Drops a block; returns the pages that contain no code any more.
    pub(crate) fn discard(&mut self, id: BlockId) -> Vec<u64> {
        let mut clean = Vec::new();
        if self.blocks[id as usize].valid {
            self.remove(id, &mut clean);
        }
        clean
    }

    fn remove(&mut self, id: BlockId, clean: &mut Vec<u64>) {
        let block = &mut self.blocks[id as usize];
        block.valid = false;
        let origin = block.origin;
        for jump in std::mem::take(&mut block.incoming) {
            self.lead(jump, jump.stub);
        }
        self.index.remove(id);
        self.recent.forget();
        clean.extend(self.pages.remove(origin, id));
    }
}

/// True if a block has bytes from `start` to `end` of page `page`.
fn overlaps(block: &Block, page: u64, start: u64, end: u64) -> bool {
    let first = (block.bytes.0 + u64::from(block.mode.skew)) % PAGE_SIZE;
    let last = first + (block.bytes.1.wrapping_sub(block.bytes.0) & 0xffff);
    let in_first =
        block.origin.first / PAGE_SIZE == page && start < last.min(PAGE_SIZE) && end > first;
    let in_second = block.origin.second.is_some_and(|at| at / PAGE_SIZE == page)
        && last > PAGE_SIZE
        && start < last - PAGE_SIZE;
    in_first || in_second
}
