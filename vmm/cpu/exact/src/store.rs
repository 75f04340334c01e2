//! All translated blocks of a vCPU: finding them, linking them, forgetting them.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use belljar_cpu::{CpuError, PAGE_SIZE};
use iced_x86::Instruction;

use crate::analyse::Class;
use crate::asm::{Asm, RCX, S0, S1};
use crate::block::{Block, BlockId, Incoming, Mode, Origin, Pace, Site, SiteId};
use crate::cache::CodeMemory;
use crate::classes::Prices;
use crate::context::{Context, EXIT_LOOKUP, HEATS, SLOTS, at};
use crate::decode::GuestBlock;
use crate::emit::{Counter, Emitter, Shared, Tier};
use crate::features::Features;
use crate::hot::MAX_RUN;
use crate::index::{BlockIndex, Found};
use crate::masked::is_masked;
use crate::share::NewsLog;

/// Room that the largest block may need, generously: a trace of accesses each of
/// which is a group.
const BLOCK_ROOM: usize = 192 << 10;
/// There is a site for so many bytes of code at most, to bound memory.
const BYTES_PER_SITE: usize = 64;
/// Least room for code: for some blocks of any size.
const LEAST_BYTES: usize = 8 * BLOCK_ROOM;

/// The translated code of a node's vCPUs.
pub(crate) struct Store {
    memory: CodeMemory,
    emitter: Emitter,
    shared: Shared,
    /// Bytes of shared code at the start of the memory.
    reserved: usize,
    blocks: Vec<Block>,
    sites: Vec<Site>,
    /// Blocks that hold bytes of a guest page, by its number.
    pages: BTreeMap<u64, Vec<BlockId>>,
    /// How often everything was thrown away.
    flushes: u64,
    index: BlockIndex,
    /// Slots and heat counters in use.
    slots: u32,
    heats: u32,
    lines: bool,
    /// Instructions whose accesses seldom go where the last one went.
    scattered: BTreeSet<u64>,
    /// What code was translated under, by the numbers that are part of modes.
    features: Vec<Features>,
    /// What vCPUs must know that are not running.
    pub news: NewsLog,
}

/// What forgetting code asks of the caller.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Forgotten {
    /// Blocks that jump caches may still lead to: RIP, host code, user mode.
    pub jumps: Vec<(u64, u64, bool)>,
    /// Pages that hold no code any more.
    pub clean: Vec<u64>,
}

impl Store {
    /// Makes an empty one; `counter` tells where its code counts instructions, and
    /// `prices` what each costs, where that is modelled.
    pub(crate) fn new(
        counter: Counter,
        prices: Option<Prices>,
        bytes: usize,
    ) -> Result<Self, CpuError> {
        let mut memory = CodeMemory::new(bytes.max(LEAST_BYTES))?;
        let mut asm = Asm::default();
        asm.restart(memory.next());
        let leave = asm.here();
        if counter == Counter::Xmm31 {
            asm.store_xmm31(at::COUNT);
            if prices.is_some() {
                asm.store_xmm31_high(at::RETIRED);
            }
        }
        asm.jump_slot(offset_of!(Context, leave) as i32);
        let enter = asm.here();
        if counter == Counter::Xmm31 {
            asm.load_xmm31(at::COUNT);
            if prices.is_some() {
                asm.load_xmm31_high(at::RETIRED);
            }
        }
        asm.jump_slot(offset_of!(Context, resume) as i32);
        let unknown = asm.here();
        asm.store_imm32(at::EXIT_SITE, EXIT_LOOKUP);
        asm.jump_to(leave);
        let lookup = [false, true].map(|user| second_look(&mut asm, user, unknown));
        memory.place(asm.code());
        let shared = Shared {
            leave,
            unknown,
            lookup,
            enter,
            counter,
        };
        let mut emitter = Emitter::new(shared);
        if let Some(prices) = prices {
            emitter.count_prices(prices);
        }
        Ok(Self {
            reserved: memory.used(),
            memory,
            emitter,
            shared,
            blocks: Vec::new(),
            sites: Vec::new(),
            pages: BTreeMap::new(),
            flushes: 0,
            index: BlockIndex::new(),
            slots: 0,
            heats: 0,
            lines: false,
            scattered: BTreeSet::new(),
            features: Vec::new(),
            news: NewsLog::default(),
        })
    }

    /// Emits for a cache model from now on: accesses are checked line by line, and no
    /// code becomes hot.
    pub(crate) fn check_lines(&mut self) {
        self.lines = true;
        self.emitter.check_lines();
    }

    /// Host address at which every visit begins.
    pub(crate) fn enter_code(&self) -> u64 {
        self.shared.enter
    }

    /// Host address of the code that every visit ends with.
    pub(crate) fn leave_code(&self) -> u64 {
        self.shared.leave
    }

    /// Host address of the code for jumps that the first jump cache leads astray.
    pub(crate) fn lookup_code(&self, user: bool) -> u64 {
        self.shared.lookup[usize::from(user)]
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

    /// The number of what decides how code is translated; `None` when there are too many,
    /// and all must be [forgotten](Self::forget_features).
    pub(crate) fn number_of(&mut self, features: &Features) -> Option<u8> {
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

    /// Forgets the numbers of features; no code may be left that was translated under them.
    pub(crate) fn forget_features(&mut self) {
        self.features.clear();
    }

    /// Does not group the accesses of these instructions any more.
    pub(crate) fn scatter(&mut self, instructions: impl IntoIterator<Item = u64>) {
        self.scattered.extend(instructions);
    }

    /// The block for `rip` in `mode` whose first byte is at `physical`: the hot one, if
    /// there is one, unless it must be `plain`.
    pub(crate) fn find(&self, physical: u64, rip: u64, mode: Mode, plain: bool) -> Option<Found> {
        self.index.find((rip, physical, mode.bits()), plain)
    }

    /// Heat counters in use.
    pub(crate) fn heats_used(&self) -> u32 {
        self.heats
    }

    /// Slots in use.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// Whether another block fits; otherwise [`flush`](Self::flush) first.
    pub(crate) fn has_room(&self) -> bool {
        self.memory.has_room(BLOCK_ROOM)
            && self.sites.len() < self.memory.limit() / BYTES_PER_SITE
            && (self.slots as usize) < SLOTS - MAX_RUN
            && (self.heats as usize) < HEATS - 1
    }

    /// Forgets everything; returns the pages that held code.
    pub(crate) fn flush(&mut self) -> Vec<u64> {
        self.memory.truncate(self.reserved);
        self.blocks.clear();
        self.sites.clear();
        self.index = BlockIndex::new();
        self.slots = 0;
        self.heats = 0;
        self.scattered.clear();
        self.flushes += 1;
        let pages = std::mem::take(&mut self.pages);
        pages.into_keys().map(|page| page * PAGE_SIZE).collect()
    }

    /// Bytes of code.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.used()
    }

    /// Gives memory that is not in use back to the host.
    pub(crate) fn release(&mut self) {
        self.memory.release();
        self.blocks.shrink_to_fit();
        self.sites.shrink_to_fit();
    }

    /// Translates `guest`, whose bytes lie at `origin` (guest-physical addresses;
    /// the second when it crosses), and keeps it; as a `hot` trace or as a block.
    pub(crate) fn add(
        &mut self,
        guest: &GuestBlock,
        origin: Origin,
        mode: Mode,
        free: bool,
        hot: bool,
    ) -> Found {
        let id = self.blocks.len() as BlockId;
        let base = self.memory.next();
        let first_site = self.sites.len() as SiteId;
        let counts = !free && !self.lines && mode.pace == Pace::Full;
        let tier = if hot {
            Tier::Hot {
                first_slot: self.slots,
                scattered: &self.scattered,
            }
        } else {
            Tier::Plain(counts.then_some(self.heats))
        };
        let emitted = self
            .emitter
            .emit(guest, mode, free, tier, base, (id, first_site));
        let heat = match tier {
            Tier::Plain(heat) => heat,
            Tier::Hot { .. } => None,
        };
        self.heats += u32::from(heat.is_some());
        let slots = self.slots..self.slots + emitted.slots;
        self.slots = slots.end;
        self.memory.place(self.emitter.code());
        self.sites.extend(emitted.sites);
        self.blocks.push(Block {
            rip: guest.rip,
            mode,
            hot,
            origin,
            bytes: guest.bytes,
            end: guest.end,
            entry: base + u64::from(emitted.entry),
            indirect_entry: base,
            host_end: base + self.emitter.code().len() as u64,
            counted: emitted.counted,
            rest: emitted.rest,
            offsets: guest
                .instructions
                .iter()
                .map(|one| one.instruction.ip().wrapping_sub(guest.rip) as i16)
                .collect(),
            host_map: emitted.host_map.into_boxed_slice(),
            masked: masked_accesses(guest),
            incoming: Vec::new(),
            heat,
            slots,
            members: emitted.members,
            loops: guest.loops,
            renamed: guest.renamed,
            dead_flags: emitted.dead_flags,
            valid: true,
        });
        for page in origin.each() {
            self.pages.entry(page / PAGE_SIZE).or_default().push(id);
        }
        let key = (guest.rip, origin.first, mode.bits());
        self.index.add(key, &self.blocks[id as usize])
    }

    /// Lets `jump` lead to block `id`.
    pub(crate) fn link(&mut self, jump: Incoming, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        block.incoming.push(jump);
        self.memory.patch(jump.hole, block.entry);
    }

    /// Leads all jumps to block `from` to block `to`, but for those that must not.
    pub(crate) fn redirect(&mut self, from: BlockId, to: BlockId) {
        let incoming = std::mem::take(&mut self.blocks[from as usize].incoming);
        let (stay, go): (Vec<_>, Vec<_>) = incoming.into_iter().partition(|jump| jump.plain);
        self.blocks[from as usize].incoming = stay;
        for jump in go {
            self.link(jump, to);
        }
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
        let hit = page.iter().copied().filter(|&id| {
            overlaps(
                &self.blocks[id as usize],
                physical / PAGE_SIZE,
                start,
                start + bytes,
            )
        });
        for id in hit.collect::<Vec<_>>() {
            let block = &self.blocks[id as usize];
            forgotten
                .jumps
                .push((block.rip, block.indirect_entry, block.mode.user));
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

    fn remove(&mut self, id: BlockId, clean: &mut Vec<u64>) {
        let block = &mut self.blocks[id as usize];
        block.valid = false;
        for jump in std::mem::take(&mut block.incoming) {
            self.memory.patch(jump.hole, jump.stub);
        }
        self.index.remove(id);
        for physical in block.origin.each() {
            let number = physical / PAGE_SIZE;
            if let Some(page) = self.pages.get_mut(&number) {
                page.retain(|&other| other != id);
                if page.is_empty() {
                    self.pages.remove(&number);
                    clean.push(number * PAGE_SIZE);
                }
            }
        }
    }
}

/// Code that looks for the RIP in S0 in the second jump cache, and leaves by `unknown`
/// when it is not there.
fn second_look(asm: &mut Asm, user: bool, unknown: u64) -> u64 {
    let here = asm.here();
    asm.store(at::BORROWED, RCX);
    asm.rorx(S1, S0, 12);
    asm.lea_full(S1, Some(S0), Some((S1, 8)), 0, false);
    asm.pext(S1, S1, at::JUMP_MASKS[1]);
    asm.load_table8(RCX, at::second_negated(user));
    asm.lea_sum(RCX, RCX, S0, 0);
    let found = asm.jump_rcx_zero();
    asm.load(RCX, at::BORROWED);
    asm.jump_to(unknown);
    asm.land(found);
    asm.load(RCX, at::BORROWED);
    asm.jump_table8(at::second_jumps(user));
    here
}

fn masked_accesses(guest: &GuestBlock) -> Box<[(u16, Instruction)]> {
    guest
        .instructions
        .iter()
        .enumerate()
        .filter(|(_, guest)| {
            matches!(guest.class, Class::Memory { .. }) && is_masked(&guest.instruction)
        })
        .map(|(index, guest)| (index as u16, guest.instruction))
        .collect()
}

/// Whether a block holds bytes from `start` to `end` of page `page`.
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
