//! The node's interrupt controllers together, and the messages between them.
//!
//! Processors run by turns, so their clocks differ a little. A message carries the time
//! of whoever sent it: the receiver sees it at that time, or at its own where that is
//! later. Nothing depends on whose turn comes first but by this rule.

use belljar_cpu::Cycles;
use serde::{Deserialize, Serialize};

use crate::apic::{Command, Delivery, Effect, LocalApic, Message, Shorthand, Signal};
use crate::ioapic::{IoApic, PINS};

/// A time by the clock of one processor, whose turn it is.
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

    /// How many processors there are.
    pub fn processors(&self) -> usize {
        self.locals.len()
    }

    /// The local APIC of a processor; there must be one of that number.
    pub fn local(&self, processor: usize) -> &LocalApic {
        &self.locals[processor]
    }

    /// As [`local`](Self::local), to change it.
    pub fn local_mut(&mut self, processor: usize) -> &mut LocalApic {
        &mut self.locals[processor]
    }

    /// Sets a device's line and sends what follows from it.
    pub fn set_line(&mut self, pin: usize, asserted: bool, at: Moment) {
        self.io.set_line(pin, asserted);
        self.settle(at);
    }

    /// One edge on `pin`.
    pub fn pulse(&mut self, pin: usize, at: Moment) {
        self.set_line(pin, true, at);
        self.set_line(pin, false, at);
    }

    /// Carries out what a write to the local APIC of the processor whose turn it is asks
    /// of the others and of the IO-APIC. The task class when its CR8 has to follow.
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

    /// Moves the processor whose turn it is to its present time: its timer fires, and what
    /// was sent to it arrives.
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

    /// Messages of kinds that this machine does not deliver (SMI, ExtINT).
    pub fn undeliverable(&self) -> u64 {
        self.undeliverable
    }

    /// Sends each message that waits in the IO-APIC once.
    pub fn settle(&mut self, at: Moment) {
        let requests = self.io.requests();
        for pin in (0..PINS).filter(|pin| requests >> pin & 1 == 1) {
            if let Some(message) = self.io.message(pin) {
                let shorthand = Shorthand::None;
                let taken = self.send(&Command { message, shorthand }, at);
                self.io.sent(pin, taken);
            }
        }
    }

    /// Whether anybody may take what `command` sends; a level interrupt that nobody takes
    /// keeps asking.
    fn send(&mut self, command: &Command, at: Moment) -> bool {
        let message = &command.message;
        let Some(signal) = Signal::of(message) else {
            self.undeliverable += 1;
            return false;
        };
        let chosen = message.delivery == Delivery::LowestPriority;
        let targets = (0..self.locals.len()).filter(|&processor| {
            let local = &self.locals[processor];
            let own = processor == at.processor;
            // Another one says when it arrives whether it takes it.
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

    /// The one with the lowest processor priority; among equals the first.
    fn least_busy(&self, among: &[usize]) -> Option<usize> {
        let priority = |processor: usize| self.locals[processor].processor_priority();
        among.iter().copied().min_by_key(|&one| priority(one))
    }
}

fn is_meant(command: &Command, local: &LocalApic, is_sender: bool) -> bool {
    let Message {
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
