//! Guest memory accesses beyond translated code's fast path, and accesses of host code.
//!
//! `visit` calls these when a check in translated code failed. An access happens completely or not
//! at all: exceptions are raised, and devices read, before any byte changes. Accesses without a
//! host page go through the bounce buffer of the context, on which the same host instruction runs.

use belljar_cpu::{Access, Exit, PAGE_SIZE};
use belljar_translate::host::exit_stub::{BlockId, CheckForm};
use belljar_translate::prices::timing::LINE_BYTES;

use crate::memory::lines::Payment;
use crate::memory::piece::{NO_PIECE, Piece};
use crate::processor::mmu::{TranslationRequest, is_canonical, map};
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::devices::{Answer, DEVICE_BYTES};
use crate::processor::vcpu::left::Next;

/// Alignment checks in user mode (RFLAGS.AC under CR0.AM).
mod aligned;
pub(crate) use aligned::DataAccess;
/// Accesses of host code to linear addresses.
mod linear;
/// Masked accesses that missed the TLB.
mod masked;
/// Priorities among several exceptions of an access.
mod refine;

/// Reasons that stop host code in an access to guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The guest takes an exception.
    Fault(Fault),
    /// A device must be read first; the instruction then runs again.
    Ask(Exit),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl ExactVcpu {
    /// Translates for an access at the current privilege level.
    fn data_address(&mut self, linear: u64, write: bool, user: bool) -> Result<u64, Fault> {
        let access = if write { Access::Write } else { Access::Read };
        let request = TranslationRequest {
            access,
            user,
            mark: true,
        };
        let mapping = map(&self.memory, &self.state.system, linear, request)?;
        self.note_mapping(linear, &mapping, request.access);
        if write && self.memory.is_watched(mapping.physical) {
            self.leave_shared(mapping.physical, true);
        }
        if !self.watchpoints.is_empty() {
            self.note_watched_page(linear, mapping.physical);
        }
        Ok(mapping.physical)
    }

    /// Handles a TLB miss: fills the TLB, sends the access through the bounce buffer, or raises an
    /// exception.
    pub(crate) fn miss(
        &mut self,
        block: BlockId,
        index: u16,
        (size, write, form): (u16, bool, CheckForm),
        (resume, bounce): (u64, u64),
    ) -> Next {
        self.statistics.misses += 1;
        let linear = self.missed_address(write, form);
        let payment = self.payment(block, index);
        let masked = self.store.block(block).masked(index).copied();
        if masked.is_none()
            && let Some(host) = self.open_line(linear, usize::from(size), write, payment)
        {
            self.context.scratch = [0, host];
            return Next::Resume(resume);
        }
        self.begin_watched(block);
        self.pending.replies.begin();
        let code_page = self.context.code_page;
        self.state.rip = self.store.block(block).rip_of(index, code_page);
        let bytes = usize::from(size);
        let departures = self.store.departures();
        let opened = match masked {
            Some(instruction) => self.open_masked(&instruction, linear, bytes, write, payment),
            None => self.open_access(linear, bytes, write, payment),
        };
        if !matches!(opened, Err(Stop::Ask(_))) {
            self.pending.replies.clear();
        }
        self.place_watched(block, index);
        if self.store.departures() != departures {
            // The page may contain the running code. Nothing was written yet.
            self.refund(block, index);
            return Next::Boundary;
        }
        match opened {
            Ok(Opened::Direct { offset, page }) => {
                self.context.scratch = [offset, page];
                Next::Resume(resume)
            }
            Ok(Opened::Bounced) => {
                self.pending.bounced = linear;
                self.context.scratch = [0, self.bounce_address(linear)];
                Next::Resume(bounce)
            }
            Ok(Opened::NotCovered) => {
                self.refund(block, index);
                Next::Single
            }
            Err(Stop::Fault(fault)) => {
                self.refund(block, index);
                let fault = self.refine(linear, usize::from(size), fault);
                self.deliver(fault)
            }
            Err(Stop::Ask(exit)) => {
                self.refund(block, index);
                Next::Exit(exit)
            }
        }
    }

    fn missed_address(&self, write: bool, form: CheckForm) -> u64 {
        let [left, entry] = self.context.scratch;
        let view = &self.context.views[usize::from(self.state.is_user())];
        let (user, way) = (usize::from(self.state.is_user()), usize::from(write));
        let tags: &[u64] = if self.models_memory() {
            &self.context.wide_lines[user][way].tag
        } else if self.has_caches() {
            &self.context.lines[user][way].tag
        } else {
            &view.tlb[usize::from(write)].tag
        };
        match form {
            CheckForm::Xor => left ^ tags[entry as usize / 8],
            CheckForm::Difference => left.wrapping_add(tags[entry as usize]),
        }
    }

    fn bounce_address(&self, linear: u64) -> u64 {
        self.context.bounce.0.as_ptr() as u64 + linear % 64
    }

    fn bounce_slice(&mut self, linear: u64, bytes: usize) -> &mut [u8] {
        let start = (linear % 64) as usize;
        &mut self.context.bounce.0[start..start + bytes]
    }

    fn open_access(
        &mut self,
        linear: u64,
        bytes: usize,
        write: bool,
        payment: Payment,
    ) -> Result<Opened, Stop> {
        let user = self.state.is_user();
        let pieces = match self.known_piece(linear, bytes, write) {
            // Without caches, the TLB was already checked.
            Some(piece) if self.has_caches() => [piece, NO_PIECE],
            _ => self.pieces(linear, bytes, write, user)?,
        };
        if !self.watchpoints.is_empty() && self.wants_alone(&pieces, linear, write)
            || !self.pay(payment, &pieces, (linear, write))
        {
            return Ok(Opened::NotCovered);
        }
        if let [piece, Piece { bytes: 0, .. }] = pieces
            && let Some(page) = self.memory.host_page(piece.physical)
            && !(write && self.memory.is_watched(piece.physical))
            && !self.is_closed(linear, piece.physical, piece.bytes as u64, write)
        {
            self.fill(linear, page, write);
            if payment != Payment::None && linear % LINE_BYTES + bytes as u64 <= LINE_BYTES {
                let place = self.place_of(piece.physical);
                self.fill_line(linear, page, write, place);
            }
            return Ok(Opened::Direct {
                offset: linear % PAGE_SIZE,
                page,
            });
        }
        let mut data = [0u8; 64];
        let reads = !write || (self.meets_device(&pieces) && self.reads_what_it_writes());
        self.read_pieces(&pieces, &mut data[..bytes], reads)?;
        if !write {
            self.note_watched(&pieces, linear, false);
        }
        self.bounce_slice(linear, bytes)
            .copy_from_slice(&data[..bytes]);
        Ok(Opened::Bounced)
    }

    pub(crate) fn fill(&mut self, linear: u64, page: u64, write: bool) {
        let user = usize::from(self.state.is_user());
        let old = self.context.views[user].tlb[usize::from(write)].fill(linear, page);
        if old != linear & !(PAGE_SIZE - 1) && self.has_caches() {
            self.replace_page(old, write);
        }
    }

    /// Splits an access at the page boundary; the second piece may be empty.
    fn pieces(
        &mut self,
        linear: u64,
        bytes: usize,
        write: bool,
        user: bool,
    ) -> Result<[Piece; 2], Fault> {
        let left = (PAGE_SIZE - linear % PAGE_SIZE) as usize;
        let first = bytes.min(left);
        // All of the address is checked to be canonical before any page is accessed.
        if first < bytes && is_canonical(linear) && !is_canonical(linear.wrapping_add(left as u64))
        {
            return Err(Fault::protection(0));
        }
        let physical = self.data_address(linear, write, user)?;
        let rest = bytes - first;
        let second = if rest > 0 {
            self.data_address(linear.wrapping_add(first as u64), write, user)?
        } else {
            0
        };
        Ok([
            Piece {
                physical,
                start: 0,
                bytes: first,
            },
            Piece {
                physical: second,
                start: first,
                bytes: rest,
            },
        ])
    }

    fn meets_device(&self, pieces: &[Piece; 2]) -> bool {
        let mut present = pieces.iter().filter(|piece| piece.bytes > 0);
        present.any(|piece| self.memory.host_page(piece.physical).is_none())
    }

    /// Reads the pieces; device registers only if the access `asks` for them, which a pure store
    /// does not.
    fn read_pieces(
        &mut self,
        pieces: &[Piece; 2],
        into: &mut [u8],
        asks: bool,
    ) -> Result<(), Stop> {
        for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
            let into = &mut into[piece.start..piece.start + piece.bytes];
            if !self.memory.read(piece.physical, into) && asks {
                self.read_device(piece.physical, into)?;
            }
        }
        Ok(())
    }

    /// Reads device registers, in parts of no more than 8 bytes.
    fn read_device(&mut self, physical: u64, into: &mut [u8]) -> Result<(), Stop> {
        for (addr, part) in (physical..)
            .step_by(DEVICE_BYTES)
            .zip(into.chunks_mut(DEVICE_BYTES))
        {
            let value = match self.pending.replies.next() {
                Some(value) => Answer::Value(value),
                None => self.take_answer(),
            };
            let Answer::Value(value) = value else {
                let len = part.len() as u8;
                return Err(Stop::Ask(Exit::MmioRead { addr, len }));
            };
            self.pending.replies.keep(value);
            part.copy_from_slice(&value.to_le_bytes()[..part.len()]);
        }
        Ok(())
    }

    /// Writes a store from the bounce buffer to its real address.
    pub(crate) fn commit(
        &mut self,
        block: BlockId,
        index: u16,
        size: u16,
        resume: u64,
        call: bool,
    ) -> Next {
        let linear = self.pending.bounced;
        let bytes = usize::from(size);
        let mut data = [0u8; 64];
        data[..bytes].copy_from_slice(self.bounce_slice(linear, bytes));
        let user = self.state.is_user();
        let written = match self.store.block(block).masked(index) {
            Some(&instruction) => self.commit_masked(&instruction, linear, &data[..bytes]),
            // Its cost was charged when it was opened.
            None => self.write_past_caches(linear, &data[..bytes], user),
        };
        let watched = written.is_ok() && self.place_watched(block, index);
        match written {
            Ok(()) if watched && !call => {
                let exit = self.pending.stores.pop();
                self.leave_behind(block, index, exit)
            }
            // Changes by a call's push are handled after its jump.
            Ok(()) if call && self.store.block(block).valid => Next::Resume(resume),
            Ok(()) if call && !self.store.block(block).hot => Next::Resume(resume),
            Ok(()) if call => {
                self.expect_return(&data[..bytes]);
                self.leave_behind(block, index, None)
            }
            Ok(()) if self.store.block(block).valid && self.pending.stores.is_empty() => {
                Next::Resume(resume)
            }
            Ok(()) => {
                let exit = self.pending.stores.pop();
                self.leave_behind(block, index, exit)
            }
            Err(fault) => {
                self.refund(block, index);
                self.deliver(fault)
            }
        }
    }

    /// Leaves the block after instruction `index` of `block`, which is complete.
    pub(crate) fn leave_behind(&mut self, block: BlockId, index: u16, exit: Option<Exit>) -> Next {
        self.refund_behind(block, index);
        exit.map_or(Next::Boundary, Next::Exit)
    }
}

enum Opened {
    /// The instruction must run by itself: the budget does not cover the access's cost, or a watchpoint is there.
    NotCovered,
    Direct {
        offset: u64,
        page: u64,
    },
    Bounced,
}
