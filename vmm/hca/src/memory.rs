//! The node's memory, as the card reads and writes it.
//!
//! Accesses outside RAM fail without an effect, as the bus would refuse them. All modules access memory here.

use belljar_cpu::GuestRam;
use vm_memory::{Bytes, GuestAddress};

/// Reads bytes at a physical address.
pub(crate) fn read(ram: &GuestRam, addr: u64, bytes: &mut [u8]) -> Option<()> {
    ram.read_slice(bytes, GuestAddress(addr)).ok()
}

/// Writes bytes at a physical address.
pub(crate) fn write(ram: &GuestRam, addr: u64, bytes: &[u8]) -> Option<()> {
    ram.write_slice(bytes, GuestAddress(addr)).ok()
}

/// The big-endian 32 bits at a physical address.
pub(crate) fn read_u32(ram: &GuestRam, addr: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    read(ram, addr, &mut bytes)?;
    Some(u32::from_be_bytes(bytes))
}

/// The big-endian 64 bits at a physical address.
pub(crate) fn read_u64(ram: &GuestRam, addr: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read(ram, addr, &mut bytes)?;
    Some(u64::from_be_bytes(bytes))
}
