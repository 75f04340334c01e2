//! Watchpoints of a debugger: runs end after instructions that access watched bytes.
//!
//! A page with watched bytes is in no table of the fast path, as pages with code are in none for writing. So each
//! access to it comes to `access`, and all other accesses stay fast. Watched bytes are found by their guest-physical
//! address, whatever the mapping. It is looked up in the page tables of the watched process when a run begins, at each
//! change of CR3, and when the process accesses the page: before its first access, the page may not exist. An instruction
//! with such an access runs by itself, and the exit follows it.

use belljar_cpu::{Access, Exit, PAGE_SIZE, SystemRegisters, WatchKind, Watchpoint};
use belljar_translate::guest::mode::Pace;
use belljar_translate::host::exit_stub::BlockId;

use crate::memory::buffers::Buffers;
use crate::memory::piece::Piece;
use crate::processor::mmu::{TranslationRequest, translate};
use crate::processor::vcpu::ExactVcpu;

const PAGE_MASK: u64 = !(PAGE_SIZE - 1);
/// Bits of CR3 with the address of the page tables.
const TABLES: u64 = 0x000f_ffff_ffff_f000;

/// The part of a watchpoint in one page.
#[derive(Clone, Copy, Debug)]
struct WatchedPart {
    number: u32,
    space: u64,
    linear: u64,
    bytes: u64,
    kind: WatchKind,
    /// The first byte's address; `None` while the process has no such page.
    physical: Option<u64>,
}

/// An access to watched bytes.
#[derive(Clone, Copy, Debug)]
struct WatchedAccess {
    number: u32,
    write: bool,
    /// Instructions retired before the one that accesses.
    before: u64,
}

/// The watchpoints of a vCPU.
#[derive(Debug, Default)]
pub(crate) struct Watchpoints {
    parts: Vec<WatchedPart>,
    /// The access that the next exit reports.
    seen: Option<WatchedAccess>,
    /// True if the present access has found a new page, so that the block that checked ranges before is left.
    moved: bool,
    /// True if the present instruction runs by itself.
    alone: bool,
    /// Watched buffers of processes.
    pub(crate) buffers: Buffers,
}

/// True if two ranges, each a start and a length, have a byte in common.
fn overlap(first: (u64, u64), second: (u64, u64)) -> bool {
    second.0.wrapping_sub(first.0) < first.1 || first.0.wrapping_sub(second.0) < second.1
}

impl WatchedPart {
    fn touches(&self, physical: u64, bytes: u64, write: bool) -> bool {
        self.kind.stops_at(write)
            && self
                .physical
                .is_some_and(|own| overlap((own, self.bytes), (physical, bytes)))
    }
}

impl Watchpoints {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && !self.buffers.is_active
    }

    fn touched(&self, physical: u64, bytes: u64, write: bool) -> Option<u32> {
        let mut parts = self.parts.iter();
        let touched = parts.find(|part| part.touches(physical, bytes, write));
        touched.map(|part| part.number)
    }

    fn touched_by(&self, pieces: &[Piece; 2], write: bool) -> Option<u32> {
        let mut present = pieces.iter().filter(|piece| piece.bytes > 0);
        present.find_map(|piece| self.touched(piece.physical, piece.bytes as u64, write))
    }
}

/// The parts of a watchpoint, each in one page.
fn parts(number: u32, point: &Watchpoint) -> impl Iterator<Item = WatchedPart> {
    let point = *point;
    let mut done = 0;
    std::iter::from_fn(move || {
        let linear = point.linear.wrapping_add(done);
        let bytes = (PAGE_SIZE - linear % PAGE_SIZE).min(point.bytes - done);
        done += bytes;
        (bytes > 0).then_some(WatchedPart {
            number,
            space: point.space & TABLES,
            linear,
            bytes,
            kind: point.kind,
            physical: None,
        })
    })
}

impl ExactVcpu {
    /// Ends runs after accesses to these ranges from now on; they replace earlier ones.
    pub(crate) fn begin_watchpoints(&mut self, points: &[Watchpoint]) {
        self.watchpoints = Watchpoints {
            parts: (0..)
                .zip(points)
                .flat_map(|(number, point)| parts(number, point))
                .collect(),
            buffers: std::mem::take(&mut self.watchpoints.buffers),
            ..Watchpoints::default()
        };
        self.close_pages();
        self.find_watched_pages();
    }

    /// Looks up the pages of all watchpoints.
    pub(crate) fn find_watched_pages(&mut self) {
        let mut is_new = false;
        for index in 0..self.watchpoints.parts.len() {
            let part = self.watchpoints.parts[index];
            let system = SystemRegisters {
                cr3: part.space,
                ..self.state.system
            };
            let request = TranslationRequest {
                access: Access::Read,
                user: false,
                mark: false,
            };
            let physical = translate(&self.memory, &system, part.linear, request).ok();
            is_new |= physical.is_some() && physical != part.physical;
            self.watchpoints.parts[index].physical = physical;
        }
        if is_new {
            self.close_pages();
        }
    }

    /// Discards translations, some of which are of watched pages.
    pub(super) fn close_pages(&mut self) {
        self.flush_lines();
        for view in &mut self.context.views {
            view.flush_tlb();
        }
        self.flush_slots();
    }

    /// Notes that `linear` is mapped to `physical` in the present address space.
    pub(crate) fn note_watched_page(&mut self, linear: u64, physical: u64) {
        let space = self.state.system.cr3 & TABLES;
        let mut is_new = false;
        for part in &mut self.watchpoints.parts {
            if part.space == space && part.linear & PAGE_MASK == linear & PAGE_MASK {
                let own = physical & PAGE_MASK | part.linear & !PAGE_MASK;
                is_new |= part.physical != Some(own);
                part.physical = Some(own);
            }
        }
        if is_new {
            self.watchpoints.moved = true;
            self.close_pages();
        }
    }

    /// True if accesses to any of `bytes` bytes from `linear` on, at `physical`, must be seen.
    pub(crate) fn is_closed(
        &mut self,
        linear: u64,
        physical: u64,
        bytes: u64,
        write: bool,
    ) -> bool {
        if self.has_buffer(linear, bytes, write) {
            return true;
        }
        let space = self.state.system.cr3 & TABLES;
        self.watchpoints.parts.iter().any(|part| {
            let page = |at: u64| (at & PAGE_MASK, PAGE_SIZE);
            let is_own = part.space == space && overlap(page(part.linear), (linear, bytes));
            let is_there = |own| overlap(page(own), (physical, bytes));
            // Ranges that are open for stores are so for loads.
            let is_seen = write || part.kind != WatchKind::Write;
            is_seen && (is_own || part.physical.is_some_and(is_there))
        })
    }

    /// Begins an access by an instruction of `block`.
    pub(crate) fn begin_watched(&mut self, block: BlockId) {
        self.watchpoints.moved = false;
        self.watchpoints.alone = matches!(self.store.block(block).mode.pace, Pace::Piece(0));
    }

    /// True if the instruction that makes this access must first run by itself.
    pub(crate) fn wants_alone(&self, pieces: &[Piece; 2], linear: u64, write: bool) -> bool {
        let points = &self.watchpoints;
        let is_touched = || {
            points.touched_by(pieces, write).is_some() || self.touches_buffer(pieces, linear, write)
        };
        !points.alone && (points.moved || is_touched())
    }

    /// Notes an access to watched bytes, for the exit after its instruction.
    pub(crate) fn note_watched(&mut self, pieces: &[Piece; 2], linear: u64, write: bool) {
        self.note_buffer(pieces, linear, write);
        if let Some(number) = self.watchpoints.touched_by(pieces, write) {
            let before = self.retired_now();
            self.watchpoints.seen.get_or_insert(WatchedAccess {
                number,
                write,
                before,
            });
        }
    }

    /// Attributes a noted access to instruction `index` of a block that runs; true if there is one.
    pub(crate) fn place_watched(&mut self, block: BlockId, index: u16) -> bool {
        if self.watchpoints.seen.is_none() && !self.watchpoints.buffers.has_seen() {
            return false;
        }
        let charged = self.charge_from(block, index).instructions;
        let before = self.retired_now().wrapping_sub(charged as u64);
        if let Some(seen) = &mut self.watchpoints.seen {
            seen.before = seen.before.min(before);
        }
        self.watchpoints.buffers.seen_before(before);
        true
    }

    /// The exit after an instruction that accessed watched bytes. With accesses to both, a buffer comes first.
    pub(crate) fn watchpoint_exit(&mut self) -> Option<Exit> {
        let now = self.retired_now();
        if self.watchpoints.buffers.take_seen(now) {
            return Some(Exit::Buffer);
        }
        let seen = self.watchpoints.seen.take_if(|seen| seen.before < now)?;
        Some(Exit::Watchpoint {
            number: seen.number,
            write: seen.write,
        })
    }

    /// The first watchpoint for stores with any of the bytes that a device has written.
    pub(crate) fn watchpoint_in(&mut self, physical: u64, bytes: u64) -> Option<u32> {
        self.find_watched_pages();
        self.watchpoints.touched(physical, bytes, true)
    }
}
