//! Accesses under a cache model.
//!
//! Translated code may access a line directly if another access to it changes nothing: with costs of caches, for each
//! position in a page, the last used line of its set in the first level; under a processor model, see `misses`. All
//! other accesses are handled here.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::context::{LineFilter, Lines};
use belljar_translate::host::exit_stub::BlockId;
use belljar_translate::prices::timing::{LINE_BYTES, TICKS_PER_CYCLE};

use crate::memory::piece::Piece;
use crate::processor::accounting::caches::LineLocation;
use crate::processor::vcpu::ExactVcpu;

/// An instruction of a block that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSite {
    pub block: BlockId,
    /// Number of the instruction.
    pub index: u16,
}

/// The way an access pays for caches and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payment {
    /// It does not pay: there are no caches, or its instruction does not count.
    None,
    /// It pays if the budget covers its cost besides the rest of the block, which has been charged.
    IfCovered(BlockSite),
    /// It always pays: the instruction is the block's last, and may end after the deadline.
    Due(BlockSite),
}

/// The line to access, and the way to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    /// Linear and guest-physical address of the first byte.
    pub linear: u64,
    pub physical: u64,
    pub write: bool,
    /// The instruction, if translated code executes it.
    pub site: Option<BlockSite>,
}

impl ExactVcpu {
    /// True if there is a cache model.
    pub(crate) fn has_caches(&self) -> bool {
        self.accounting
            .as_ref()
            .is_some_and(|accounting| accounting.filter().is_some())
    }

    /// Accounts for an access of `bytes` bytes, at least one; addresses outside RAM are not cached.
    pub(crate) fn touch(&mut self, from: Touched, bytes: u64) {
        if !self.has_caches() || self.memory.host_page(from.physical).is_none() {
            return;
        }
        let (first, last) = (from.physical, from.physical + bytes - 1);
        for line in first / LINE_BYTES..=last / LINE_BYTES {
            let physical = first.max(line * LINE_BYTES);
            let linear = from.linear.wrapping_add(physical - first);
            self.touch_line(Touched {
                linear,
                physical,
                ..from
            });
        }
    }

    /// As [`touch`](Self::touch), for the pieces of an access to `linear`.
    pub(crate) fn touch_pieces(
        &mut self,
        pieces: &[Piece; 2],
        linear: u64,
        write: bool,
        site: Option<BlockSite>,
    ) {
        if !self.has_caches() {
            return;
        }
        for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
            let touched = Touched {
                linear: linear.wrapping_add(piece.start as u64),
                physical: piece.physical,
                write,
                site,
            };
            self.touch(touched, piece.bytes as u64);
        }
    }

    /// Accounts for an access to a line. Returns its place in the first level of a processor model.
    fn touch_line(&mut self, touched: Touched) -> Option<usize> {
        let accounting = self.accounting.as_deref()?;
        if accounting.memory.is_some() {
            return self.meet_line(&touched);
        }
        self.cost_of_line(touched.physical / LINE_BYTES);
        None
    }

    fn cost_of_line(&mut self, line: u64) {
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
                lines.forget(LineFilter::Narrow.index(before * LINE_BYTES));
            }
        }
    }

    /// Pays for an access by translated code to `linear`. Returns false if it must not happen now: its
    /// instruction must then run by itself.
    pub(crate) fn pay(
        &mut self,
        payment: Payment,
        pieces: &[Piece; 2],
        access: (u64, bool),
    ) -> bool {
        let site = match payment {
            Payment::None => return true,
            Payment::IfCovered(_) if !self.covers(pieces) => return false,
            Payment::IfCovered(site) | Payment::Due(site) => site,
        };
        self.touch_pieces(pieces, access.0, access.1, Some(site));
        true
    }

    /// The payment of accesses by instruction `index` of a block.
    pub(crate) fn payment(&self, block: BlockId, index: u16) -> Payment {
        let counted = self.store.block(block).counted;
        let site = BlockSite { block, index };
        if counted == 0 || !self.has_caches() {
            Payment::None
        } else if index + 1 >= counted {
            Payment::Due(site)
        } else {
            Payment::IfCovered(site)
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
        let (site, due) = match payment {
            Payment::None => return None,
            Payment::Due(site) => (site, true),
            Payment::IfCovered(site) => (site, false),
        };
        if linear % LINE_BYTES + bytes as u64 > LINE_BYTES {
            return None;
        }
        let (host, _) = self.known_run(linear, write, self.state.is_user())?;
        let physical = self.memory.physical_of(host)?;
        if !due && !self.covers_line(physical) {
            return None;
        }
        let touched = Touched {
            linear,
            physical,
            write,
            site: Some(site),
        };
        let place = self.touch_line(touched);
        self.fill_line(linear, host - linear % PAGE_SIZE, write, place);
        Some(host)
    }

    /// True if the budget covers an access to the line at a guest-physical address, wherever it is found.
    fn covers_line(&self, physical: u64) -> bool {
        let Some(accounting) = self.accounting.as_deref() else {
            return true;
        };
        let budget = self.context.count;
        match (&accounting.memory, &accounting.caches) {
            (Some(memory), _) => memory.worst() <= budget || memory.most(physical) <= budget,
            (None, Some(caches)) => caches.worst() <= budget,
            (None, None) => true,
        }
    }

    /// True if the budget covers the cost of an access to `pieces`, besides earlier charges. The
    /// lines of an access lie in different sets, so none affects another.
    fn covers(&self, pieces: &[Piece; 2]) -> bool {
        let Some(accounting) = self.accounting.as_deref() else {
            return true;
        };
        let mut cost = 0;
        for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
            let last = piece.physical + piece.bytes as u64 - 1;
            for line in piece.physical / LINE_BYTES..=last / LINE_BYTES {
                cost += match (&accounting.memory, &accounting.caches) {
                    (Some(memory), _) => memory.most(line * LINE_BYTES),
                    (None, Some(caches)) => ticks(caches.probe(line)),
                    (None, None) => 0,
                };
            }
        }
        cost <= self.context.count
    }

    /// Lets translated code access the line around `linear`, which was just accessed, directly, at
    /// host address `page` of its page; under a processor model, it is in `place` of the first level, or all of the page
    /// is not modelled.
    pub(crate) fn fill_line(&mut self, linear: u64, page: u64, write: bool, place: Option<usize>) {
        let user = self.state.is_user();
        let start = linear & !(LINE_BYTES - 1);
        let host = page + start % PAGE_SIZE;
        let memory = self
            .accounting
            .as_deref_mut()
            .and_then(|accounting| accounting.memory.as_mut());
        match (memory, place) {
            (Some(memory), Some(place)) => {
                let tables = &mut self.context.wide_lines;
                memory.show(place, start, host, user, write, tables);
            }
            (Some(memory), None) => {
                // A page that is not modelled: none of its accesses needs the model.
                let physical = self.memory.physical_of(page);
                if physical.is_some_and(|physical| !memory.models(physical)) {
                    let tables = &mut self.context.wide_lines;
                    memory.show_page(linear, page, user, write, tables);
                }
            }
            (None, _) => {
                self.context.lines[usize::from(user)][usize::from(write)].fill(start, host)
            }
        }
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
        let (user, way) = (usize::from(self.state.is_user()), usize::from(write));
        if self.models_memory() {
            self.context.wide_lines[user][way].forget_page(old);
        } else {
            self.context.lines[user][way].forget_page(old);
        }
    }

    /// Makes translated code call for every line again, after a change of translations.
    pub(crate) fn flush_lines(&mut self) {
        let Some(accounting) = self.accounting.as_deref_mut() else {
            return;
        };
        if let Some(memory) = &mut accounting.memory {
            memory.hide_all(&mut self.context.wide_lines);
        } else if accounting.caches.is_some() {
            let lines = self.context.lines.iter_mut().flatten();
            lines.for_each(Lines::flush);
        }
    }

    /// As [`flush_lines`](Self::flush_lines), unless all changes of translations are known.
    pub(crate) fn settle_lines(&mut self) {
        if !self.models_memory() {
            self.flush_lines();
        }
    }

    /// True if the caches are those of a processor model.
    pub(crate) fn models_memory(&self) -> bool {
        self.accounting
            .as_ref()
            .is_some_and(|accounting| accounting.memory.is_some())
    }
}

fn ticks(found: LineLocation) -> i64 {
    i64::from(found.cycles()) * i64::from(TICKS_PER_CYCLE)
}
