//! Blocks with their exit stubs in their saved form.
//!
//! A record has a block and all of its exit stubs; it is the unit that is decoded. `saved` makes records,
//! and `restored` decodes them.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::guest::decode::MAX_RUN;
use belljar_translate::guest::mode::{Mode, Origin};
use belljar_translate::host::allocation::Allocation;
use belljar_translate::host::block::Block;
use belljar_translate::host::emit::BlockSegment;
use belljar_translate::host::exit_stub::{BlockId, ExitStub, POOLED};
use bincode::{Decode, Encode};

use super::stubs::{BlockCode, SavedPages, SavedStub};
use super::{Codec, Places, SavedCodeError, check};
use crate::code::pool::Pool;

/// A block and its exit stubs.
#[derive(Encode, Decode)]
pub(in super::super) struct SavedRecord {
    block: SavedBlock,
    pub(super) stubs: Vec<SavedStub>,
}

/// The limits of numbers in records.
#[derive(Clone, Copy)]
pub(in super::super) struct Limits {
    /// Bytes of code.
    pub(super) code: usize,
    pub(super) cells: usize,
    pub(super) pages: usize,
    pub(super) features: usize,
    pub(super) heats: u32,
    pub(super) slots: u32,
}

impl SavedRecord {
    /// The record of block `id` of `pool`. `None` if an instruction is not the one in its page.
    pub(super) fn of(
        pool: &Pool,
        id: BlockId,
        places: Places,
        pages: SavedPages<'_>,
    ) -> Option<Self> {
        let block = pool.block(id);
        let stubs = pool.stubs_of(id);
        let stubs = stubs.map(|stub| SavedStub::of(stub, block, places, pages));
        Some(Self {
            stubs: stubs.collect::<Option<_>>()?,
            block: SavedBlock::of(block, places),
        })
    }

    /// The block and the exit stubs of block number `id` in `bytes`, in code memory at these places.
    ///
    /// # Errors
    /// If the bytes are no record, or a number is impossible.
    pub(in super::super) fn restored(
        bytes: &[u8],
        id: BlockId,
        limits: Limits,
        places: Places,
        pages: SavedPages<'_>,
    ) -> Result<(Block, Vec<ExitStub>), SavedCodeError> {
        let decoded = Codec::decode::<Self>(bytes);
        let (record, _) = decoded.map_err(|_| SavedCodeError::Table("encoding"))?;
        record.block.check(limits)?;
        let stubs = record.stubs.iter().map(|stub| {
            stub.check(limits)?;
            stub.restored(POOLED | id, &record.block, places, pages)
        });
        let stubs = stubs.collect::<Result<_, _>>()?;
        Ok((record.block.restored(places, pages)?, stubs))
    }
}

/// A block; host addresses are offsets.
#[derive(Encode, Decode)]
pub(super) struct SavedBlock {
    rip: u64,
    mode: Mode,
    hot: bool,
    address: u64,
    bytes: (u64, u64),
    end: u64,
    entry: u32,
    indirect_entry: u32,
    host_end: u32,
    counted: u16,
    rest: Vec<i32>,
    pub(super) offsets: Vec<i16>,
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

impl SavedBlock {
    fn of(block: &Block, places: Places) -> Self {
        let offset = |at| places.offset(at);
        Self {
            rip: block.rip,
            mode: block.mode,
            hot: block.hot,
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

    fn check(&self, limits: Limits) -> Result<(), SavedCodeError> {
        let count = self.offsets.len();
        let is_instruction = |number: u16| usize::from(number) < count;
        let in_code = self.indirect_entry <= self.entry
            && self.entry <= self.host_end
            && self.host_end as usize <= limits.code;
        let page = self.address / PAGE_SIZE;
        let slots = self.slots.0 <= self.slots.1 && self.slots.1 <= limits.slots;
        check(
            in_code
                && (1..=MAX_RUN).contains(&count)
                && usize::from(self.counted) <= count
                && (self.rest.is_empty() || self.rest.len() == usize::from(self.counted))
                && page < limits.pages as u64
                && usize::from(self.mode.features) < limits.features.max(1)
                && self.heat.is_none_or(|heat| heat < limits.heats)
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
    pub(super) fn rip_of(&self, index: u16) -> Option<u64> {
        let offset = self.offsets.get(usize::from(index))?;
        Some(self.rip.wrapping_add_signed(i64::from(*offset)))
    }

    pub(super) fn code(&self) -> BlockCode {
        BlockCode {
            address: self.address,
            mode: self.mode,
            allocation: self.allocation,
        }
    }

    fn restored(self, places: Places, pages: SavedPages<'_>) -> Result<Block, SavedCodeError> {
        let masked = self.masked.iter().map(|&number| {
            let instruction = pages.instruction(self.code(), self.rip_of(number)?)?;
            Some((number, instruction))
        });
        let masked: Option<Vec<_>> = masked.collect();
        let at = |offset| places.at(offset);
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
