//! Interrupt messages between local APICs, and from the IO-APIC to them (Intel SDM volume 3,
//! "Issuing Interprocessor Interrupts").
//!
//! Messages are accepted at their send times, in order. An inbox stays bounded however many
//! messages a guest sends, because equal ones merge. `interrupts` finds their recipients.

use belljar_cpu::Cycles;
use belljar_sim::Pending;
use serde::{Deserialize, Serialize};

/// An interrupt message on its way to local APICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptMessage {
    /// The vector; with [`Delivery::StartUp`], the page of the first instruction.
    pub vector: u8,
    /// The delivery mode.
    pub delivery: Delivery,
    /// True if level triggered rather than edge triggered: its EOI is broadcast to the IO-APIC.
    pub level: bool,
    /// The destination, physical APIC id or logical mask.
    pub destination: u32,
    /// True if `destination` is logical.
    pub logical: bool,
}

/// Delivery modes of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// To the vector.
    Fixed,
    /// To the vector, at the least busy destination.
    LowestPriority,
    /// As a non-maskable interrupt; the vector is ignored.
    Nmi,
    /// Resets the processor, which then waits to be started.
    Init,
    /// Starts a processor that waits for it, in real mode in the page `vector`.
    StartUp,
    /// SMI or ExtINT: this machine neither sends nor accepts them.
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

/// The destination shorthand of an [`InterruptCommand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shorthand {
    /// No shorthand: use the destination field.
    None,
    /// The sender alone.
    Own,
    /// All processors.
    All,
    /// All processors but the sender.
    Others,
}

/// A command in the interrupt command register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptCommand {
    /// The message to send.
    pub message: InterruptMessage,
    /// Its recipients.
    pub shorthand: Shorthand,
}

impl InterruptCommand {
    const LEVEL_ASSERTED: u64 = 1 << 14;
    const LEVEL_TRIGGERED: u64 = 1 << 15;

    /// Decodes the interrupt command register; `destination` is in the format of the APIC's mode.
    /// `None` for an INIT de-assert, which processors since the Pentium 4 ignore.
    pub(super) fn decode(register: u64, destination: u32) -> Option<Self> {
        let delivery = Delivery::from_bits((register >> 8) as u8);
        let ends = register & (Self::LEVEL_ASSERTED | Self::LEVEL_TRIGGERED);
        if delivery == Delivery::Init && ends == Self::LEVEL_TRIGGERED {
            return None;
        }
        Some(Self {
            message: InterruptMessage {
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

/// A message's effect on its recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Signal {
    Vector { vector: u8, level: bool },
    Nmi,
    Start(StartSignal),
}

impl Signal {
    /// `None` for messages that no local APIC accepts.
    pub(crate) fn of(message: &InterruptMessage) -> Option<Self> {
        let &InterruptMessage { vector, level, .. } = message;
        Some(match message.delivery {
            Delivery::Fixed | Delivery::LowestPriority => Self::Vector { vector, level },
            Delivery::Nmi => Self::Nmi,
            Delivery::Init => Self::Start(StartSignal::Init),
            Delivery::StartUp => Self::Start(StartSignal::StartUp(vector)),
            Delivery::Other(_) => return None,
        })
    }
}

/// Signals that reset and start a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartSignal {
    /// It is reset, and waits to be started.
    Init,
    /// It starts in real mode at the beginning of this page, if it waits for that.
    StartUp(u8),
}

/// Messages sent by another processor that have not arrived yet: processors run in turns, so the
/// sender's clock may be ahead.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Inbox {
    waiting: Pending<Cycles, Signal>,
}

impl Inbox {
    /// The number of messages in flight above which equal ones merge, as the request register
    /// merges them on arrival. So a guest cannot exhaust the host's memory.
    const MANY: usize = 256;

    pub(super) fn push(&mut self, at: Cycles, signal: Signal) {
        let merges = self.waiting.values().len() >= Self::MANY;
        if merges && self.waiting.values().any(|waiting| *waiting == signal) {
            return;
        }
        self.waiting.push(at, signal);
    }

    pub(super) fn next(&self) -> Option<Cycles> {
        self.waiting.next()
    }

    pub(super) fn pop_due(&mut self, now: Cycles) -> Option<Signal> {
        self.waiting.pop_due(now)
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
        assert_eq!(inbox.waiting.values().len(), Inbox::MANY + 1);
        assert_eq!(inbox.pop_due(9_000), None);
        assert_eq!(inbox.next(), Some(10_000 - Inbox::MANY as u64));
        let all: Vec<Signal> = std::iter::from_fn(|| inbox.pop_due(9_990)).collect();
        assert_eq!(all.last(), Some(&Signal::Start(StartSignal::Init)));
        assert_eq!(all.len(), Inbox::MANY - 8);
    }

    #[test]
    fn the_end_of_an_init_is_nothing() {
        assert_eq!(InterruptCommand::decode(0x8500, 1), None);
        let init = InterruptCommand::decode(0xc500, 1).unwrap();
        assert_eq!(init.message.delivery, Delivery::Init);
        let start = InterruptCommand::decode(0xc_0699, 7).unwrap();
        assert_eq!(
            (start.shorthand, Signal::of(&start.message)),
            (
                Shorthand::Others,
                Some(Signal::Start(StartSignal::StartUp(0x99)))
            )
        );
    }
}
