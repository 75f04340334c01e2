//! All translated blocks of a vCPU: finding them, linking them, forgetting them.

use std::collections::BTreeMap;
use std::mem::offset_of;

use belljar_cpu::{CpuError, PAGE_SIZE};
use iced_x86::Instruction;

use crate::analyse::Class;
use crate::asm::Asm;
use crate::block::{Block, BlockId, Mode, Site, SiteId};
use crate::cache::CodeMemory;
use crate::context::{Context, EXIT_LOOKUP, at};
use crate::decode::GuestBlock;
use crate::emit::{Emitter, Shared};
use crate::masked::is_masked;

/// Room that the largest block may need, generously: 64 instructions of two
/// accesses each.
const BLOCK_ROOM: usize = 64 << 10;
/// Sites beyond which everything is thrown away, to bound memory.
const MAX_SITES: usize = 1 << 19;

/// Blocks that hold bytes of one guest page.
#[derive(Debug, Default)]
struct PageCode {
    blocks: BTreeMap<(u64, u32), BlockId>,
    /// Blocks that begin in the page before and reach into this one.
    spills: Vec<BlockId>,
}

/// The translated code of a vCPU.
pub(crate) struct Store {
    memory: CodeMemory,
    emitter: Emitter,
    shared: Shared,
    /// Bytes of shared code at the start of the memory.
    reserved: usize,
    blocks: Vec<Block>,
    sites: Vec<Site>,
    pages: BTreeMap<u64, PageCode>,
    /// How often everything was thrown away.
    flushes: u64,
    translated: u64,
}

/// What forgetting code asks of the caller.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Forgotten {
    /// Jump caches may still lead to forgotten blocks.
    pub any: bool,
    /// Pages that hold no code any more.
    pub clean: Vec<u64>,
}

impl Store {
    pub(crate) fn new() -> Result<Self, CpuError> {
        let mut memory = CodeMemory::new()?;
        let mut asm = Asm::default();
        asm.restart(memory.next());
        let leave = asm.here();
        asm.jump_slot(offset_of!(Context, leave) as i32);
        let lookup = asm.here();
        asm.store_imm32(at::EXIT_SITE, EXIT_LOOKUP);
        asm.jump_to(leave);
        memory.place(asm.code());
        let shared = Shared { leave, lookup };
        Ok(Self {
            reserved: memory.used(),
            memory,
            emitter: Emitter::new(shared),
            shared,
            blocks: Vec::new(),
            sites: Vec::new(),
            pages: BTreeMap::new(),
            flushes: 0,
            translated: 0,
        })
    }

    /// Host address of the code for a jump-cache miss.
    pub(crate) fn lookup_code(&self) -> u64 {
        self.shared.lookup
    }

    /// Host addresses at which translated code executes.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        self.memory.range()
    }

    pub(crate) fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }

    pub(crate) fn site(&self, id: SiteId) -> &Site {
        &self.sites[id as usize]
    }

    /// Grows with every flush; what was known of blocks before one is void.
    pub(crate) fn generation(&self) -> u64 {
        self.flushes
    }

    /// Guest instructions translated so far, repetitions counted.
    pub(crate) fn translated(&self) -> u64 {
        self.translated
    }

    /// The block for `rip` in `mode` whose first byte is at `physical`.
    pub(crate) fn find(&self, physical: u64, rip: u64, mode: Mode) -> Option<BlockId> {
        let page = self.pages.get(&(physical / PAGE_SIZE))?;
        page.blocks.get(&(rip, mode.bits())).copied()
    }

    /// Whether another block fits; otherwise [`flush`](Self::flush) first.
    pub(crate) fn has_room(&self) -> bool {
        self.memory.has_room(BLOCK_ROOM) && self.sites.len() < MAX_SITES
    }

    /// Forgets everything; returns the pages that held code.
    pub(crate) fn flush(&mut self) -> Vec<u64> {
        self.memory.truncate(self.reserved);
        self.blocks.clear();
        self.sites.clear();
        self.flushes += 1;
        let pages = std::mem::take(&mut self.pages);
        pages.into_keys().map(|page| page * PAGE_SIZE).collect()
    }

    /// Translates `guest`, whose bytes lie in `pages` (guest-physical addresses;
    /// the second when it crosses), and keeps it.
    pub(crate) fn add(
        &mut self,
        guest: &GuestBlock,
        pages: [Option<u64>; 2],
        mode: Mode,
        free: bool,
    ) -> BlockId {
        let id = self.blocks.len() as BlockId;
        let base = self.memory.next();
        let first_site = self.sites.len() as SiteId;
        let emitted = self.emitter.emit(guest, mode, free, base, (id, first_site));
        self.memory.place(self.emitter.code());
        self.translated += guest.instructions.len() as u64;
        self.sites.extend(emitted.sites);
        self.blocks.push(Block {
            rip: guest.rip,
            mode,
            pages,
            length: guest.end.wrapping_sub(guest.rip) as u16,
            entry: base + u64::from(emitted.entry),
            indirect_entry: base,
            host_end: base + self.emitter.code().len() as u64,
            counted: emitted.counted,
            first_site,
            offsets: guest
                .instructions
                .iter()
                .map(|guest| guest.offset)
                .collect(),
            host_map: emitted.host_map.into_boxed_slice(),
            masked: masked_accesses(guest),
            incoming: Vec::new(),
            flags_dead: emitted.flags_dead,
            valid: true,
        });
        let key = (guest.rip, mode.bits());
        if let [Some(first), second] = pages {
            self.pages
                .entry(first / PAGE_SIZE)
                .or_default()
                .blocks
                .insert(key, id);
            if let Some(second) = second {
                self.pages
                    .entry(second / PAGE_SIZE)
                    .or_default()
                    .spills
                    .push(id);
            }
        }
        id
    }

    /// Lets the `rel32` at `hole`, which leads to `stub`, lead to block `id`.
    pub(crate) fn link(&mut self, hole: u64, stub: u64, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        block.incoming.push((hole, stub));
        self.memory.patch(hole, block.entry);
    }

    /// The block whose host code holds `pc`.
    pub(crate) fn block_at(&self, pc: u64) -> Option<BlockId> {
        let after = self
            .blocks
            .partition_point(|block| block.indirect_entry <= pc);
        let id = after.checked_sub(1)?;
        (pc < self.blocks[id].host_end).then_some(id as BlockId)
    }

    /// Forgets the blocks that hold any of the `bytes` bytes at `physical`, which
    /// lie in one page.
    pub(crate) fn forget(&mut self, physical: u64, bytes: u64) -> Forgotten {
        let mut forgotten = Forgotten::default();
        let Some(page) = self.pages.get(&(physical / PAGE_SIZE)) else {
            return forgotten;
        };
        let start = physical % PAGE_SIZE;
        let hit: Vec<BlockId> = page
            .blocks
            .values()
            .chain(&page.spills)
            .copied()
            .filter(|&id| {
                overlaps(
                    &self.blocks[id as usize],
                    physical / PAGE_SIZE,
                    start,
                    start + bytes,
                )
            })
            .collect();
        for id in hit {
            forgotten.any = true;
            self.remove(id, &mut forgotten.clean);
        }
        forgotten
    }

    /// Forgets one block; returns the pages that hold no code any more.
    pub(crate) fn discard(&mut self, id: BlockId) -> Vec<u64> {
        let mut clean = Vec::new();
        if self.blocks[id as usize].valid {
            self.remove(id, &mut clean);
        }
        clean
    }

    /// Forgets the block added last, and takes its room back, which no other block
    /// can have a use for: nothing was ever linked to it.
    pub(crate) fn take_back(&mut self, id: BlockId) -> Vec<u64> {
        let clean = self.discard(id);
        if id as usize + 1 == self.blocks.len() {
            let start = self.blocks[id as usize].indirect_entry - self.memory.range().start;
            self.memory.truncate(start as usize);
            self.sites
                .truncate(self.blocks[id as usize].first_site as usize);
            self.blocks.pop();
        }
        clean
    }

    fn remove(&mut self, id: BlockId, clean: &mut Vec<u64>) {
        let block = &mut self.blocks[id as usize];
        block.valid = false;
        let key = (block.rip, block.mode.bits());
        for (hole, stub) in std::mem::take(&mut block.incoming) {
            self.memory.patch(hole, stub);
        }
        for physical in block.pages.into_iter().flatten() {
            let number = physical / PAGE_SIZE;
            if let Some(page) = self.pages.get_mut(&number) {
                if page.blocks.get(&key) == Some(&id) {
                    page.blocks.remove(&key);
                }
                page.spills.retain(|&spill| spill != id);
                if page.blocks.is_empty() && page.spills.is_empty() {
                    self.pages.remove(&number);
                    clean.push(number * PAGE_SIZE);
                }
            }
        }
    }
}

fn masked_accesses(guest: &GuestBlock) -> Box<[(u8, Instruction)]> {
    guest
        .instructions
        .iter()
        .enumerate()
        .filter(|(_, guest)| {
            matches!(guest.class, Class::Memory { .. }) && is_masked(&guest.instruction)
        })
        .map(|(index, guest)| (index as u8, guest.instruction))
        .collect()
}

/// Whether a block holds bytes from `start` to `end` of page `page`.
fn overlaps(block: &Block, page: u64, start: u64, end: u64) -> bool {
    let first = (block.rip + u64::from(block.mode.skew)) % PAGE_SIZE;
    let last = first + u64::from(block.length);
    let in_first = block.pages[0].is_some_and(|at| at / PAGE_SIZE == page)
        && start < last.min(PAGE_SIZE)
        && end > first;
    let in_second = block.pages[1].is_some_and(|at| at / PAGE_SIZE == page)
        && last > PAGE_SIZE
        && start < last - PAGE_SIZE;
    in_first || in_second
}
