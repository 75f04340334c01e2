//! Context memory: RAM that the driver lends to the card, at addresses of the card's own.
//!
//! The card keeps its contexts itself; of this memory it uses the two tables that the driver also writes: translation entries (MTT) and
//! memory keys (dMPT). Commands map and unmap pieces; queues and regions translate through the tables.

use std::collections::BTreeMap;

use belljar_cpu::GuestRam;
use serde::{Deserialize, Serialize};

use crate::memory;

const PAGE: u64 = 4096;
/// The largest number of mapped pieces: the driver maps pieces of 256 KiB.
const MOST_PIECES: usize = 65_536;

/// A mapped piece: its physical address and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Piece {
    addr: u64,
    bytes: u64,
}

/// Mapped pieces, and the addresses of the tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LentMemory {
    /// By address in the card's space.
    pieces: BTreeMap<u64, Piece>,
    /// Address of the first translation entry.
    pub(crate) mtt: u64,
    /// Address of the first memory key, and the binary logarithm of their number.
    pub(crate) keys: (u64, u8),
}

impl LentMemory {
    /// Maps 2^`log` pages at `addr` to `at`. Returns false if there are too many pieces, or if they would overlap.
    pub(crate) fn map(&mut self, at: u64, addr: u64, log: u32) -> bool {
        let bytes = PAGE << log.min(30);
        let before = self.pieces.range(..at.saturating_add(bytes)).next_back();
        let overlaps = before.is_some_and(|(start, piece)| start + piece.bytes > at);
        if self.pieces.len() >= MOST_PIECES || overlaps || at.checked_add(bytes).is_none() {
            return false;
        }
        self.pieces.insert(at, Piece { addr, bytes });
        true
    }

    /// Unmaps the pieces that begin in `pages` pages from `at` on.
    pub(crate) fn unmap(&mut self, at: u64, pages: u64) {
        let end = at.saturating_add(pages.saturating_mul(PAGE));
        self.pieces.retain(|start, _| !(at..end).contains(start));
    }

    /// The physical address of `at`.
    fn translate(&self, at: u64) -> Option<u64> {
        let (start, piece) = self.pieces.range(..=at).next_back()?;
        let offset = at - start;
        (offset < piece.bytes).then(|| piece.addr.wrapping_add(offset))
    }

    /// The page that translation entry `index` after byte `offset` of the table has.
    pub(crate) fn page(&self, ram: &GuestRam, offset: u64, index: u64) -> Option<u64> {
        let at = self
            .mtt
            .checked_add(offset)?
            .checked_add(index.checked_mul(8)?)?;
        let entry = memory::read_u64(ram, self.translate(at)?)?;
        (entry & 1 == 1).then_some(entry & !7)
    }

    /// The physical address of memory key `index`. Drivers count on beyond the table, so that an index is not used again soon; the low
    /// bits are the entry.
    pub(crate) fn key(&self, index: u32) -> Option<u64> {
        let (base, log) = self.keys;
        let entry = u64::from(index) & ((1 << log.min(32)) - 1);
        self.translate(base.checked_add(entry * 64)?)
    }
}

/// Memory of a queue: pages of equal size, by translation entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Buffer {
    /// Byte offset of its first translation entry.
    pub(crate) mtt: u64,
    /// Binary logarithm of its pages' size.
    pub(crate) page_shift: u8,
    /// Offset of its first byte in the first page.
    pub(crate) start: u64,
}

impl Buffer {
    /// The physical address of byte `at`, and the bytes up to the end of its page.
    fn place(&self, lent: &LentMemory, ram: &GuestRam, at: u64) -> Option<(u64, u64)> {
        let shift = u32::from(self.page_shift.clamp(12, 40));
        let at = at.checked_add(self.start)?;
        let page = lent.page(ram, self.mtt, at >> shift)?;
        let within = at & ((1 << shift) - 1);
        Some((page.wrapping_add(within), (1 << shift) - within))
    }

    /// Reads bytes from `at` on.
    pub(crate) fn read(
        &self,
        lent: &LentMemory,
        ram: &GuestRam,
        mut at: u64,
        mut bytes: &mut [u8],
    ) -> Option<()> {
        while !bytes.is_empty() {
            let (addr, left) = self.place(lent, ram, at)?;
            let here = bytes.len().min(left as usize);
            let (now, later) = bytes.split_at_mut(here);
            memory::read(ram, addr, now)?;
            bytes = later;
            at += here as u64;
        }
        Some(())
    }

    /// Writes bytes from `at` on.
    pub(crate) fn write(
        &self,
        lent: &LentMemory,
        ram: &GuestRam,
        mut at: u64,
        mut bytes: &[u8],
    ) -> Option<()> {
        while !bytes.is_empty() {
            let (addr, left) = self.place(lent, ram, at)?;
            let (now, later) = bytes.split_at(bytes.len().min(left as usize));
            memory::write(ram, addr, now)?;
            bytes = later;
            at += now.len() as u64;
        }
        Some(())
    }
}
