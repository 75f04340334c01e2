//! The tables of a saved pool: everything besides code, pages' bytes and blocks.
//!
//! They are decoded as a whole when a pool is restored. `saved` fills and checks them, and
//! `restored` keeps them.

use std::collections::BTreeMap;

use belljar_cpu::PAGE_SIZE;
use belljar_translate::context::{POOL_HEATS, POOL_SLOTS};
use belljar_translate::guest::features::Features;
use belljar_translate::guest::mode::Mode;
use belljar_translate::host::block::Incoming;
use belljar_translate::host::exit_stub::BlockId;
use bincode::{Decode, Encode};

use super::Places;
use crate::code::pool::index::IndexedBlock;
use crate::code::pool::{BYTES_PER_CELL, PageBytes};

/// The largest part of each table that a saved pool may use, as a divisor: a run needs room for its own code.
const SHARE: usize = 2;
/// The same for code.
const CODE_SHARE: usize = 4;

/// A page, by the bytes of its content and its linear page number.
#[derive(Encode, Decode)]
pub(super) struct SavedPage {
    pub(super) place: u64,
    /// Number of the content.
    pub(super) content: u32,
}

/// A jump that is linked to a block.
#[derive(Encode, Decode)]
pub(super) struct SavedLink {
    pub(super) to: u32,
    /// Number of its cell.
    pub(super) cell: u32,
    /// Offset of the exit stub.
    pub(super) stub: u32,
    pub(super) plain: bool,
}

/// A block's line in the index, and its place among the records.
#[derive(Clone, Encode, Decode)]
pub(in super::super) struct SavedLine {
    pub(super) rip: u64,
    /// Address in the pool.
    pub(super) address: u64,
    pub(super) mode: Mode,
    pub(super) hot: bool,
    pub(super) retired: bool,
    /// Offsets of its entries.
    pub(super) entry: u32,
    pub(super) indirect_entry: u32,
    /// Bytes of its record, and number of its exit stubs.
    pub(super) record: u32,
    pub(super) stubs: u32,
}

/// Everything besides code, pages and blocks.
#[derive(Encode, Decode)]
pub(super) struct SavedTables {
    /// For each cell, the offset of its target.
    pub(super) cells: Vec<u32>,
    pub(super) pages: Vec<SavedPage>,
    pub(super) features: Vec<Features>,
    pub(super) scattered: Vec<u64>,
    pub(super) lines: Vec<SavedLine>,
    pub(super) links: Vec<SavedLink>,
    pub(super) heats: u32,
    pub(super) slots: u32,
}

impl SavedTables {
    /// True if they leave room for more in a pool with `room` bytes of code, of which they describe `code`.
    pub(super) fn fits(&self, code: usize, room: usize) -> bool {
        code <= room / CODE_SHARE
            && self.cells.len() <= room / BYTES_PER_CELL / SHARE
            && self.pages.len() <= room / PAGE_SIZE as usize / SHARE
            && self.heats as usize <= POOL_HEATS / SHARE
            && self.slots as usize <= POOL_SLOTS / SHARE
    }
}

impl SavedPage {
    /// The page with these `bytes`, which are added to `contents` unless they are `known` by their address:
    /// the pool has equal pages once.
    pub(super) fn add(
        bytes: &PageBytes,
        place: u64,
        contents: &mut Vec<u8>,
        known: &mut BTreeMap<usize, u32>,
    ) -> Self {
        let next = known.len() as u32;
        let content = *known.entry(bytes.as_ptr().addr()).or_insert_with(|| {
            contents.extend_from_slice(bytes);
            next
        });
        Self { place, content }
    }
}

impl SavedLine {
    /// The line of a block of this `mode`; the caller sets the sizes.
    pub(super) fn of(block: &IndexedBlock, mode: Mode, places: Places) -> Self {
        Self {
            rip: block.key.0,
            address: block.key.1,
            mode,
            hot: block.hot,
            retired: block.retired,
            entry: places.offset(block.entry),
            indirect_entry: places.offset(block.indirect_entry),
            record: 0,
            stubs: 0,
        }
    }

    /// Its line in the index of a pool at these places.
    pub(super) fn indexed(&self, places: Places) -> IndexedBlock {
        IndexedBlock {
            key: (self.rip, self.address, self.mode.bits()),
            hot: self.hot,
            retired: self.retired,
            entry: places.at(self.entry),
            indirect_entry: places.at(self.indirect_entry),
        }
    }

    /// The mode of its block.
    pub(in super::super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Bytes of its record, and number of its exit stubs.
    pub(in super::super) fn sizes(&self) -> (u32, u32) {
        (self.record, self.stubs)
    }
}

impl SavedLink {
    pub(super) fn of(to: BlockId, jump: Incoming, places: Places) -> Self {
        Self {
            to,
            cell: places.cell(jump.hole),
            stub: places.offset(jump.stub),
            plain: jump.plain,
        }
    }

    pub(super) fn jump(&self, places: Places) -> Incoming {
        Incoming {
            hole: places.at_cell(self.cell),
            stub: places.at(self.stub),
            plain: self.plain,
            wide: false,
        }
    }
}
