//! Watched buffers: runs end after instructions by which a process accesses its own watched buffers.
//!
//! A page with bytes of a watched buffer is in no table of the fast path of user mode while its address space and a thread
//! that is not exempt run. Pages that exempt threads opened are closed when another thread runs. The mechanism of accesses
//! is that of `watchpoints`.

use belljar_cpu::{
    BufferAccess, BufferRanges, PAGE_SIZE, WatchKind, WatchedBuffer, WatchedBuffers,
};

use crate::memory::piece::Piece;
use crate::processor::vcpu::ExactVcpu;

const PAGE_MASK: u64 = !(PAGE_SIZE - 1);
/// Bits of CR3 with the address of the page tables.
const TABLES: u64 = 0x000f_ffff_ffff_f000;
/// Most pages that are closed one by one.
const FEW_PAGES: u64 = 8;

/// An access that the next exit reports.
#[derive(Clone, Copy, Debug)]
struct SeenAccess {
    access: BufferAccess,
    /// Instructions retired before the one that accesses.
    before: u64,
}

/// The watched buffers of a vCPU.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    watched: WatchedBuffers,
    /// True if the present address space has watched buffers, and the present thread is not exempt.
    pub(crate) is_active: bool,
    /// True if an exempt thread may have opened a page with a watched buffer.
    is_open: bool,
    seen: Option<SeenAccess>,
    reported: Option<BufferAccess>,
}

impl Buffers {
    pub(crate) fn has_seen(&self) -> bool {
        self.seen.is_some()
    }

    /// Attributes a noted access to an instruction before which `before` have retired.
    pub(crate) fn seen_before(&mut self, before: u64) {
        if let Some(seen) = &mut self.seen {
            seen.before = seen.before.min(before);
        }
    }

    /// Takes the noted access for an exit, if its instruction is among the `now` that have retired.
    pub(crate) fn take_seen(&mut self, now: u64) -> bool {
        match self.seen.take_if(|seen| seen.before < now) {
            Some(seen) => {
                self.reported = Some(seen.access);
                true
            }
            None => false,
        }
    }

    /// The access of the last exit.
    pub(crate) fn reported(&self) -> Option<BufferAccess> {
        self.reported
    }
}

impl ExactVcpu {
    fn present_space(&self) -> u64 {
        self.state.system.cr3 & TABLES
    }

    fn present_buffers(&self) -> Option<&BufferRanges> {
        self.watchpoints
            .buffers
            .watched
            .spaces
            .get(&self.present_space())
    }

    /// Ends runs after accesses to these buffers from now on; they replace earlier ones.
    pub(crate) fn begin_buffers(&mut self, buffers: &WatchedBuffers) {
        let space = self.present_space();
        let own = &mut self.watchpoints.buffers;
        let before = std::mem::replace(&mut own.watched, buffers.clone());
        let (old, new) = (before.spaces.get(&space), buffers.spaces.get(&space));
        let is_new = |buffer: &&WatchedBuffer| old.is_none_or(|old| !old.contains(buffer));
        let fresh: Vec<WatchedBuffer> = new
            .map_or(&[][..], BufferRanges::buffers)
            .iter()
            .filter(is_new)
            .copied()
            .collect();
        if !fresh.is_empty() {
            self.close_buffers(&fresh);
        }
        self.settle_buffers();
    }

    /// Takes a change of the address space, of the thread or of the watched buffers.
    pub(crate) fn settle_buffers(&mut self) {
        if self.watchpoints.buffers.watched.spaces.is_empty() {
            self.watchpoints.buffers.is_active = false;
            return;
        }
        let thread = (self.present_space(), self.context.fs_base);
        let is_exempt = self.watchpoints.buffers.watched.exempt.contains(&thread);
        let is_active = !is_exempt && self.present_buffers().is_some();
        self.watchpoints.buffers.is_active = is_active;
        if is_active && std::mem::take(&mut self.watchpoints.buffers.is_open) {
            let all = self
                .present_buffers()
                .map(|ranges| ranges.buffers().to_vec());
            self.close_buffers(&all.unwrap_or_default());
        }
    }

    /// Discards the translations of pages with these buffers in user mode.
    fn close_buffers(&mut self, buffers: &[WatchedBuffer]) {
        let first = |buffer: &WatchedBuffer| buffer.start & PAGE_MASK;
        let pages = |buffer: &WatchedBuffer| ((buffer.end - 1 - first(buffer)) / PAGE_SIZE) + 1;
        let count = buffers.iter().map(pages).fold(0, u64::saturating_add);
        if count > FEW_PAGES {
            return self.close_pages();
        }
        self.flush_lines();
        for buffer in buffers {
            for page in (first(buffer)..buffer.end).step_by(PAGE_SIZE as usize) {
                self.context.views[1].flush_page(page);
                self.context.slots.flush_page(page);
            }
        }
    }

    /// True if the pages of `bytes` bytes from `linear` on have bytes of a watched buffer, so that the present thread's accesses
    /// to them must be seen.
    pub(super) fn has_buffer(&mut self, linear: u64, bytes: u64, write: bool) -> bool {
        if self.watchpoints.buffers.watched.spaces.is_empty() || !self.state.is_user() {
            return false;
        }
        let start = linear & PAGE_MASK;
        let end = linear.saturating_add(bytes - 1) | !PAGE_MASK;
        let Some(ranges) = self.present_buffers() else {
            return false;
        };
        // Ranges that are open for stores are so for loads.
        let is_seen = |buffer: &WatchedBuffer| write || buffer.kind != WatchKind::Write;
        let end = end.saturating_add(1);
        let has_one = ranges.overlapping(start, end).any(is_seen);
        let buffers = &mut self.watchpoints.buffers;
        buffers.is_open |= has_one && !buffers.is_active;
        has_one && buffers.is_active
    }

    /// True if an access by the present thread has bytes of a watched buffer.
    pub(super) fn touches_buffer(&self, pieces: &[Piece; 2], linear: u64, write: bool) -> bool {
        if !self.watchpoints.buffers.is_active || !self.state.is_user() {
            return false;
        }
        let bytes: usize = pieces.iter().map(|piece| piece.bytes).sum();
        let end = linear.saturating_add(bytes as u64);
        let ranges = self.present_buffers();
        let mut near = ranges
            .into_iter()
            .flat_map(|all| all.overlapping(linear, end));
        near.any(|buffer| buffer.kind.stops_at(write))
    }

    /// Notes an access to a watched buffer, for the exit after its instruction.
    pub(super) fn note_buffer(&mut self, pieces: &[Piece; 2], linear: u64, write: bool) {
        if !self.touches_buffer(pieces, linear, write) {
            return;
        }
        let bytes: usize = pieces.iter().map(|piece| piece.bytes).sum();
        let access = BufferAccess {
            instruction: self.state.rip,
            linear,
            bytes: bytes as u64,
            write,
        };
        let before = self.retired_now();
        let seen = &mut self.watchpoints.buffers.seen;
        let seen = seen.get_or_insert(SeenAccess { access, before });
        // A store counts before a load of the same instruction.
        if write && !seen.access.write && seen.access.instruction == access.instruction {
            seen.access = access;
        }
    }
}
