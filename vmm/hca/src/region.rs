//! Memory keys: which accesses of queue pairs and of peers reach which memory.
//!
//! The key's entry in lent memory is the truth, since the driver edits it in place. Every access is checked for protection domain, right and
//! bounds before its first byte, and reaches RAM only through the entry's translation. Requester and responder access memory here.

use belljar_cpu::GuestRam;

use crate::fields::{u8_at, u32_at, u64_at};
use crate::lent::{Buffer, LentMemory};
use crate::memory;

/// Bytes of an entry.
pub(crate) const ENTRY: usize = 64;
/// The state in the entry's highest bits that gives it to software.
pub(crate) const SOFTWARE_OWNS: u8 = 0xf0;
/// The state of a key that is free for fast registration.
const FREE: u8 = 3;
const PHYSICAL: u32 = 1 << 9;

/// A right to access memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    LocalRead,
    LocalWrite,
    RemoteRead,
    RemoteWrite,
    Atomic,
}

impl Right {
    fn bit(self) -> u32 {
        match self {
            Self::LocalRead => 1 << 10,
            Self::LocalWrite => 1 << 11,
            Self::RemoteRead => 1 << 12,
            Self::RemoteWrite => 1 << 13,
            Self::Atomic => 1 << 14,
        }
    }
}

/// Memory that one key covers, checked for an access.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent {
    /// Physical addresses.
    Physical(u64),
    /// From this byte of a buffer on.
    Mapped(Buffer, u64),
}

/// Accesses to memory by key.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) lent: &'a LentMemory,
    pub(crate) ram: &'a GuestRam,
}

impl Keys<'_> {
    /// The memory of `length` bytes at `addr` under `key`, if the protection domain has this right to all of it.
    pub(crate) fn check(
        &self,
        domain: u32,
        key: u32,
        addr: u64,
        length: u64,
        right: Right,
    ) -> Option<Extent> {
        let mut entry = [0; ENTRY];
        memory::read(self.ram, self.lent.key(key >> 8)?, &mut entry)?;
        let flags = u32_at(&entry, 0);
        let owner = entry[0] >> 4;
        let is_live = owner != SOFTWARE_OWNS >> 4 && owner != FREE;
        // The variant is in the highest byte, above the index.
        let is_same = u8_at(&entry, 8) == key as u8;
        let is_same_domain = (u32_at(&entry, 0x0c) ^ domain) & 0x1_ffff == 0;
        if !is_live || !is_same || !is_same_domain || flags & right.bit() == 0 {
            return None;
        }
        let (start, size) = (u64_at(&entry, 0x10), u64_at(&entry, 0x18));
        let offset = addr.checked_sub(start)?;
        if offset.checked_add(length)? > size {
            return None;
        }
        if flags & PHYSICAL != 0 {
            return Some(Extent::Physical(addr));
        }
        let page_shift = (u32_at(&entry, 0x38) & 0x3f).clamp(12, 40) as u8;
        let mtt = u64_at(&entry, 0x2c) & !7;
        let within = start & ((1 << page_shift) - 1);
        let buffer = Buffer {
            mtt,
            page_shift,
            start: within,
        };
        Some(Extent::Mapped(buffer, offset))
    }

    /// Reads from checked memory, `offset` bytes after its beginning.
    pub(crate) fn read(&self, from: Extent, offset: u64, bytes: &mut [u8]) -> Option<()> {
        match from {
            Extent::Physical(addr) => memory::read(self.ram, addr.checked_add(offset)?, bytes),
            Extent::Mapped(buffer, at) => {
                buffer.read(self.lent, self.ram, at.checked_add(offset)?, bytes)
            }
        }
    }

    /// Writes to checked memory, `offset` bytes after its beginning.
    pub(crate) fn write(&self, to: Extent, offset: u64, bytes: &[u8]) -> Option<()> {
        match to {
            Extent::Physical(addr) => memory::write(self.ram, addr.checked_add(offset)?, bytes),
            Extent::Mapped(buffer, at) => {
                buffer.write(self.lent, self.ram, at.checked_add(offset)?, bytes)
            }
        }
    }
}
