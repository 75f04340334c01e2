//! A PCI bus with configuration mechanism #1, its functions' configuration spaces, and MSI-X.
//!
//! The bus finds the function and the region of an access, and knows nothing of the function itself: a node connects
//! regions to its devices. Accesses to absent functions read as ones and write nothing, as on a real bus. The node's port and
//! memory accesses end here.
//!
//! PCI Local Bus Specification 3.0, sections 3.2.2.3.2 (mechanism #1), 6.1 (configuration space) and 6.8 (MSI-X).

use serde::{Deserialize, Serialize};

/// Configuration spaces: header, base address registers, capabilities.
mod config;
/// MSI-X: the table of messages and the pending bits.
mod msix;

pub use config::{Bar, ConfigSpace, Header};
pub use msix::{Message, MsiX};

/// The port of the address register, four bytes wide.
pub const PCI_ADDRESS_PORT: u16 = 0xcf8;
/// The first of the four ports of the data register.
pub const PCI_DATA_PORT: u16 = 0xcfc;
/// Guest-physical start of the window for base address registers.
pub const PCI_WINDOW: u64 = 0xe000_0000;
/// Bytes of that window.
pub const PCI_WINDOW_SIZE: u64 = 0x0800_0000;

/// Bit of the address register that makes the data register select a configuration space.
const ENABLE: u32 = 1 << 31;
/// The largest number of devices on a bus.
const MOST_DEVICES: usize = 32;

/// A region of a function, with the offset of an access in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The function's device number.
    pub device: usize,
    /// The number of the region's base address register.
    pub bar: usize,
    /// The offset in the region.
    pub offset: u64,
}

/// Bus 0: functions 0 of its devices, by device number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PciBus {
    address: u32,
    functions: Vec<ConfigSpace>,
}

impl PciBus {
    /// A bus with these functions as devices 0, 1, ...; at most 32.
    pub fn new(mut functions: Vec<ConfigSpace>) -> Self {
        functions.truncate(MOST_DEVICES);
        let address = 0;
        Self { address, functions }
    }

    /// The configuration space of a device.
    pub fn function(&self, device: usize) -> Option<&ConfigSpace> {
        self.functions.get(device)
    }

    /// True if a saved bus has functions of the same layout.
    pub fn is_like(&self, other: &Self) -> bool {
        let alike = |(one, two): (&ConfigSpace, &ConfigSpace)| one.is_like(two);
        self.functions.len() == other.functions.len()
            && self.functions.iter().zip(&other.functions).all(alike)
    }

    /// `IN` of `len` bytes from a port of the bus; `None` if it is not one of its ports.
    pub fn read_port(&self, port: u16, len: u8) -> Option<u32> {
        if port == PCI_ADDRESS_PORT && len == 4 {
            return Some(self.address);
        }
        let lane = lane(port, len)?;
        let Some((device, register)) = self.selected() else {
            return Some(u32::MAX);
        };
        let value = self.functions.get(device).map(|it| it.read(register));
        Some(value.unwrap_or(u32::MAX) >> (8 * lane))
    }

    /// `OUT` of `len` bytes to a port of the bus. Returns false if it is not one of its ports.
    pub fn write_port(&mut self, port: u16, len: u8, data: u32) -> bool {
        if port == PCI_ADDRESS_PORT && len == 4 {
            self.address = data & !3;
            return true;
        }
        let Some(lane) = lane(port, len) else {
            return false;
        };
        if let Some((device, register)) = self.selected()
            && let Some(function) = self.functions.get_mut(device)
        {
            let lanes = (u64::MAX >> (64 - 8 * u32::from(len))) as u32;
            let shift = 8 * lane;
            function.write(register, data << shift, lanes << shift);
        }
        true
    }

    /// The device and register that the address register selects; functions other than 0 and other buses are absent.
    fn selected(&self) -> Option<(usize, usize)> {
        let is_here = self.address & ENABLE != 0 && self.address & 0x00ff_0700 == 0;
        let device = (self.address >> 11 & 0x1f) as usize;
        is_here.then_some((device, (self.address & 0xfc) as usize))
    }

    /// The region at a guest-physical address, if the function decodes memory accesses.
    pub fn region(&self, addr: u64) -> Option<Region> {
        let mut functions = self.functions.iter().enumerate();
        functions.find_map(|(device, function)| {
            let (bar, offset) = function.region(addr)?;
            Some(Region {
                device,
                bar,
                offset,
            })
        })
    }
}

/// The offset in the data register of an access that lies within it.
fn lane(port: u16, len: u8) -> Option<u16> {
    let lane = port.checked_sub(PCI_DATA_PORT)?;
    (lane < 4 && matches!(len, 1 | 2 | 4) && lane + u16::from(len) <= 4).then_some(lane)
}

/// A host bridge, as device 0 of a bus.
pub fn host_bridge() -> ConfigSpace {
    ConfigSpace::new(&Header {
        // Red Hat's number for a host bridge of virtual machines without registers of its own.
        vendor: 0x1b36,
        device: 0x0008,
        revision: 0,
        class: 0x06_00_00,
        subsystem: (0, 0),
    })
}

#[cfg(test)]
mod tests;
