//! Registers: the command interface, reset, and doorbells.
//!
//! Multi-byte values are big-endian, as everything that the card shares with its driver. Accesses of other widths than the registers' have no
//! effect. The node calls these functions for accesses to the card's regions.

use serde::{Deserialize, Serialize};

use crate::command::{Command, of_registers};
use crate::{Hca, Step};

/// The command interface, and its owner's register.
const INTERFACE: u64 = 0x8_0680;
const INTERFACE_BYTES: u64 = 0x1c;
const CONTROL: u64 = 0x18;
const OWNER: u64 = 0x8_069c;
const RESET: u64 = 0xf_0010;
/// Written to clear an interrupt without MSI-X.
pub(crate) const CLEAR_INTERRUPT: u64 = 0xf_0800;
/// Zeros: no fatal error.
pub(crate) const ERRORS: u64 = 0xf_0900;

/// Doorbells in a page of their region.
const SEND: u64 = 0x14;
const ARM: u64 = 0x20;
const EVENTS: u64 = 0x800;
const PAGE: u64 = 4096;

/// The command interface's registers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Interface {
    /// As bytes.
    written: [u8; INTERFACE_BYTES as usize],
    /// Status, toggle and value of the last command.
    status: u8,
    toggle: bool,
}

impl Hca {
    /// A load from the registers.
    pub fn read_register(&self, offset: u64, len: u8) -> u64 {
        if len != 4 {
            return 0;
        }
        let interface = &self.core.interface;
        let value = match offset {
            _ if offset == INTERFACE + CONTROL => {
                u32::from(interface.status) << 24 | u32::from(interface.toggle) << 21
            }
            INTERFACE..OWNER => {
                let at = (offset - INTERFACE) as usize;
                let bytes = interface.written.get(at..at + 4);
                bytes.map_or(0, |bytes| crate::fields::u32_at(bytes, 0))
            }
            // The interface and the flash memory are free, and there are no errors.
            _ => 0,
        };
        u64::from(value.swap_bytes())
    }
}

impl Step<'_> {
    /// A store to the registers.
    pub(crate) fn write_register(&mut self, offset: u64, len: u8, value: u64) {
        if len != 4 || !offset.is_multiple_of(4) {
            return;
        }
        let bytes = (value as u32).to_le_bytes();
        match offset {
            RESET if bytes == [0, 0, 0, 1] => self.reset(),
            INTERFACE..OWNER => {
                let at = (offset - INTERFACE) as usize;
                self.core.interface.written[at..at + 4].copy_from_slice(&bytes);
                // The bit that hands the command over.
                if offset == INTERFACE + CONTROL && bytes[1] & 0x80 != 0 {
                    self.post();
                }
            }
            _ => {}
        }
    }

    fn post(&mut self) {
        let written = self.core.interface.written;
        let command: Command = of_registers(&written);
        self.core.interface.toggle = written[CONTROL as usize + 1] & 0x20 != 0;
        let (status, value) = self.execute(&command);
        self.core.interface.status = status as u8;
        if !command.by_event {
            self.core.interface.written[0x0c..0x14].copy_from_slice(&value.to_be_bytes());
        }
    }

    /// A store to the region of doorbells.
    pub(crate) fn write_doorbell(&mut self, offset: u64, len: u8, value: u64) {
        let (page, within) = (offset / PAGE, offset % PAGE);
        let first = (value as u32).swap_bytes();
        match (within, len) {
            (SEND, 4) => self.ring(first >> 8),
            (ARM, 8) => {
                let consumer = ((value >> 32) as u32).swap_bytes() & 0xff_ffff;
                self.arm(first & 0xff_ffff, first >> 24 & 7, consumer);
            }
            (EVENTS..0x820, 4) if within.is_multiple_of(8) => {
                let number = page * 4 + (within - EVENTS) / 8;
                self.ring_event_queue(number as u32, first & 0xff_ffff, first >> 31 == 1);
            }
            _ => {}
        }
    }
}
