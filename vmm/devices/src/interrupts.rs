//! The node's interrupt controllers together.

use belljar_cpu::Cycles;

use crate::apic::{Effect, LocalApic};
use crate::ioapic::{IoApic, PINS};

/// One processor's local APIC and the node's IO-APIC.
#[derive(Clone, Debug)]
pub struct InterruptController {
    /// The processor's local APIC.
    pub local: LocalApic,
    /// The IO-APIC.
    pub io: IoApic,
}

impl InterruptController {
    /// The controllers after reset; `cycles_per_tick` is the local timer's unit.
    pub fn new(cycles_per_tick: u64) -> Self {
        Self {
            local: LocalApic::new(0, true, cycles_per_tick),
            io: IoApic::default(),
        }
    }

    /// Sets a device's line and sends what follows from it.
    pub fn set_line(&mut self, pin: usize, asserted: bool) {
        self.io.set_line(pin, asserted);
        self.settle();
    }

    /// One edge on `pin`.
    pub fn pulse(&mut self, pin: usize) {
        self.set_line(pin, true);
        self.set_line(pin, false);
    }

    /// Carries out what a write to the local APIC asks of the IO-APIC. The task
    /// class when the processor's CR8 has to follow.
    pub fn apply(&mut self, effect: Effect) -> Option<u8> {
        match effect {
            Effect::EndOfLevel(vector) => self.io.end_of_interrupt(vector),
            Effect::TaskClass(class) => return Some(class),
            Effect::None => {}
        }
        self.settle();
        None
    }

    /// Moves the local timer to `now`.
    pub fn advance(&mut self, now: Cycles) {
        self.local.advance(now);
    }

    /// Sends each message that waits in the IO-APIC once.
    pub fn settle(&mut self) {
        let requests = self.io.requests();
        for pin in (0..PINS).filter(|pin| requests >> pin & 1 == 1) {
            if let Some(message) = self.io.message(pin) {
                let taken = self.local.deliver(&message);
                self.io.sent(pin, taken);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_line_interrupts_until_it_is_served() {
        let mut both = InterruptController::new(1);
        both.io.write(0, 0x10 + 2 * 5);
        both.io.write(0x10, 0x8045);
        both.set_line(5, true);
        assert_eq!(both.local.pending(), None, "the local APIC is still off");
        let effect = both.local.write_page(0xf0, 4, 0x1ff, 0);
        both.apply(effect);
        assert_eq!(both.local.pending(), Some(0x45));
        both.local.accept(0x45);
        let effect = both.local.write_page(0xb0, 4, 0, 0);
        both.apply(effect);
        assert_eq!(both.local.pending(), Some(0x45), "the line is still up");
        both.local.accept(0x45);
        both.set_line(5, false);
        let effect = both.local.write_page(0xb0, 4, 0, 0);
        both.apply(effect);
        assert_eq!(both.local.pending(), None);
    }
}
