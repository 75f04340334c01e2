//! Translated code shared by many nodes.
//!
//! Nodes of a cluster run the same kernel and programs, and the translation of a page of code
//! follows from its bytes. The pool has such pages, each with its bytes and its blocks. A node
//! whose page has the same bytes runs those blocks until it writes to the page; the first node that
//! needs a block adds it. Relative code of a page serves all its linear addresses, such as those of
//! libraries, which differ from process to process. Other translated code contains addresses, so a
//! page is kept separately for the first few linear addresses at which such code runs: the kernel
//! has the same addresses in all clones.
//!
//! Translated code finds its vCPU's data through the GS base, and pooled code is mapped once. It is
//! never changed or removed, because other threads may be executing it. Only its cells change:
//! words next to the code that contain the target of a jump to another block of the page. Initially
//! this is the dispatcher, later that block. A link never leads out of its page, so a node stops
//! running a page's code by clearing its jump caches. The blocks in a pool do not affect the
//! guests' behaviour.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use belljar_cpu::{CpuError, PAGE_SIZE};
use belljar_translate::context::{POOL_HEATS, POOL_SLOTS};
use belljar_translate::guest::decode::{GuestBlock, MAX_RUN};
use belljar_translate::guest::features::Features;
use belljar_translate::guest::groups::Scattered;
use belljar_translate::guest::mode::{Mode, Origin, Pace};
use belljar_translate::host::block::{Block, Incoming, Placement};
use belljar_translate::host::cache::{BLOCK_ROOM, CodeMemory};
use belljar_translate::host::emit::{Emitter, Links, Tier};
use belljar_translate::host::exit_stub::{BlockId, ExitStub, ExitStubId, POOLED};
use belljar_translate::host::shared::Character;
use belljar_translate::host::stubs;

/// The bytes of a pool's pages: found by their hash, then compared.
mod contents;
/// Nodes' handle of a pool.
mod handle;
/// An index of a pool's blocks: a hash table that can be read during additions.
mod index;
/// Blocks of earlier runs.
mod restored;
/// A pool as bytes.
mod saved;
/// Authentication of a saved pool.
mod seal;
/// The mutable state of a pool.
mod writer;

use contents::PoolContents;
use index::{IndexedBlock, PoolIndex};
use restored::RestoredBlocks;
use writer::PoolWriter;

pub(crate) use crate::code::form::{Form, Sought};
use crate::code::index::BlockEntry;
pub use handle::CodePool;
pub use saved::SavedCodeError;
pub use seal::{CodeKey, SealedCode};

/// Number of a page of the pool.
pub(crate) type PageId = u32;
/// The bytes of a page.
pub(crate) type PageBytes = [u8; PAGE_SIZE as usize];

/// Bytes of code per cell and exit stub: a bound on their number.
const BYTES_PER_CELL: usize = 32;
const BYTES_PER_SITE: usize = 32;

/// The pool; see the module.
pub(crate) struct Pool {
    character: Character,
    range: Range<u64>,
    blocks: boxcar::Vec<Block>,
    sites: boxcar::Vec<ExitStub>,
    index: PoolIndex,
    contents: PoolContents,
    heats: AtomicU32,
    slots: AtomicU32,
    writer: Mutex<PoolWriter>,
    /// Blocks of earlier runs, whose numbers precede those of `blocks`.
    restored: RestoredBlocks,
}

/// The address of code in the pool: its page's number and its offset.
pub(crate) fn address_in(page: PageId, physical: u64) -> u64 {
    u64::from(page) * PAGE_SIZE + physical % PAGE_SIZE
}

impl Pool {
    fn new(character: Character, bytes: usize) -> Result<Self, CpuError> {
        let bytes = bytes.max(8 * BLOCK_ROOM);
        let mut memory = CodeMemory::with_cells(bytes, bytes / BYTES_PER_CELL)?;
        let shared = stubs::place(&mut memory, &character);
        let emitter = Emitter::of(&character, shared);
        Ok(Self {
            character,
            range: memory.range(),
            blocks: boxcar::Vec::new(),
            sites: boxcar::Vec::new(),
            index: PoolIndex::new(),
            contents: PoolContents::new(bytes / PAGE_SIZE as usize),
            heats: AtomicU32::new(0),
            slots: AtomicU32::new(0),
            writer: Mutex::new(PoolWriter::new(memory, emitter)),
            restored: RestoredBlocks::default(),
        })
    }

    fn writer(&self) -> MutexGuard<'_, PoolWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Range of host addresses of pooled code.
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    pub(crate) fn block(&self, id: BlockId) -> &Block {
        let number = (id & !POOLED) as usize;
        let block = match number.checked_sub(self.restored.blocks()) {
            Some(number) => self.blocks.get(number),
            None => self.restored.block(id),
        };
        match block {
            Some(block) => block,
            None => unreachable!("the pool has no block {id:#x}"),
        }
    }

    /// Number of blocks.
    fn block_count(&self) -> usize {
        self.restored.blocks() + self.blocks.count()
    }

    /// The mode of block `id`, which is not decoded for it.
    fn mode_of(&self, id: BlockId) -> Mode {
        let restored = self.restored.mode(id);
        restored.unwrap_or_else(|| self.block(id).mode)
    }

    pub(crate) fn site(&self, id: ExitStubId) -> &ExitStub {
        let number = (id & !POOLED) as usize;
        let site = match number.checked_sub(self.restored.stubs()) {
            Some(number) => self.sites.get(number),
            None => self.restored.stub(id),
        };
        match site {
            Some(site) => site,
            None => unreachable!("the pool has no site {id:#x}"),
        }
    }

    /// Number of exit stubs.
    fn site_count(&self) -> usize {
        self.restored.stubs() + self.sites.count()
    }

    /// The exit stubs of block `id`, which this run made.
    fn stubs_of(&self, id: BlockId) -> impl Iterator<Item = &ExitStub> {
        let of_block = |site: &ExitStub| site.block & !POOLED;
        let number = id & !POOLED;
        let (mut low, mut high) = (0, self.sites.count());
        while low < high {
            let middle = low.midpoint(high);
            match self.sites.get(middle) {
                Some(site) if of_block(site) < number => low = middle + 1,
                _ => high = middle,
            }
        }
        let sites = (low..).map_while(|at| self.sites.get(at));
        sites.take_while(move |site| of_block(site) == number)
    }

    /// Number of heat counters in use, which are numbered from zero.
    pub(crate) fn heats(&self) -> u32 {
        self.heats.load(Ordering::Acquire)
    }

    /// Number of slots in use, which are numbered from zero.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.load(Ordering::Acquire)
    }

    /// The number of `features`, common to all nodes of the pool; `None` if there are too many
    /// different ones.
    pub(crate) fn number_of(&self, features: &Features) -> Option<u8> {
        self.writer().number_of(features)
    }

    /// The page with these bytes, to run around `rip`. It is added if missing and if there is room.
    pub(crate) fn page_of(&self, bytes: &PageBytes, rip: u64) -> Option<PageId> {
        self.contents.find_or_add(bytes, rip / PAGE_SIZE)
    }

    /// True if page `id` has these bytes.
    pub(crate) fn holds(&self, id: PageId, bytes: &PageBytes) -> bool {
        self.contents.holds(id, bytes)
    }

    /// The block for `rip` in `mode` at `address`, of the `sought` form.
    pub(crate) fn find(
        &self,
        address: u64,
        rip: u64,
        mode: Mode,
        sought: Sought,
    ) -> Option<BlockEntry> {
        self.index.find((rip, address, mode.bits()), sought)
    }

    /// Translates `guest`, whose bytes are at `address`, in the given form, unless it was
    /// translated before. `None` if there is no room.
    pub(crate) fn add(
        &self,
        guest: &GuestBlock,
        address: u64,
        mode: Mode,
        form: Form,
    ) -> Option<BlockEntry> {
        let mut writer = self.writer();
        let known = self.find(address, guest.rip, mode, Sought::plain_if(!form.is_hot()));
        if let Some(known) = known
            && self.block(known.id).hot == form.is_hot()
        {
            return Some(known);
        }
        if !self.has_room(&writer) || form.is_hot() && self.slots() as usize + MAX_RUN > POOL_SLOTS
        {
            return None;
        }
        let counts = form == Form::Block && mode.pace == Pace::Full;
        let has_path = self.character.follows_path && !form.is_free() && !mode.is_piece();
        let heat = (counts || has_path)
            .then(|| self.heats())
            .filter(|&heat| (heat as usize) < POOL_HEATS);
        if form.is_hot() && has_path && heat.is_none() {
            return None;
        }
        let origin = Origin {
            first: address,
            second: None,
        };
        let id = POOLED | self.block_count() as u32;
        let first_site = POOLED | self.site_count() as u32;
        let first_slot = self.slots();
        let base = writer.memory.next();
        let links = Links::Cells(writer.memory.cell(writer.cells));
        let PoolWriter {
            emitter, scattered, ..
        } = &mut *writer;
        let tier = if form.is_hot() {
            Tier::Hot {
                path: heat,
                first_slot,
                scattered: Scattered {
                    instructions: scattered,
                    from: Scattered::origin(mode, origin),
                },
            }
        } else {
            Tier::Plain(heat)
        };
        emitter.link_by(links);
        let mut emitted = emitter.emit(guest, mode, form.is_free(), tier, base, (id, first_site));
        let placement = Placement {
            mode,
            hot: form.is_hot(),
            origin,
            base,
            bytes: emitter.code().len(),
            heat,
            first_slot,
        };
        writer.place(&emitted.cells);
        for site in std::mem::take(&mut emitted.sites) {
            self.sites.push(site);
        }
        let block = Block::new(guest, emitted, placement);
        self.slots.store(block.slots.end, Ordering::Release);
        self.heats
            .fetch_add(u32::from(heat.is_some()), Ordering::Release);
        self.blocks.push(block);
        let key = (guest.rip, address, mode.bits());
        Some(self.index.add(key, id, self.block(id)))
    }

    fn has_room(&self, writer: &PoolWriter) -> bool {
        let bytes = writer.memory.limit();
        writer.memory.has_room(BLOCK_ROOM)
            && writer.cells + BLOCK_ROOM / BYTES_PER_CELL < bytes / BYTES_PER_CELL
            && self.site_count() < bytes / BYTES_PER_SITE
    }

    /// Links `jump` of block `from` to block `to` of the same page.
    pub(crate) fn link(&self, jump: Incoming, from: BlockId, to: BlockId) {
        let (source, target) = (self.block(from), self.block(to));
        let page = |block: &Block| block.origin.first / PAGE_SIZE;
        if page(source) == page(target) && source.mode == target.mode {
            self.writer().link(jump, to, target.entry);
        }
    }

    /// Makes `jump` lead to `rip` through the jump cache; if it is `relative`, to the RIP with that
    /// offset in its page.
    pub(crate) fn bridge(&self, jump: Incoming, rip: u64, user: bool, relative: bool) {
        let mut writer = self.writer();
        if self.has_room(&writer) {
            let base = writer.memory.next();
            let code = if relative {
                stubs::bridge_within(base, rip % PAGE_SIZE, user)
            } else {
                stubs::bridge(base, rip, user)
            };
            writer.memory.place(code.code());
            writer.memory.set_cell(jump.hole, base);
        }
    }

    /// Redirects all jumps to block `from` to block `to`, except jumps that need plain code.
    pub(crate) fn redirect(&self, from: BlockId, to: BlockId) {
        let entry = self.block(to).entry;
        self.writer().redirect(from, to, entry);
    }

    /// Removes hot block `id` from lookups, and excludes the accesses of `instructions` from
    /// groups. Threads in the block may continue. Returns the block that checks each access by
    /// itself.
    pub(crate) fn retire(
        &self,
        id: BlockId,
        instructions: impl IntoIterator<Item = u64>,
    ) -> Option<BlockId> {
        let block = self.block(id);
        let from = Scattered::origin(block.mode, block.origin);
        let each = instructions.into_iter().map(|rip| rip.wrapping_add(from));
        self.writer().scattered.extend(each);
        self.index.retire(id);
        let plain = self.find(block.origin.first, block.rip, block.mode, Sought::Plain)?;
        self.redirect(id, plain.id);
        Some(plain.id)
    }

    /// The block whose host code contains `pc`.
    pub(crate) fn block_at(&self, pc: u64) -> Option<BlockId> {
        let (mut low, mut high) = (0, self.block_count());
        while low < high {
            let middle = low.midpoint(high);
            let begins = |block: IndexedBlock| block.indirect_entry <= pc;
            if self.index.indexed(middle as BlockId).is_some_and(begins) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let id = low.checked_sub(1)? as u32;
        (pc < self.block(id).host_end).then_some(POOLED | id)
    }
}
