//! Accesses of host code to linear addresses.
//!
//! Exceptions, processor tables and instructions executed in Rust access the guest's memory with
//! these functions. A write is checked on both of its pages before the first byte changes, and
//! drops translated code that it changes. If it goes to a device, it waits for the instruction's
//! end.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::context::tlb_index;

use super::Stop;
use crate::memory::piece::Piece;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

impl ExactVcpu {
    /// Writes `data` at a linear address. Stores to device registers are performed at the
    /// instruction's end.
    pub(crate) fn write_linear(
        &mut self,
        linear: u64,
        data: &[u8],
        user: bool,
    ) -> Result<(), Fault> {
        let pieces = self.pieces(linear, data.len(), true, user)?;
        self.touch_pieces(&pieces, linear, true, None);
        self.write_pieces(&pieces, linear, data);
        Ok(())
    }

    fn write_pieces(&mut self, pieces: &[Piece; 2], linear: u64, data: &[u8]) {
        self.note_watched(pieces, linear, true);
        for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
            let part = &data[piece.start..piece.start + piece.bytes];
            if self.memory.write(piece.physical, part) {
                if self.memory.is_watched(piece.physical) {
                    self.forget_code(piece.physical, part.len() as u64);
                }
            } else {
                self.pending.stores.push(piece.physical, part);
            }
        }
    }

    /// Reads from a linear address.
    pub(crate) fn read_linear(
        &mut self,
        linear: u64,
        into: &mut [u8],
        user: bool,
    ) -> Result<(), Stop> {
        let pieces = self.pieces(linear, into.len(), false, user)?;
        self.touch_pieces(&pieces, linear, false, None);
        self.note_watched(&pieces, linear, false);
        self.read_pieces(&pieces, into, true)
    }

    /// As [`read_linear`](Self::read_linear), bypassing the caches.
    pub(crate) fn read_past_caches(
        &mut self,
        linear: u64,
        into: &mut [u8],
        user: bool,
    ) -> Result<(), Stop> {
        let pieces = self.pieces(linear, into.len(), false, user)?;
        self.note_watched(&pieces, linear, false);
        self.read_pieces(&pieces, into, true)
    }

    /// As [`write_linear`](Self::write_linear), bypassing the caches.
    pub(crate) fn write_past_caches(
        &mut self,
        linear: u64,
        data: &[u8],
        user: bool,
    ) -> Result<(), Fault> {
        let pieces = self.pieces(linear, data.len(), true, user)?;
        self.write_pieces(&pieces, linear, data);
        Ok(())
    }

    /// Reads RAM with supervisor privileges, without reading devices. Returns true if all of it is
    /// RAM.
    pub(crate) fn read_ram(&mut self, linear: u64, into: &mut [u8]) -> bool {
        self.pieces(linear, into.len(), false, false)
            .is_ok_and(|pieces| {
                let mut present = pieces.iter().filter(|piece| piece.bytes > 0);
                present.all(|piece| {
                    let into = &mut into[piece.start..piece.start + piece.bytes];
                    self.memory.read(piece.physical, into)
                })
            })
    }

    /// The guest-physical address of the last access.
    pub(crate) fn physical_at(&mut self, linear: u64, write: bool) -> Option<u64> {
        let user = self.state.is_user();
        match self.known_run(linear, write, user) {
            Some((host, _)) => self.memory.physical_of(host),
            None => self.data_address(linear, write, user).ok(),
        }
    }

    /// Host address and length of the part of `bytes` bytes at `linear` that can be copied at once:
    /// RAM that is known to be contiguous, without watchpoints, and for writes without code.
    pub(crate) fn direct_run(
        &mut self,
        linear: u64,
        bytes: u64,
        write: bool,
        user: bool,
    ) -> Result<Option<(u64, u64)>, Fault> {
        if let Some((host, run)) = self.known_run(linear, write, user) {
            return Ok(Some((host, run.min(bytes))));
        }
        let physical = self.data_address(linear, write, user)?;
        let run = bytes.min(PAGE_SIZE - linear % PAGE_SIZE);
        if run < bytes && user == self.state.is_user() {
            self.explore(linear, write);
            if let Some((host, run)) = self.known_run(linear, write, user) {
                return Ok(Some((host, run.min(bytes))));
            }
        }
        let is_seen = write && self.memory.is_watched(physical);
        if is_seen || self.is_closed(linear, physical, run, write) {
            return Ok(None);
        }
        Ok(self
            .memory
            .host_page(physical)
            .map(|page| (page + linear % PAGE_SIZE, run)))
    }

    /// The host address of `linear` according to the TLB, and the number of contiguous bytes from
    /// there on.
    pub(crate) fn known_run(&self, linear: u64, write: bool, user: bool) -> Option<(u64, u64)> {
        let tlb = &self.context.views[usize::from(user)].tlb[usize::from(write)];
        let entry = tlb_index(linear);
        if tlb.tag[entry] != linear & !(PAGE_SIZE - 1) {
            return None;
        }
        let run = match tlb.range_bytes[entry] {
            0 => PAGE_SIZE - linear % PAGE_SIZE,
            bytes => tlb.range[entry].wrapping_add(bytes).wrapping_sub(linear),
        };
        Some((linear.wrapping_add(tlb.delta[entry]), run))
    }
}
