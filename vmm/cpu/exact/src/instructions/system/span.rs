//! Large structures in guest memory, which may cross pages: every page is checked before the first
//! byte changes.
//!
//! FXSAVE, XSAVE and similar instructions store with these functions; ENTER and bit strings check
//! with them that they can store. So a fault in the middle leaves memory unchanged.

use belljar_cpu::PAGE_SIZE;

use crate::memory::access::Stop;
use crate::processor::vcpu::ExactVcpu;

/// Offset of a part in a structure, and its bytes.
pub(super) type Part<'a> = (usize, &'a [u8]);

impl ExactVcpu {
    /// Writes `parts` of the structure at `at`, in ascending order, at the current
    /// privilege level.
    pub(super) fn write_parts(&mut self, at: u64, parts: &[Part<'_>]) -> Result<(), Stop> {
        for &(offset, bytes) in parts {
            self.check_writable(at.wrapping_add(offset as u64), bytes.len())?;
        }
        let user = self.state.is_user();
        for &(offset, bytes) in parts {
            let mut done = 0;
            for (linear, length) in pieces(at.wrapping_add(offset as u64), bytes.len()) {
                self.write_linear(linear, &bytes[done..done + length], user)?;
                done += length;
            }
        }
        Ok(())
    }

    /// Checks that all of `bytes` bytes are writable at the current privilege level.
    pub(super) fn check_writable(&mut self, at: u64, bytes: usize) -> Result<(), Stop> {
        let user = self.state.is_user();
        for (linear, _) in pieces(at, bytes) {
            self.direct_run(linear, 1, true, user)?;
        }
        Ok(())
    }

    /// Reads memory at `at`, at the current privilege level.
    pub(super) fn read_span(&mut self, at: u64, into: &mut [u8]) -> Result<(), Stop> {
        let user = self.state.is_user();
        let mut done = 0;
        for (linear, length) in pieces(at, into.len()) {
            self.read_linear(linear, &mut into[done..done + length], user)?;
            done += length;
        }
        Ok(())
    }
}

/// Splits `bytes` bytes at `linear` at page boundaries.
fn pieces(linear: u64, bytes: usize) -> impl Iterator<Item = (u64, usize)> {
    let mut at = linear;
    let mut left = bytes;
    std::iter::from_fn(move || {
        let length = left.min((PAGE_SIZE - at % PAGE_SIZE) as usize);
        let piece = (at, length);
        at = at.wrapping_add(length as u64);
        left -= length;
        (length > 0).then_some(piece)
    })
}
