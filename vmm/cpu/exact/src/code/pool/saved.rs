//! A pool as bytes, and as the pool that they describe.
//!
//! Translated code is position-independent, so it is saved as it is; host addresses in tables are saved as
//! offsets from the beginning of the code memory. Instructions are not saved: they are decoded again from
//! the page's bytes. A pool is only made from bytes that [`seal`](super::seal) has authenticated and whose
//! identity is the pool's; every number in them is checked nevertheless. Called by `pool` when the first
//! vCPU joins, and at the end of a run.

use std::sync::atomic::Ordering;

use belljar_cpu::PAGE_SIZE;
use belljar_translate::context::{POOL_HEATS, POOL_SLOTS};
use belljar_translate::guest::decode::MAX_RUN;
use belljar_translate::guest::features::Features;
use belljar_translate::guest::mode::{Mode, Origin};
use belljar_translate::host::allocation::Allocation;
use belljar_translate::host::block::{Block, Incoming};
use belljar_translate::host::cache::CELL_BYTES;
use belljar_translate::host::emit::BlockSegment;
use belljar_translate::host::exit_stub::{BlockId, POOLED};
use bincode::{Decode, Encode};

use super::{BYTES_PER_CELL, PageBytes, Pool};

/// Exit stubs in their saved form.
mod stubs;
#[cfg(test)]
mod tests;

use stubs::{BlockCode, SavedPages, SavedStub};

/// The largest part of each table that a saved pool may use, as a divisor: a run needs room for its own code.
const SHARE: usize = 2;
/// The same for code.
const CODE_SHARE: usize = 4;

/// Errors of a saved pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedCodeError {
    /// The bytes are not those that were written with this key.
    #[error("it is damaged, or was not written by this user on this machine")]
    Seal,
    /// They belong to another build, host, processor or time model.
    #[error("it is of another build, host processor, guest processor or time model")]
    Identity,
    /// A table has an impossible value.
    #[error("its {0} are impossible")]
    Table(&'static str),
    /// Too little room would be left.
    #[error("it is larger than its limit, a quarter of the code that nodes share")]
    Full,
}

/// A page, by the bytes of its content and its linear page number.
#[derive(Encode, Decode)]
struct SavedPage {
    place: u64,
    /// Number of the content.
    content: u32,
}

/// A jump that is linked to a block.
#[derive(Encode, Decode)]
struct SavedLink {
    to: u32,
    /// Number of its cell.
    cell: u32,
    /// Offset of the exit stub.
    stub: u32,
    plain: bool,
}

/// A block; host addresses are offsets.
#[derive(Encode, Decode)]
struct SavedBlock {
    rip: u64,
    mode: Mode,
    hot: bool,
    retired: bool,
    address: u64,
    bytes: (u64, u64),
    end: u64,
    entry: u32,
    indirect_entry: u32,
    host_end: u32,
    counted: u16,
    rest: Vec<i32>,
    offsets: Vec<i16>,
    segments: Vec<BlockSegment>,
    host_map: Vec<(u32, u16)>,
    /// Numbers of its instructions with masked memory operands.
    masked: Vec<u16>,
    heat: Option<u32>,
    slots: (u32, u32),
    members: Vec<Vec<u64>>,
    loops: bool,
    allocation: Allocation,
    dead_flags: u32,
}

/// A pool.
#[derive(Encode, Decode)]
pub(super) struct SavedPool {
    /// All code, from the beginning of the code memory.
    code: Vec<u8>,
    /// For each cell, the offset of its target.
    cells: Vec<u32>,
    /// The bytes of distinct pages, one after another.
    contents: Vec<u8>,
    pages: Vec<SavedPage>,
    features: Vec<Features>,
    scattered: Vec<u64>,
    blocks: Vec<SavedBlock>,
    stubs: Vec<SavedStub>,
    links: Vec<SavedLink>,
    heats: u32,
    slots: u32,
}

/// Refuses a table unless `holds`.
fn check(holds: bool, table: &'static str) -> Result<(), SavedCodeError> {
    holds.then_some(()).ok_or(SavedCodeError::Table(table))
}

impl SavedPool {
    /// The state of `pool`. `None` if an instruction cannot be decoded from its page.
    pub(super) fn of(pool: &Pool) -> Option<Self> {
        let writer = pool.writer();
        let start = pool.range.start;
        let offset = |at: u64| (at - start) as u32;
        let cell_of = |at: u64| ((at - writer.memory.cell(0)) / CELL_BYTES as u64) as u32;
        let cells = (0..writer.cells).map(|number| {
            let cell = writer.memory.cell(number);
            offset(writer.memory.word(cell))
        });
        let links = writer.incoming.iter().flat_map(|(&to, jumps)| {
            jumps.iter().map(move |jump| SavedLink {
                to,
                cell: cell_of(jump.hole),
                stub: offset(jump.stub),
                plain: jump.plain,
            })
        });
        let mut saved = Self {
            code: writer.memory.bytes(),
            cells: cells.collect(),
            contents: Vec::new(),
            pages: Vec::new(),
            features: writer.features.clone(),
            scattered: writer.scattered.iter().copied().collect(),
            blocks: Vec::with_capacity(pool.blocks.count()),
            stubs: Vec::with_capacity(pool.sites.count()),
            links: links.collect(),
            heats: pool.heats(),
            slots: pool.slots(),
        };
        for (page, place) in pool.contents.each() {
            saved.add_page(page, place);
        }
        for id in 0..pool.blocks.count() {
            let block = pool.block(id as BlockId);
            let retired = pool.index.is_retired(id as BlockId);
            saved.blocks.push(SavedBlock::of(block, retired, start));
        }
        let stubs = (0..pool.sites.count()).map(|id| {
            let stub = pool.site(id as u32);
            let block = pool.block(stub.block);
            SavedStub::of(stub, block, start, cell_of, saved.pages())
        });
        saved.stubs = stubs.collect::<Option<_>>()?;
        Some(saved)
    }

    fn pages(&self) -> SavedPages<'_> {
        SavedPages {
            pages: &self.pages,
            contents: self.contents.as_chunks().0,
            features: &self.features,
        }
    }

    /// Adds a page.
    fn add_page(&mut self, bytes: &PageBytes, place: u64) {
        let each = self.contents.as_chunks::<{ PAGE_SIZE as usize }>().0;
        let known = each.iter().rposition(|known| known == bytes);
        let content = known.unwrap_or(each.len()) as u32;
        if known.is_none() {
            self.contents.extend_from_slice(bytes);
        }
        self.pages.push(SavedPage { place, content });
    }

    /// Fills `pool`, which has no blocks.
    ///
    /// # Errors
    /// [`SavedCodeError`] if a value is impossible; the pool must then not be used.
    pub(super) fn fill(mut self, pool: &Pool) -> Result<(), SavedCodeError> {
        self.check_sizes(pool)?;
        let mut writer = pool.writer();
        let start = pool.range.start;
        let placed = writer.memory.used();
        check(
            self.code.len() >= placed && self.code[..placed] == writer.memory.bytes()[..],
            "shared parts of the code",
        )?;
        writer.memory.place(&self.code[placed..]);
        for (number, &target) in self.cells.iter().enumerate() {
            let cell = writer.memory.cell(number);
            writer.memory.set_cell(cell, start + u64::from(target));
        }
        writer.cells = self.cells.len();
        writer.features.clone_from(&self.features);
        writer.scattered = self.scattered.iter().copied().collect();
        let pages = self.pages();
        for page in &self.pages {
            let bytes = &pages.contents[page.content as usize];
            pool.contents.restore(bytes, page.place);
        }
        for stub in &self.stubs {
            let block = &self.blocks[(stub.block & !POOLED) as usize];
            let cell = |number| writer.memory.cell(number as usize);
            pool.sites.push(stub.restored(block, start, cell, pages)?);
        }
        let mut blocks = std::mem::take(&mut self.blocks);
        let pages = self.pages();
        for (id, saved) in (0..).zip(blocks.drain(..)) {
            let is_retired = saved.retired;
            let block = saved.restored(start, pages)?;
            let key = (block.rip, block.origin.first, block.mode.bits());
            pool.blocks.push(block);
            pool.index.add(key, POOLED | id, pool.block(id));
            if is_retired {
                pool.index.retire(id);
            }
        }
        for link in &self.links {
            let jump = Incoming {
                hole: writer.memory.cell(link.cell as usize),
                stub: start + u64::from(link.stub),
                plain: link.plain,
                wide: false,
            };
            writer.incoming.entry(link.to).or_default().push(jump);
        }
        pool.heats.store(self.heats, Ordering::Release);
        pool.slots.store(self.slots, Ordering::Release);
        Ok(())
    }

    /// True if it leaves room for more in `pool`.
    pub(super) fn fits(&self, pool: &Pool) -> bool {
        let room = pool.writer().memory.limit();
        self.code.len() <= room / CODE_SHARE
            && self.cells.len() <= room / BYTES_PER_CELL / SHARE
            && self.pages.len() <= room / PAGE_SIZE as usize / SHARE
            && self.heats as usize <= POOL_HEATS / SHARE
            && self.slots as usize <= POOL_SLOTS / SHARE
    }

    /// Checks everything that does not need decoded instructions.
    fn check_sizes(&self, pool: &Pool) -> Result<(), SavedCodeError> {
        if !self.fits(pool) {
            return Err(SavedCodeError::Full);
        }
        let contents = self.contents.len() / PAGE_SIZE as usize;
        let code = self.code.len() as u64;
        let in_code = |at: u32| u64::from(at) < code;
        check(self.cells.iter().all(|&cell| in_code(cell)), "jump targets")?;
        check(
            self.contents.len().is_multiple_of(PAGE_SIZE as usize),
            "pages",
        )?;
        let pages = self
            .pages
            .iter()
            .all(|page| (page.content as usize) < contents);
        check(pages, "pages")?;
        check(self.features.len() <= Mode::FEATURE_SETS, "features")?;
        check(self.blocks.len() < POOLED as usize, "blocks")?;
        check(self.stubs.len() < POOLED as usize, "exits")?;
        let mut before = 0;
        for block in &self.blocks {
            check(block.indirect_entry >= before, "blocks")?;
            block.check(self)?;
            before = block.host_end;
        }
        let blocks = self.blocks.len() as u32;
        let is_block = |id: u32| id & POOLED != 0 && id & !POOLED < blocks;
        for stub in &self.stubs {
            check(is_block(stub.block), "exits")?;
            stub.check(self.code.len(), self.cells.len(), self.slots)?;
        }
        let links = self.links.iter().all(|link| {
            is_block(link.to) && (link.cell as usize) < self.cells.len() && in_code(link.stub)
        });
        check(links, "links")
    }
}

impl SavedBlock {
    fn of(block: &Block, retired: bool, start: u64) -> Self {
        let offset = |at: u64| (at - start) as u32;
        Self {
            rip: block.rip,
            mode: block.mode,
            hot: block.hot,
            retired,
            address: block.origin.first,
            bytes: block.bytes,
            end: block.end,
            entry: offset(block.entry),
            indirect_entry: offset(block.indirect_entry),
            host_end: offset(block.host_end),
            counted: block.counted,
            rest: block.rest.to_vec(),
            offsets: block.offsets.to_vec(),
            segments: block.segments.to_vec(),
            host_map: block.host_map.to_vec(),
            masked: block.masked.iter().map(|&(number, _)| number).collect(),
            heat: block.heat,
            slots: (block.slots.start, block.slots.end),
            members: block.members.iter().map(|each| each.to_vec()).collect(),
            loops: block.loops,
            allocation: block.allocation,
            dead_flags: block.dead_flags,
        }
    }

    fn check(&self, pool: &SavedPool) -> Result<(), SavedCodeError> {
        let count = self.offsets.len();
        let is_instruction = |number: u16| usize::from(number) < count;
        let in_code = self.indirect_entry <= self.entry
            && self.entry <= self.host_end
            && self.host_end as usize <= pool.code.len();
        let page = self.address / PAGE_SIZE;
        let slots = self.slots.0 <= self.slots.1 && self.slots.1 <= pool.slots;
        check(
            in_code
                && (1..=MAX_RUN).contains(&count)
                && usize::from(self.counted) <= count
                && (self.rest.is_empty() || self.rest.len() == usize::from(self.counted))
                && page < pool.pages.len() as u64
                && usize::from(self.mode.features) < pool.features.len().max(1)
                && self.heat.is_none_or(|heat| heat < pool.heats)
                && slots
                && self.members.len() == (self.slots.1 - self.slots.0) as usize
                && self
                    .host_map
                    .iter()
                    .all(|&(_, number)| is_instruction(number))
                && self
                    .segments
                    .iter()
                    .all(|segment| segment.start <= count as u16)
                && self.masked.iter().all(|&number| is_instruction(number))
                && self.allocation.is_possible(),
            "blocks",
        )
    }

    /// RIP of instruction `index`.
    fn rip_of(&self, index: u16) -> Option<u64> {
        let offset = self.offsets.get(usize::from(index))?;
        Some(self.rip.wrapping_add_signed(i64::from(*offset)))
    }

    fn code(&self) -> BlockCode {
        BlockCode {
            address: self.address,
            mode: self.mode,
            allocation: self.allocation,
        }
    }

    fn restored(self, start: u64, pages: SavedPages<'_>) -> Result<Block, SavedCodeError> {
        let masked = self.masked.iter().map(|&number| {
            let instruction = pages.instruction(self.code(), self.rip_of(number)?)?;
            Some((number, instruction))
        });
        let masked: Option<Vec<_>> = masked.collect();
        let at = |offset: u32| start + u64::from(offset);
        Ok(Block {
            rip: self.rip,
            mode: self.mode,
            hot: self.hot,
            origin: Origin {
                first: self.address,
                second: None,
            },
            bytes: self.bytes,
            end: self.end,
            entry: at(self.entry),
            indirect_entry: at(self.indirect_entry),
            host_end: at(self.host_end),
            counted: self.counted,
            rest: self.rest.into(),
            offsets: self.offsets.into(),
            segments: self.segments.into(),
            host_map: self.host_map.into(),
            masked: masked.ok_or(SavedCodeError::Table("instructions"))?.into(),
            incoming: Vec::new(),
            heat: self.heat,
            slots: self.slots.0..self.slots.1,
            members: self.members.into_iter().map(Into::into).collect(),
            loops: self.loops,
            allocation: self.allocation,
            dead_flags: self.dead_flags,
            valid: true,
        })
    }
}
