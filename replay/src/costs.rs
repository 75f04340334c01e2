//! Processors' work for messages, and the protocols of MPI libraries.
//!
//! Costs are cycles of a node's processor, so that they scale with its clock. The figures were fitted by `belljar replay calibrate` to four runs of the built-in
//! scenario `pingpong`: unchanged, with 1 Gb/s, with 100 Gb/s, and with 20 us. Costs that these do not determine (`begin`, `combine`, `copy`) are estimated. Each
//! call's residual has the error. Used by the engine.

/// Messages within a host.
mod shared_memory;
/// Costs as times.
mod spans;

use belljar_networks::frames_of;
use belljar_sim::Frequency;
use belljar_trace::{Implementation, MpiLibrary};
use serde::{Deserialize, Serialize};

pub use shared_memory::SharedMemory;
pub(crate) use spans::{Medium, Spans};

/// A library's protocol for large messages, which are not sent before the receiver wants them. Each leg is a message, which the receiving process answers with the
/// next leg as soon as it is in MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Request, permission, data, acknowledgement, end: UCX over TCP, which writes into the other's memory and waits for completion.
    Put,
    /// Request, permission, data: Open MPI over TCP.
    Send,
    /// Request, acknowledgement: the receiver copies the data from the sender's memory, on one host.
    Get,
    /// Request, read, data, end: UCX over InfiniBand. The receiver's card asks for the data, and the sender's card sends them without its processor.
    Read,
}

/// A leg of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leg {
    /// True if it goes from the sender to the receiver.
    pub(crate) onward: bool,
    /// True if it contains the data.
    pub(crate) data: bool,
    /// True if the sender's card begins it by itself when the leg before it arrives.
    pub(crate) by_card: bool,
}

/// Legs of a first contact; later messages skip the first two.
const LEGS: [Leg; 7] = [
    Leg::control(true),
    Leg::control(false),
    Leg::control(true),
    Leg::control(false),
    Leg {
        onward: true,
        data: true,
        by_card: false,
    },
    Leg::control(false),
    Leg::control(true),
];
/// Legs of a message that the receiver copies.
const LEGS_OF_GET: [Leg; 2] = [Leg::control(true), Leg::control(false)];
/// Legs of a message that the receiver's card reads.
const LEGS_OF_READ: [Leg; 4] = [
    Leg::control(true),
    Leg::control(false),
    Leg {
        onward: true,
        data: true,
        by_card: true,
    },
    Leg::control(false),
];
/// Number of legs that only a first contact has.
const FIRST_LEGS: usize = 2;

impl Leg {
    const fn control(onward: bool) -> Self {
        Self {
            onward,
            data: false,
            by_card: false,
        }
    }
}

impl Protocol {
    /// Returns its legs. In a first `contact` the receiver sends a request back to the sender before it permits the data.
    pub(crate) fn legs(self, contact: bool) -> &'static [Leg] {
        let first = if contact { 0 } else { FIRST_LEGS };
        match self {
            Self::Put => &LEGS[first..],
            Self::Send => &LEGS[first..FIRST_LEGS + 3],
            Self::Get => &LEGS_OF_GET,
            Self::Read => &LEGS_OF_READ,
        }
    }

    /// Returns one of its legs; the last if the number is too large.
    pub(crate) fn leg(self, leg: usize, contact: bool) -> Leg {
        let legs = self.legs(contact);
        legs[leg.min(legs.len() - 1)]
    }

    /// True if a card begins this leg by itself.
    pub(crate) fn is_by_card(self, leg: usize) -> bool {
        self == Self::Read && LEGS_OF_READ.get(leg).is_some_and(|leg| leg.by_card)
    }

    /// Returns the leg whose arrival completes the send; `None` if it is complete when all data has been handed over.
    pub(crate) fn sender_done(self, contact: bool) -> Option<usize> {
        match self {
            Self::Put => Some(self.legs(contact).len() - 2),
            Self::Get => Some(1),
            Self::Read => Some(3),
            Self::Send => None,
        }
    }
}

/// Cycles of work for a message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Cycles for its first frame.
    pub first: f64,
    /// Additional cycles if it has several frames.
    pub several: f64,
    /// Cycles for each further frame.
    pub frame: f64,
}

impl Work {
    /// Returns the cycles for a message of this many bytes.
    pub(crate) fn cycles(&self, bytes: u64) -> f64 {
        let further = frames_of(bytes) - 1;
        let several = if further > 0 { self.several } else { 0.0 };
        self.first + several + self.frame * further as f64
    }
}

/// Processors' work for messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Work of a sender, in the call that sends.
    pub send: Work,
    /// Work of a receiver, in the call that waits for the message.
    pub receive: Work,
    /// Cycles of a receiver's system for each further frame, independent of the process.
    pub take_in: f64,
    /// Cycles for a control message of the protocol.
    pub control: f64,
    /// Cycles that a process works before it answers the first large message of another: UCX creates an endpoint. Zero if the library has no such cost.
    #[serde(default)]
    pub contact: f64,
    /// Cycles to begin an operation, such as a receive or a wait.
    pub begin: f64,
    /// Cycles to combine a byte in a reduction.
    pub combine: f64,
    /// Cycles to copy a byte.
    pub copy: f64,
    /// Bytes of the library's header before each message's data.
    pub header: u64,
    /// Size in bytes from which on a message is sent by the rendezvous protocol. If absent, UCX's rule computes it from the speed of the sender's link
    /// (`ucx_rendezvous`).
    #[serde(default)]
    pub rendezvous: Option<u64>,
    /// The rendezvous protocol.
    pub protocol: Protocol,
    /// Costs of messages between processes of one host.
    #[serde(default)]
    pub shared_memory: SharedMemory,
}

/// An invalid cost.
#[derive(Debug, thiserror::Error)]
#[error("{name} is {value}: it must be a number from 0 to {MOST_CYCLES:e}")]
pub struct CostsError {
    name: &'static str,
    value: f64,
}

/// Most cycles of a cost: some five minutes.
const MOST_CYCLES: f64 = 1e12;

impl Costs {
    /// Checks that the costs are valid.
    ///
    /// # Errors
    /// Returns [`CostsError`] for the first invalid cost.
    pub fn check(&self) -> Result<(), CostsError> {
        let Self {
            send,
            receive,
            shared_memory,
            ..
        } = self;
        for (name, value) in [
            ("send.first", send.first),
            ("send.several", send.several),
            ("send.frame", send.frame),
            ("receive.first", receive.first),
            ("receive.several", receive.several),
            ("receive.frame", receive.frame),
            ("take_in", self.take_in),
            ("control", self.control),
            ("contact", self.contact),
            ("begin", self.begin),
            ("combine", self.combine),
            ("copy", self.copy),
            ("header", self.header as f64),
            ("shared_memory.send", shared_memory.send),
            ("shared_memory.receive", shared_memory.receive),
            ("shared_memory.get", shared_memory.get),
            ("shared_memory.latency", shared_memory.latency),
            ("shared_memory.copy", shared_memory.copy),
        ] {
            if !(0.0..=MOST_CYCLES).contains(&value) {
                return Err(CostsError { name, value });
            }
        }
        Ok(())
    }

    /// Returns the costs of a library, over TCP.
    pub fn of(implementation: Implementation) -> Self {
        let own = Self {
            send: Work {
                first: 9_000.0,
                several: 2_000.0,
                frame: 2_730.0,
            },
            receive: Work {
                first: 7_470.0,
                several: 4_650.0,
                frame: 490.0,
            },
            take_in: 4_580.0,
            control: 23_300.0,
            contact: 156_000.0,
            begin: 300.0,
            combine: 0.4,
            copy: 0.1,
            header: 16,
            rendezvous: None,
            protocol: Protocol::Put,
            shared_memory: SharedMemory::MPICH,
        };
        match implementation.library() {
            MpiLibrary::Mpich | MpiLibrary::Unknown => own,
            MpiLibrary::OpenMpi => Self {
                contact: 0.0,
                rendezvous: Some(65_500),
                protocol: Protocol::Send,
                shared_memory: SharedMemory::OPEN_MPI,
                ..own
            },
        }
    }

    /// Returns the costs of a library, over InfiniBand cards. UCX serves both libraries, without the kernel. The figures are from ping-pongs of one
    /// program of growing messages on nodes of 1 and of 4 GHz: the part of a message's time that scales with the clock. Messages of at least `rendezvous`
    /// bytes are read by their receiver's card.
    pub fn over_infiniband(implementation: Implementation, rendezvous: u64) -> Self {
        let own = Self {
            send: Work {
                first: 800.0,
                several: 350.0,
                frame: 20.0,
            },
            receive: Work {
                first: 900.0,
                several: 350.0,
                frame: 60.0,
            },
            take_in: 0.0,
            control: 3_100.0,
            contact: 0.0,
            header: 16,
            rendezvous: Some(rendezvous),
            protocol: Protocol::Read,
            ..Self::of(implementation)
        };
        match implementation.library() {
            MpiLibrary::Mpich | MpiLibrary::Unknown => own,
            MpiLibrary::OpenMpi => Self {
                send: Work {
                    first: 550.0,
                    several: 300.0,
                    frame: 5.0,
                },
                receive: Work {
                    first: 700.0,
                    several: 300.0,
                    frame: 10.0,
                },
                control: 2_900.0,
                ..own
            },
        }
    }

    /// Returns zero costs with the same protocol.
    pub(crate) fn none(of: &Self) -> Self {
        const NONE: Work = Work {
            first: 0.0,
            several: 0.0,
            frame: 0.0,
        };
        Self {
            send: NONE,
            receive: NONE,
            take_in: 0.0,
            control: 0.0,
            contact: 0.0,
            begin: 0.0,
            shared_memory: SharedMemory::none(&of.shared_memory),
            ..*of
        }
    }

    /// Converts the costs to picoseconds on processors with the processes' clocks; the last clock applies to all further processes.
    pub(crate) fn at(&self, clocks: &[Frequency], scale: f64) -> Spans {
        let ps = |clock: &Frequency| scale * 1e12 / clock.as_hz() as f64;
        Spans {
            costs: *self,
            ps: clocks.iter().map(ps).collect(),
            rendezvous: Vec::new(),
        }
    }

    /// Returns the bytes from which on a message is large, over a link of `bandwidth` bits per second.
    fn large(&self, bandwidth: u64) -> u64 {
        self.rendezvous.unwrap_or_else(|| ucx_rendezvous(bandwidth))
    }
}

/// Returns the bytes from which on UCX 1.13 sends a message by its rendezvous protocol, over TCP on a link of `bandwidth` bits per second.
///
/// UCX compares its estimates of both protocols, which depend on the link's speed: a threshold of the form (a + b / speed) / (1 + c / speed). The three figures
/// reproduce the first large message, found by bisection in runs of two nodes at 0.1, 1, 2, 10, 25, 100 and 400 Gb/s, within two bytes.
fn ucx_rendezvous(bandwidth: u64) -> u64 {
    let per_gigabit = 1e9 / bandwidth.max(1) as f64;
    ((19_511.3 + 368.5 * per_gigabit) / (1.0 + 0.013_55 * per_gigabit)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_are_as_measured() {
        // Gigabits per second, and bytes of the first large message of a run.
        let measured = [
            (0.1, 20_428),
            (1.0, 19_614),
            (2.0, 19_563),
            (10.0, 19_522),
            (25.0, 19_516),
            (100.0, 19_513),
            (400.0, 19_512),
        ];
        for (speed, first) in measured {
            let found = ucx_rendezvous((speed * 1e9) as u64);
            assert!(found.abs_diff(first) <= 2, "{speed} Gb/s: {found}");
        }
    }

    #[test]
    fn a_message_is_large_by_the_link_of_its_sender() {
        let clocks = [Frequency::from_hz(1_000_000_000).expect("a clock")];
        let mpich = Costs::of(Implementation::Mpich).at(&clocks, 1.0);
        let spans = mpich.over([1_000_000_000, 100_000_000_000].into_iter());
        assert_eq!(
            [0, 1].map(|process| spans.is_large(process, Medium::Network, 19_550)),
            [false, true]
        );
        let open_mpi = Costs::of(Implementation::OpenMpi).at(&clocks, 1.0);
        let spans = open_mpi.over([1_000_000_000, 100_000_000_000].into_iter());
        assert_eq!(
            [0, 1].map(|process| spans.is_large(process, Medium::Network, 65_499)),
            [false; 2]
        );
        assert_eq!(
            [0, 1].map(|process| spans.is_large(process, Medium::Network, 65_500)),
            [true; 2]
        );
    }
}
