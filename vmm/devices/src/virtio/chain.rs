//! A descriptor chain, checked as a whole before a device touches it.
//!
//! A `Chain`'s buffers all lie in RAM and are not empty, and the readable ones precede the writable
//! ones. `queue` makes chains; devices access guest memory only through them. A chain from a saved
//! state is checked again by `fits`.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use belljar_cpu::GuestRam;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend};

use super::QueueError;

/// One buffer of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Buffer {
    pub(super) addr: u64,
    pub(super) len: u32,
}

/// A chain of buffers: first the ones that the device reads, then the ones that it writes. All lie
/// in RAM.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Chain {
    head: u16,
    readable: Vec<Buffer>,
    writable: Vec<Buffer>,
}

impl Chain {
    pub(super) fn new(head: u16) -> Self {
        Self {
            head,
            ..Self::default()
        }
    }

    /// Adds the next buffer of the chain.
    pub(super) fn push(
        &mut self,
        ram: &GuestRam,
        buffer: Buffer,
        writable: bool,
    ) -> Result<(), QueueError> {
        let addr = buffer.addr;
        if buffer.len == 0 || !ram.check_range(GuestAddress(addr), buffer.len as usize) {
            let len = buffer.len;
            return Err(QueueError::Buffer { addr, len });
        }
        if writable {
            self.writable.push(buffer);
        } else if self.writable.is_empty() {
            self.readable.push(buffer);
        } else {
            return Err(QueueError::Order { head: self.head });
        }
        Ok(())
    }

    /// True if all of it lies in this RAM, which is not certain of a chain from a saved state.
    pub(super) fn fits(&self, ram: &GuestRam) -> bool {
        let mut buffers = self.readable.iter().chain(&self.writable);
        buffers.all(|buffer| {
            buffer.len > 0 && ram.check_range(GuestAddress(buffer.addr), buffer.len as usize)
        })
    }

    /// Index of the first descriptor.
    pub fn head(&self) -> u16 {
        self.head
    }

    /// Bytes that the device may read.
    pub fn readable_len(&self) -> u64 {
        total(&self.readable)
    }

    /// Bytes that the device may write.
    pub fn writable_len(&self) -> u64 {
        total(&self.writable)
    }

    /// Copies the bytes `at` of the readable part; `None` if it is shorter.
    pub fn read(&self, ram: &GuestRam, at: Range<u64>) -> Option<Vec<u8>> {
        if at.end > self.readable_len() || at.start > at.end {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(at.end - at.start).ok()?];
        let mut done = 0;
        for (addr, len) in pieces(&self.readable, at) {
            let piece = bytes.get_mut(done..done + len)?;
            ram.read_slice(piece, addr).ok()?;
            done += len;
        }
        Some(bytes)
    }

    /// Copies `bytes` to offset `at` of the writable part; `None`, with nothing written, if they do
    /// not fit.
    pub fn write(&self, ram: &GuestRam, at: u64, bytes: &[u8]) -> Option<()> {
        let end = at.checked_add(bytes.len() as u64)?;
        if end > self.writable_len() {
            return None;
        }
        let mut done = 0;
        for (addr, len) in pieces(&self.writable, at..end) {
            ram.write_slice(bytes.get(done..done + len)?, addr).ok()?;
            done += len;
        }
        Some(())
    }
}

fn total(buffers: &[Buffer]) -> u64 {
    buffers.iter().map(|buffer| u64::from(buffer.len)).sum()
}

/// The pieces of guest memory that make up the bytes `at` of `buffers`.
fn pieces(buffers: &[Buffer], at: Range<u64>) -> impl Iterator<Item = (GuestAddress, usize)> {
    let mut start = 0;
    buffers.iter().filter_map(move |buffer| {
        let end = start + u64::from(buffer.len);
        let from = at.start.max(start);
        let to = at.end.min(end);
        let piece = (from < to).then(|| {
            let addr = GuestAddress(buffer.addr + (from - start));
            (addr, (to - from) as usize)
        });
        start = end;
        piece
    })
}
