//! Interrupt messages: what travels between local APICs, and to them from the IO-APIC
//! (Intel SDM volume 3, "Issuing Interprocessor Interrupts").
//!
//! Messages are taken at the time that they were sent for, in the order of times; however many a
//! guest sends, an inbox stays bounded, as equal ones merge. `interrupts` finds out for whom they
//! are.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use belljar_cpu::Cycles;

/// An interrupt message on its way to local APICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The vector; with [`Delivery::StartUp`] the page to start in.
    pub vector: u8,
    /// How it is delivered.
    pub delivery: Delivery,
    /// Level rather than edge triggered: its EOI is broadcast to the IO-APIC.
    pub level: bool,
    /// The destination, physical APIC id or logical mask.
    pub destination: u32,
    /// Whether `destination` is logical.
    pub logical: bool,
}

/// Delivery modes that this machine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// To the vector.
    Fixed,
    /// To the vector, at the least busy destination.
    LowestPriority,
    /// As a non-maskable interrupt, whatever the vector.
    Nmi,
    /// Resets the processor, which then waits to be started.
    Init,
    /// Starts a processor that waits for it, in real mode in the page `vector`.
    StartUp,
    /// SMI or ExtINT: nothing on this machine sends or takes them.
    Other(u8),
}

impl Delivery {
    /// Decodes the three delivery-mode bits of LVT, ICR and redirection entries.
    pub fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            0 => Self::Fixed,
            1 => Self::LowestPriority,
            4 => Self::Nmi,
            5 => Self::Init,
            6 => Self::StartUp,
            other => Self::Other(other),
        }
    }
}

/// For whom a [`Command`] is when its destination does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shorthand {
    /// The destination says it.
    None,
    /// The sender alone.
    Own,
    /// Everybody.
    All,
    /// Everybody but the sender.
    Others,
}

/// What a write to the interrupt command register asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is sent.
    pub message: Message,
    /// To whom.
    pub shorthand: Shorthand,
}

impl Command {
    const LEVEL_ASSERTED: u64 = 1 << 14;
    const LEVEL_TRIGGERED: u64 = 1 << 15;

    /// Decodes the interrupt command register; `destination` as the APIC's mode has it.
    /// `None` for the end of an INIT, which processors since the Pentium 4 ignore.
    pub(super) fn decode(register: u64, destination: u32) -> Option<Self> {
        let delivery = Delivery::from_bits((register >> 8) as u8);
        let ends = register & (Self::LEVEL_ASSERTED | Self::LEVEL_TRIGGERED);
        if delivery == Delivery::Init && ends == Self::LEVEL_TRIGGERED {
            return None;
        }
        Some(Self {
            message: Message {
                vector: register as u8,
                delivery,
                level: false,
                destination,
                logical: register >> 11 & 1 == 1,
            },
            shorthand: match register >> 18 & 3 {
                0 => Shorthand::None,
                1 => Shorthand::Own,
                2 => Shorthand::All,
                _ => Shorthand::Others,
            },
        })
    }
}

/// What a message is to the one that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Signal {
    Vector { vector: u8, level: bool },
    Nmi,
    Start(StartSignal),
}

impl Signal {
    /// `None` for what nobody takes.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let &Message { vector, level, .. } = message;
        Some(match message.delivery {
            Delivery::Fixed | Delivery::LowestPriority => Self::Vector { vector, level },
            Delivery::Nmi => Self::Nmi,
            Delivery::Init => Self::Start(StartSignal::Init),
            Delivery::StartUp => Self::Start(StartSignal::StartUp(vector)),
            Delivery::Other(_) => return None,
        })
    }
}

/// What resets a processor and starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartSignal {
    /// It is reset, and waits to be started.
    Init,
    /// It starts in real mode at the beginning of this page, if it waits for that.
    StartUp(u8),
}

/// Messages that another processor has sent and whose time here has not come yet:
/// processors run by turns, and the sender's clock may be ahead.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Inbox {
    waiting: BTreeMap<(Cycles, u64), Signal>,
    count: u64,
}

impl Inbox {
    /// Messages in flight beyond which equal ones are merged, as the request register
    /// merges them on arrival: a guest cannot fill the host's memory with them.
    const MANY: usize = 256;

    pub(super) fn push(&mut self, at: Cycles, signal: Signal) {
        let merges = self.waiting.len() >= Self::MANY;
        if merges && self.waiting.values().any(|waiting| *waiting == signal) {
            return;
        }
        self.waiting.insert((at, self.count), signal);
        self.count += 1;
    }

    pub(super) fn next(&self) -> Option<Cycles> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Cycles) -> Option<Signal> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_at_their_time_and_do_not_pile_up() {
        let mut inbox = Inbox::default();
        for at in (0..10_000).rev() {
            inbox.push(at, Signal::Nmi);
        }
        inbox.push(9_990, Signal::Start(StartSignal::Init));
        assert_eq!(inbox.waiting.len(), Inbox::MANY + 1);
        assert_eq!(inbox.pop_due(9_000), None);
        assert_eq!(inbox.next(), Some(10_000 - Inbox::MANY as u64));
        let all: Vec<Signal> = std::iter::from_fn(|| inbox.pop_due(9_990)).collect();
        assert_eq!(all.last(), Some(&Signal::Start(StartSignal::Init)));
        assert_eq!(all.len(), Inbox::MANY - 8);
    }

    #[test]
    fn the_end_of_an_init_is_nothing() {
        assert_eq!(Command::decode(0x8500, 1), None);
        let init = Command::decode(0xc500, 1).unwrap();
        assert_eq!(init.message.delivery, Delivery::Init);
        let start = Command::decode(0xc_0699, 7).unwrap();
        assert_eq!(
            (start.shorthand, Signal::of(&start.message)),
            (
                Shorthand::Others,
                Some(Signal::Start(StartSignal::StartUp(0x99)))
            )
        );
    }
}
