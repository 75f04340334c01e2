//! The IO-APIC (Intel 82093AA, with the EOI register of later versions).
//!
//! An edge on a pin makes one request; a level requests as long as the line is up and its interrupt
//! is not in service. `interrupts` takes the requests, delivers the messages and reports the
//! accepted ones back; devices set the lines through the node.

use crate::apic::{Delivery, InterruptMessage};
use serde::{Deserialize, Serialize};

/// Interrupt inputs.
pub const PINS: usize = 24;

const SELECT: u64 = 0x00;
const WINDOW: u64 = 0x10;
const EOI: u64 = 0x40;

const VERSION: u32 = 0x20;

const ENTRY_LOGICAL: u64 = 1 << 11;
const ENTRY_REMOTE_IRR: u64 = 1 << 14;
const ENTRY_LEVEL: u64 = 1 << 15;
const ENTRY_MASKED: u64 = 1 << 16;
/// Vector, delivery and destination mode, polarity, trigger, mask, destination.
const ENTRY_WRITABLE: u64 = 0xff00_0000_0001_afff;

/// The IO-APIC. A pin's *line* is true while its device asserts the interrupt, regardless of the
/// polarity that the guest configured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IoApic {
    id: u32,
    select: u8,
    entries: [u64; PINS],
    lines: u32,
    edges: u32,
}

impl Default for IoApic {
    fn default() -> Self {
        Self {
            id: 0,
            select: 0,
            entries: [ENTRY_MASKED; PINS],
            lines: 0,
            edges: 0,
        }
    }
}

impl IoApic {
    /// Guest-physical address of the registers.
    pub const BASE: u64 = 0xfec0_0000;
    /// Bytes of the register window.
    pub const SIZE: u64 = 0x1000;

    /// Sets the line of `pin`. A rising line of an edge-triggered, unmasked pin is
    /// remembered until delivered; pins beyond the last are ignored.
    pub fn set_line(&mut self, pin: usize, asserted: bool) {
        let Some(entry) = self.entries.get(pin) else {
            return;
        };
        let bit = 1 << pin;
        if !asserted {
            self.lines &= !bit;
            return;
        }
        let rising = self.lines & bit == 0;
        self.lines |= bit;
        if rising && entry & (ENTRY_LEVEL | ENTRY_MASKED) == 0 {
            self.edges |= bit;
        }
    }

    /// The pins that request delivery now, a bit each.
    pub fn requests(&self) -> u32 {
        if self.lines | self.edges == 0 {
            return 0;
        }
        let level = self
            .entries
            .iter()
            .enumerate()
            .fold(0, |pins, (pin, entry)| {
                let waits = entry & (ENTRY_LEVEL | ENTRY_MASKED | ENTRY_REMOTE_IRR) == ENTRY_LEVEL;
                pins | u32::from(waits) << pin
            });
        self.edges | self.lines & level
    }

    /// The message that `pin` sends.
    pub fn message(&self, pin: usize) -> Option<InterruptMessage> {
        let entry = *self.entries.get(pin)?;
        Some(InterruptMessage {
            vector: entry as u8,
            delivery: Delivery::from_bits((entry >> 8) as u8),
            level: entry & ENTRY_LEVEL != 0,
            destination: (entry >> 56) as u32,
            logical: entry & ENTRY_LOGICAL != 0,
        })
    }

    /// The message of `pin` was sent: `taken` by a local APIC, or refused. A refused edge is lost,
    /// a refused level stays requested.
    pub fn sent(&mut self, pin: usize, taken: bool) {
        if let Some(entry) = self.entries.get_mut(pin) {
            self.edges &= !(1 << pin);
            if taken && *entry & ENTRY_LEVEL != 0 {
                *entry |= ENTRY_REMOTE_IRR;
            }
        }
    }

    /// Handles the EOI of a level interrupt with `vector` in a local APIC.
    pub fn end_of_interrupt(&mut self, vector: u8) {
        for entry in &mut self.entries {
            if *entry as u8 == vector {
                *entry &= !ENTRY_REMOTE_IRR;
            }
        }
    }

    /// A load from the register window.
    pub fn read(&self, offset: u64) -> u32 {
        match offset {
            SELECT => u32::from(self.select),
            WINDOW => self.read_register(),
            _ => 0,
        }
    }

    /// A store into the register window.
    pub fn write(&mut self, offset: u64, value: u32) {
        match offset {
            SELECT => self.select = value as u8,
            WINDOW => self.write_register(value),
            EOI => self.end_of_interrupt(value as u8),
            _ => {}
        }
    }

    fn selected(&self) -> Option<(usize, u32)> {
        let index = usize::from(self.select.checked_sub(0x10)?);
        (index / 2 < PINS).then_some((index / 2, index as u32 % 2 * 32))
    }

    fn read_register(&self) -> u32 {
        match self.select {
            0 | 2 => self.id,
            1 => VERSION | (PINS as u32 - 1) << 16,
            _ => self
                .selected()
                .map_or(0, |(pin, shift)| (self.entries[pin] >> shift) as u32),
        }
    }

    fn write_register(&mut self, value: u32) {
        if self.select == 0 {
            self.id = value & 0x0f00_0000;
        }
        let Some((pin, shift)) = self.selected() else {
            return;
        };
        let half = 0xffff_ffff << shift;
        let entry = &mut self.entries[pin];
        let written = (u64::from(value) << shift) & half & ENTRY_WRITABLE;
        *entry = *entry & !(half & ENTRY_WRITABLE) | written;
        // Switching a pin to edge ends a level interrupt in service; kernels use this as an EOI on
        // chips without an EOI register.
        if *entry & ENTRY_LEVEL == 0 {
            *entry &= !ENTRY_REMOTE_IRR;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn program(ioapic: &mut IoApic, pin: u32, entry: u64) {
        for half in 0..2 {
            ioapic.write(SELECT, 0x10 + pin * 2 + half);
            ioapic.write(WINDOW, (entry >> (32 * half)) as u32);
        }
    }

    #[test]
    fn an_edge_is_sent_once_and_lost_while_masked() {
        let mut ioapic = IoApic::default();
        ioapic.set_line(4, true);
        program(&mut ioapic, 4, 0x31);
        assert_eq!(ioapic.requests(), 0);
        ioapic.set_line(4, false);
        ioapic.set_line(4, true);
        ioapic.set_line(4, true);
        assert_eq!(ioapic.requests(), 1 << 4);
        assert_eq!(ioapic.message(4).unwrap().vector, 0x31);
        ioapic.sent(4, true);
        assert_eq!(ioapic.requests(), 0);
    }

    #[test]
    fn a_level_asks_again_after_its_end_until_the_line_falls() {
        let mut ioapic = IoApic::default();
        program(&mut ioapic, 16, 0x0300_0000_0000_8055);
        ioapic.set_line(16, true);
        assert_eq!(ioapic.message(16).unwrap().destination, 3);
        ioapic.sent(16, false);
        assert_eq!(ioapic.requests(), 1 << 16, "refused levels keep asking");
        ioapic.sent(16, true);
        assert_eq!(ioapic.requests(), 0);
        ioapic.end_of_interrupt(0x54);
        assert_eq!(ioapic.requests(), 0);
        ioapic.write(EOI, 0x55);
        assert_eq!(ioapic.requests(), 1 << 16);
        ioapic.set_line(16, false);
        assert_eq!(ioapic.requests(), 0);
    }

    #[test]
    fn a_guest_cannot_set_what_is_read_only() {
        let mut ioapic = IoApic::default();
        program(&mut ioapic, 0, u64::MAX);
        ioapic.write(SELECT, 0x10);
        assert_eq!(ioapic.read(WINDOW), 0x0001_afff);
        ioapic.write(SELECT, 1);
        assert_eq!(ioapic.read(WINDOW), 0x0017_0020);
        ioapic.write(SELECT, 0xff);
        ioapic.write(WINDOW, 7);
        assert_eq!(ioapic.read(WINDOW), 0);
    }

    proptest! {
        #[test]
        fn any_access_is_survived(ops in proptest::collection::vec((0u64..0x50, any::<u32>(), any::<u8>()), 1..200)) {
            let mut ioapic = IoApic::default();
            for (offset, value, pin) in ops {
                ioapic.write(offset & !0xf, value);
                ioapic.set_line(usize::from(pin & 63), value & 1 == 1);
                for pin in 0..PINS {
                    if ioapic.requests() >> pin & 1 == 1 {
                        let message = ioapic.message(pin).unwrap();
                        ioapic.sent(pin, true);
                        prop_assert_eq!(ioapic.requests() >> pin & 1, 0);
                        ioapic.end_of_interrupt(message.vector);
                    }
                }
            }
        }
    }
}
