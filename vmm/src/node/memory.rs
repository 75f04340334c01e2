//! A node's memory as the process on the current processor sees it.
//!
//! Addresses are translated by that processor's page tables with its privileges, so a call's
//! arguments cannot lead the tracer to memory outside the program. The tracer reads and writes
//! memory at stops.

use belljar_cpu::{Access, PAGE_SIZE};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend};

use super::Node;

/// A linear address that the guest has not mapped, or not for this access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("guest address {0:#x} is not mapped")]
pub struct BadAddress(pub u64);

impl Node {
    /// Reads guest memory at linear address `addr` through the current processor's page tables.
    ///
    /// # Errors
    /// [`BadAddress`] with the first byte that is not mapped; `bytes` is then
    /// partly filled.
    pub fn read_virtual(&self, addr: u64, bytes: &mut [u8]) -> Result<(), BadAddress> {
        for (linear, range) in pages(addr, bytes.len())? {
            let at = self.physical(linear, range.len(), Access::Read)?;
            let ram = &self.devices.ram;
            ram.read_slice(&mut bytes[range], at)
                .map_err(|_| BadAddress(linear))?;
        }
        Ok(())
    }

    /// Writes guest memory at linear address `addr`; all of `bytes` or nothing.
    ///
    /// # Errors
    /// [`BadAddress`] with the first byte that is not mapped for writing.
    pub fn write_virtual(&mut self, addr: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        let mut places = Vec::new();
        for (linear, range) in pages(addr, bytes.len())? {
            places.push((
                linear,
                self.physical(linear, range.len(), Access::Write)?,
                range,
            ));
        }
        for (linear, at, range) in places {
            let ram = &self.devices.ram;
            ram.write_slice(&bytes[range], at)
                .map_err(|_| BadAddress(linear))?;
        }
        Ok(())
    }

    fn physical(
        &self,
        linear: u64,
        len: usize,
        access: Access,
    ) -> Result<GuestAddress, BadAddress> {
        let at = self
            .current()
            .vcpu
            .translate(linear, access)
            .map(GuestAddress);
        at.filter(|at| self.devices.ram.check_range(*at, len))
            .ok_or(BadAddress(linear))
    }
}

/// Splits `len` bytes at `addr` at page boundaries into linear addresses and index ranges.
fn pages(
    addr: u64,
    len: usize,
) -> Result<impl Iterator<Item = (u64, std::ops::Range<usize>)>, BadAddress> {
    addr.checked_add(len as u64).ok_or(BadAddress(addr))?;
    let mut done = 0;
    Ok(std::iter::from_fn(move || {
        let linear = addr + done as u64;
        let count = ((PAGE_SIZE - linear % PAGE_SIZE) as usize).min(len - done);
        let range = done..done + count;
        done += count;
        (count > 0).then_some((linear, range))
    }))
}
