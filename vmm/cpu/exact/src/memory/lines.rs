//! Accesses under a cache model.
//!
//! For each position in a page, translated code may access one line directly: the last used one of
//! its set in the first level, because another access to it changes nothing. All other accesses are
//! handled here.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::context::{LINE_ENTRIES, Lines, line_index};
use belljar_translate::host::exit_stub::BlockId;
use belljar_translate::prices::timing::{LINE_BYTES, TICKS_PER_CYCLE};

use crate::memory::piece::Piece;
use crate::processor::accounting::caches::LineLocation;
use crate::processor::vcpu::ExactVcpu;

/// The way an access pays for caches and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payment {
    /// It does not pay: there are no caches, or its instruction does not count.
    None,
    /// It pays if the budget covers its cost besides the rest of the block, which has been charged.
    IfCovered,
    /// It always pays: the instruction is the block's last, and may end after the deadline.
    Due,
}

impl ExactVcpu {
    /// True if there is a cache model.
    pub(crate) fn has_caches(&self) -> bool {
        self.accounting
            .as_ref()
            .is_some_and(|accounting| accounting.caches.is_some())
    }

    /// Accounts for an access of `bytes` bytes, at least one, at a guest-physical address;
    /// addresses outside RAM are not cached.
    pub(crate) fn touch(&mut self, physical: u64, bytes: u64) {
        if !self.has_caches() || self.memory.host_page(physical).is_none() {
            return;
        }
        for line in physical / LINE_BYTES..=(physical + bytes - 1) / LINE_BYTES {
            self.touch_line(line);
        }
    }

    /// As [`touch`](Self::touch), for the pieces of an access.
    pub(crate) fn touch_pieces(&mut self, pieces: &[Piece; 2]) {
        if !self.has_caches() {
            return;
        }
        for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
            self.touch(piece.physical, piece.bytes as u64);
        }
    }

    fn touch_line(&mut self, line: u64) {
        let Some(accounting) = self.accounting.as_deref_mut() else {
            return;
        };
        let Some(caches) = &mut accounting.caches else {
            return;
        };
        let (found, before) = caches.access(line);
        match found {
            LineLocation::Nearest => {}
            LineLocation::Cache(cycles) => accounting.spent_in_caches += u64::from(cycles),
            LineLocation::Memory(cycles) => accounting.spent_in_memory += u64::from(cycles),
        }
        self.context.count -= ticks(found);
        if let Some(before) = before {
            for lines in self.context.lines.iter_mut().flatten() {
                lines.forget(line_index(before * LINE_BYTES));
            }
        }
    }

    /// Pays for an access by translated code. Returns false if it must not happen now: its
    /// instruction must then run by itself.
    pub(crate) fn pay(&mut self, payment: Payment, pieces: &[Piece; 2]) -> bool {
        match payment {
            Payment::None => return true,
            Payment::IfCovered if !self.covers(pieces) => return false,
            Payment::IfCovered | Payment::Due => {}
        }
        self.touch_pieces(pieces);
        true
    }

    /// The payment of accesses by instruction `index` of a block.
    pub(crate) fn payment(&self, block: BlockId, index: u16) -> Payment {
        let counted = self.store.block(block).counted;
        if counted == 0 || !self.has_caches() {
            Payment::None
        } else if index + 1 >= counted {
            Payment::Due
        } else {
            Payment::IfCovered
        }
    }

    /// The fast path of a miss: an access within one line of a page in the TLB, if the budget
    /// covers the worst case. Returns the host address, or `None` for the slow path.
    pub(crate) fn open_line(
        &mut self,
        linear: u64,
        bytes: usize,
        write: bool,
        payment: Payment,
    ) -> Option<u64> {
        let caches = self.accounting.as_ref()?.caches.as_ref()?;
        let pays = match payment {
            Payment::None => false,
            Payment::Due => true,
            Payment::IfCovered => caches.worst() <= self.context.count,
        };
        let offset = linear % LINE_BYTES;
        if !pays || offset + bytes as u64 > LINE_BYTES {
            return None;
        }
        let (host, _) = self.known_run(linear, write, self.state.is_user())?;
        let physical = self.memory.physical_of(host)?;
        self.touch_line(physical / LINE_BYTES);
        self.fill_line(linear, host - linear % PAGE_SIZE, write);
        Some(host)
    }

    /// True if the budget covers the cost of an access to `pieces`, besides earlier charges. The
    /// lines of an access lie in different sets, so none affects another.
    fn covers(&self, pieces: &[Piece; 2]) -> bool {
        let caches = self
            .accounting
            .as_ref()
            .and_then(|accounting| accounting.caches.as_ref());
        let Some(caches) = caches else {
            return true;
        };
        let mut cost = 0;
        for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
            let last = piece.physical + piece.bytes as u64 - 1;
            for line in piece.physical / LINE_BYTES..=last / LINE_BYTES {
                cost += ticks(caches.probe(line));
            }
        }
        cost <= self.context.count
    }

    /// Lets translated code access the line around `linear`, which was just accessed, directly, at
    /// host address `host` of its page.
    pub(crate) fn fill_line(&mut self, linear: u64, page: u64, write: bool) {
        let user = usize::from(self.state.is_user());
        let lines = &mut self.context.lines[user][usize::from(write)];
        let index = line_index(linear);
        let start = linear & !(LINE_BYTES - 1);
        lines.tag[index] = start;
        lines.host[index] = page + start % PAGE_SIZE;
    }

    /// The access at `linear` as a piece, if all of it is in the TLB.
    pub(crate) fn known_piece(&self, linear: u64, bytes: usize, write: bool) -> Option<Piece> {
        let user = self.state.is_user();
        let (host, run) = self.known_run(linear, write, user)?;
        let left = run.min(PAGE_SIZE - linear % PAGE_SIZE);
        let physical = self.memory.physical_of(host)?;
        (bytes as u64 <= left).then(|| Piece::whole(physical, bytes))
    }

    /// Discards the lines of a page that the TLB is about to replace, so that lines never outlive
    /// their page's entry.
    pub(crate) fn replace_page(&mut self, old: u64, write: bool) {
        let user = usize::from(self.state.is_user());
        let lines = &mut self.context.lines[user][usize::from(write)];
        for index in 0..LINE_ENTRIES {
            if lines.tag[index] & !(PAGE_SIZE - 1) == old {
                lines.forget(index);
            }
        }
    }

    /// Makes translated code call for every line again.
    pub(crate) fn flush_lines(&mut self) {
        if self.has_caches() {
            let lines = self.context.lines.iter_mut().flatten();
            lines.for_each(Lines::flush);
        }
    }
}

fn ticks(found: LineLocation) -> i64 {
    i64::from(found.cycles()) * i64::from(TICKS_PER_CYCLE)
}
