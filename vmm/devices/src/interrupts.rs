//! The node's interrupt controllers together, and the messages between them.
//!
//! Processors run in turns, so their clocks differ slightly. A message carries its sender's time:
//! the receiver accepts it at that time, or at its own time if that is later. Otherwise, the order
//! of turns has no effect.

use belljar_cpu::Cycles;
use serde::{Deserialize, Serialize};

use crate::apic::{
    APIC_BASE, Delivery, Effect, InterruptCommand, InterruptMessage, LocalApic, Shorthand, Signal,
};
use crate::ioapic::{IoApic, PINS};

/// A time on the clock of the current processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The processor's number, which is its APIC id.
    pub processor: usize,
    /// Its clock.
    pub now: Cycles,
}

/// All processors' local APICs and the node's IO-APIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InterruptController {
    locals: Vec<LocalApic>,
    /// The IO-APIC.
    pub io: IoApic,
    undeliverable: u64,
}

impl InterruptController {
    /// The controllers of `processors` processors (at least 1) after reset;
    /// `cycles_per_tick` is the local timers' unit.
    pub fn new(processors: u32, cycles_per_tick: u64) -> Self {
        let local = |id| LocalApic::new(id, id == 0, cycles_per_tick);
        Self {
            locals: (0..processors.max(1)).map(local).collect(),
            io: IoApic::default(),
            undeliverable: 0,
        }
    }

    /// The number of processors.
    pub fn processors(&self) -> usize {
        self.locals.len()
    }

    /// The local APIC of a processor. Panics if there is no such processor.
    pub fn local(&self, processor: usize) -> &LocalApic {
        &self.locals[processor]
    }

    /// As [`local`](Self::local), for modification.
    pub fn local_mut(&mut self, processor: usize) -> &mut LocalApic {
        &mut self.locals[processor]
    }

    /// Sets a device's line and sends the resulting messages.
    pub fn set_line(&mut self, pin: usize, asserted: bool, at: Moment) {
        self.io.set_line(pin, asserted);
        self.settle(at);
    }

    /// Raises an edge on `pin`.
    pub fn pulse(&mut self, pin: usize, at: Moment) {
        self.set_line(pin, true, at);
        self.set_line(pin, false, at);
    }

    /// Sends the interrupt that a device requests by a write to the local APICs' address range (Intel SDM volume 3,
    /// "Message Signalled Interrupts"). Writes elsewhere are no interrupts.
    pub fn message(&mut self, address: u64, data: u32, at: Moment) {
        if address >> 20 != APIC_BASE >> 20 {
            return;
        }
        let message = InterruptMessage {
            vector: data as u8,
            delivery: Delivery::from_bits((data >> 8) as u8),
            level: false,
            destination: (address >> 12 & 0xff) as u32,
            logical: address >> 2 & 1 == 1,
        };
        let shorthand = Shorthand::None;
        self.send(&InterruptCommand { message, shorthand }, at);
    }

    /// Performs a local APIC write's effect on other processors and on the IO-APIC. Returns the
    /// task class if the current processor's CR8 must be set to it.
    pub fn apply(&mut self, effect: Effect, at: Moment) -> Option<u8> {
        match effect {
            Effect::EndOfLevel(vector) => self.io.end_of_interrupt(vector),
            Effect::TaskClass(class) => return Some(class),
            Effect::Send(command) => {
                self.send(&command, at);
            }
            Effect::None => {}
        }
        self.settle(at);
        None
    }

    /// Advances the current processor to its present time: its timer fires, and messages arrive.
    pub fn advance(&mut self, at: Moment) {
        let local = &mut self.locals[at.processor];
        local.advance(at.now);
        let refused = local.take_refused();
        if !refused.is_empty() {
            for vector in refused {
                self.io.end_of_interrupt(vector);
            }
            self.settle(at);
        }
    }

    /// The number of messages of kinds that this machine does not deliver (SMI, ExtINT).
    pub fn undeliverable(&self) -> u64 {
        self.undeliverable
    }

    /// Sends each message pending in the IO-APIC once.
    pub fn settle(&mut self, at: Moment) {
        let requests = self.io.requests();
        for pin in (0..PINS).filter(|pin| requests >> pin & 1 == 1) {
            if let Some(message) = self.io.message(pin) {
                let shorthand = Shorthand::None;
                let taken = self.send(&InterruptCommand { message, shorthand }, at);
                self.io.sent(pin, taken);
            }
        }
    }

    /// Sends `command`. Returns true if some APIC may accept it; a refused level interrupt stays
    /// pending.
    fn send(&mut self, command: &InterruptCommand, at: Moment) -> bool {
        let message = &command.message;
        let Some(signal) = Signal::of(message) else {
            self.undeliverable += 1;
            return false;
        };
        let chosen = message.delivery == Delivery::LowestPriority;
        let targets = (0..self.locals.len()).filter(|&processor| {
            let local = &self.locals[processor];
            let own = processor == at.processor;
            // Other processors decide at the message's arrival whether to accept it.
            is_meant(command, local, own) && (local.takes(signal) || !(own || chosen))
        });
        let mut targets: Vec<usize> = targets.collect();
        if chosen {
            targets = self.least_busy(&targets).into_iter().collect();
        }
        for &processor in &targets {
            let local = &mut self.locals[processor];
            if processor == at.processor {
                local.receive(signal);
            } else {
                local.expect(at.now, signal);
            }
        }
        !targets.is_empty()
    }

    /// The processor with the lowest priority; among equals the first.
    fn least_busy(&self, among: &[usize]) -> Option<usize> {
        let priority = |processor: usize| self.locals[processor].processor_priority();
        among.iter().copied().min_by_key(|&one| priority(one))
    }
}

fn is_meant(command: &InterruptCommand, local: &LocalApic, is_sender: bool) -> bool {
    let InterruptMessage {
        destination,
        logical,
        ..
    } = command.message;
    match command.shorthand {
        Shorthand::None => local.is_destination(destination, logical),
        Shorthand::Own => is_sender,
        Shorthand::All => true,
        Shorthand::Others => !is_sender,
    }
}

#[cfg(test)]
mod tests;
