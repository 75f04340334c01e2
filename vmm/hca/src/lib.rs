//! An InfiniBand card: the registers, queues and transport of a ConnectX-3 (mlx4), with one port.
//!
//! Programs and kernel of a guest drive it with their unmodified drivers: queues in memory, and one store for each request. The card is a value
//! without threads or host clocks. Doorbells and packets have their effects at once. Packets and completions leave with the times at which a
//! card would send them, and the node runs exactly to the first of the card's later events. All multi-byte values of the guest are big-endian.
//!
//! Everything that the guest writes is hostile: memory is reached only through [`GuestRam`], tables are bounded by the limits that the card
//! reports, and scans by their queues. Peers' packets reach only memory that a key with their rights covers.
//!
//! From top to bottom: `registers` passes doorbells to requester and queues, and commands to `command`, which uses `transitions`; `requester`,
//! `responder` and `datagram` move data by `region`, at times of `congestion`, and complete work in `completions`, which posts to `events`; all use `lent` and `memory`.

use belljar_congestion::CongestionControl;
use belljar_cpu::GuestRam;
use belljar_sim::{Span, Time};
use belljar_verbs::Packet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Commands of the driver.
mod command;
/// Completion queues.
mod completions;
/// Congestion control of queue pairs.
mod congestion;
/// Datagrams, and packets that arrive.
mod datagram;
/// Later events of the card.
mod due;
/// Event queues.
mod events;
/// Big-endian fields.
mod fields;
/// Multicast groups.
mod groups;
/// Context memory of the driver's.
mod lent;
/// The card's limits and properties.
mod limits;
/// Subnet and performance management.
mod management;
/// The node's memory.
mod memory;
/// Queue pairs: contexts, states, rings.
mod pair;
/// Memory keys.
mod region;
/// Registers and doorbells.
mod registers;
/// The sending side of queue pairs.
mod requester;
/// The receiving side of queue pairs.
mod responder;
/// Receives, and queues that pairs share.
mod shared;
/// Changes of queue pairs' states.
mod transitions;
/// Work requests.
mod work;

use completions::CompletionQueue;
pub use congestion::PairCongestion;
use due::{Due, DueEvents};
use events::EventQueues;
use groups::Groups;
use lent::LentMemory;
pub use limits::DOORBELLS;
use management::administrator::Administrator;
use pair::QueuePair;
use registers::Interface;
use shared::SharedReceive;

/// Vendor and device of a ConnectX-3.
pub const VENDOR: u16 = 0x15b3;
/// See [`VENDOR`].
pub const DEVICE: u16 = 0x1003;
/// Revision.
pub const REVISION: u8 = 1;
/// Bytes of the region with registers.
pub const REGISTERS: u64 = 1 << 20;
/// Messages of the card, and where their table and pending bits are in the region with registers.
pub const VECTORS: u16 = 128;
/// See [`VECTORS`].
pub const VECTOR_TABLE: u64 = 0x7_c000;
/// See [`VECTORS`].
pub const VECTOR_PENDING: u64 = 0x7_d000;

/// The speed that a port reports. There is no code for more than EDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Speed {
    /// 14.0625 Gb/s a lane.
    Fdr,
    /// 25.78125 Gb/s a lane, or more.
    Edr,
}

impl Speed {
    fn code(self) -> u8 {
        match self {
            Self::Fdr => 1,
            Self::Edr => 2,
        }
    }
}

/// The identity of a card, which its factory and a subnet manager would assign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Globally unique identifier.
    pub guid: u64,
    /// Local identifier of the port.
    pub lid: u16,
    /// The node's name for people.
    pub description: String,
    /// The speed that the port reports.
    pub speed: Speed,
    /// Bits per second of the link.
    pub rate: u64,
    /// Number of ports of the subnet, with local identifiers from 1 on. GUIDs differ as local identifiers do.
    pub ports: u16,
}

impl Identity {
    /// The global identifier of the port: the default prefix and the GUID.
    fn gid(&self) -> [u8; 16] {
        (0xfe80_u128 << 112 | u128::from(self.guid)).to_be_bytes()
    }
}

/// Delays of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From a doorbell to the first bit on the link: the card reads the request and its data.
    pub send: Span,
    /// From a packet's last bit to its effect. The network adds it to packets of others; the card to its own.
    pub receive: Span,
    /// From a packet's effect to the first bit of the answer.
    pub answer: Span,
    /// Additional time to read data that are not in the request itself from memory.
    pub fetch: Span,
    /// Bits per second of data between card and memory, in each direction. A packet leaves when all of its data are in the card, and has
    /// its effect when all are in memory; the network adds the latter to packets of others.
    pub bus: u64,
}

/// Identity and delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaConfig {
    /// Identity.
    pub identity: Identity,
    /// Delays.
    pub delays: Delays,
    /// Congestion control, if the network has one.
    pub congestion: Option<Arc<CongestionControl>>,
}

/// Events of a card, counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HcaCounters {
    /// Commands of the driver.
    pub commands: u64,
    /// Doorbells of sends.
    pub doorbells: u64,
    /// Completions.
    pub completions: u64,
    /// Packets sent to the network.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that no queue pair took.
    pub dropped: u64,
    /// Requests that found no receive and were refused for a time.
    pub not_ready: u64,
    /// Steps back to a packet that was lost or refused.
    pub retries: u64,
    /// Acknowledgements that did not come in time.
    pub timeouts: u64,
}

/// The state of a card.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HcaState {
    interface: Interface,
    /// The mailbox of INIT_HCA; empty before it.
    #[serde(with = "serde_bytes")]
    setup: Vec<u8>,
    lent: LentMemory,
    events: EventQueues,
    completions: BTreeMap<u32, CompletionQueue>,
    shared: BTreeMap<u32, SharedReceive>,
    pairs: BTreeMap<u32, QueuePair>,
    groups: Groups,
    administrator: Administrator,
    /// The number of the first of the port's own pairs.
    special: u32,
    port_is_up: bool,
    due: DueEvents,
    outgoing: Vec<(Time, Vec<u8>)>,
    /// When the data of all begun packets are in the card.
    fetched: Time,
    /// When all packets so far have left, on a link that has credits.
    left: Time,
    vectors: Vec<u16>,
    counters: HcaCounters,
    /// Figures of pairs that met congestion.
    congestion: BTreeMap<u32, PairCongestion>,
}

/// A card.
#[derive(Clone, Debug)]
pub struct Hca {
    config: HcaConfig,
    core: HcaState,
}

/// One action on a card: its state, the node's memory, and the time.
struct Step<'a> {
    core: &'a mut HcaState,
    config: &'a HcaConfig,
    ram: &'a GuestRam,
    now: Time,
}

impl Hca {
    /// A card after reset.
    pub fn new(config: HcaConfig) -> Self {
        let core = HcaState::default();
        Self { config, core }
    }

    /// Its state, without identity and delays.
    pub fn save(&self) -> HcaState {
        self.core.clone()
    }

    /// Continues at the state of another card. `None` if no card can have it.
    pub fn load(&mut self, state: HcaState) -> Option<()> {
        let is_sound = state
            .pairs
            .values()
            .all(|pair| pair.context.len() == pair::CONTEXT);
        is_sound.then(|| self.core = state)
    }

    fn step<'a>(&'a mut self, ram: &'a GuestRam, now: Time) -> Step<'a> {
        Step {
            core: &mut self.core,
            config: &self.config,
            ram,
            now,
        }
    }

    /// A store to the registers at `now`.
    pub fn write_register(&mut self, offset: u64, len: u8, value: u64, ram: &GuestRam, now: Time) {
        self.step(ram, now).write_register(offset, len, value);
    }

    /// A store to the region of doorbells at `now`.
    pub fn write_doorbell(&mut self, offset: u64, len: u8, value: u64, ram: &GuestRam, now: Time) {
        self.step(ram, now).write_doorbell(offset, len, value);
    }

    /// A packet takes effect at `now`. Bytes that are no packet for this port are dropped.
    pub fn receive(&mut self, bytes: &[u8], ram: &GuestRam, now: Time) {
        self.core.counters.received_bytes += bytes.len() as u64;
        match Packet::of_bytes(bytes) {
            Some(packet) if self.is_mine(&packet) => self.step(ram, now).arrive(&packet),
            _ => self.core.counters.dropped += 1,
        }
    }

    fn is_mine(&self, packet: &Packet) -> bool {
        packet.to == self.config.identity.lid || packet.to >= belljar_verbs::FIRST_MULTICAST
    }

    /// The time of the next event of the card itself.
    pub fn deadline(&self) -> Option<Time> {
        self.core.due.next()
    }

    /// The time of the first event of the card itself after `now`.
    pub fn event_after(&self, now: Time) -> Option<Time> {
        self.core.due.next_after(now)
    }

    /// Handles events due at or before `now`.
    pub fn advance(&mut self, ram: &GuestRam, now: Time) {
        while let Some(event) = self.core.due.pop_due(now) {
            let mut step = self.step(ram, now);
            match event {
                Due::Arrive(bytes) => self.receive(&bytes, ram, now),
                Due::Complete(queue, completion) => step.complete(queue, completion),
                Due::Timeout(pair) => {
                    step.with_pair(pair, Step::time_out);
                }
                Due::Ready(pair) => {
                    step.with_pair(pair, Step::end_silence);
                }
                Due::Answer(pair) => {
                    step.with_pair(pair, Step::continue_answer);
                }
                Due::Pace(pair) => {
                    step.with_pair(pair, Step::end_delay);
                }
            }
        }
    }

    /// A time no later than the first action that sent a packet which [`take_packets`](Self::take_packets) has not taken yet.
    pub fn first_packet(&self) -> Option<Time> {
        let delays = &self.config.delays;
        let least = delays.answer.min(delays.send).as_ps();
        let times = self.core.outgoing.iter().map(|(at, _)| at.as_ps());
        times
            .min()
            .map(|at| Time::from_ps(at.saturating_sub(least)))
    }

    /// Takes the packets sent since the last call, each with the time from which it may be on the link.
    pub fn take_packets(&mut self) -> Vec<(Time, Vec<u8>)> {
        std::mem::take(&mut self.core.outgoing)
    }

    /// Takes the messages to the processors since the last call.
    pub fn take_vectors(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.core.vectors)
    }

    /// Counters.
    pub fn counters(&self) -> HcaCounters {
        self.core.counters
    }

    /// Figures of congestion control, by the number of the queue pair.
    pub fn congestion(&self) -> &BTreeMap<u32, PairCongestion> {
        &self.core.congestion
    }
}

impl Step<'_> {
    /// Resets the card: all of its objects are gone. Packets that it sent stay on their way.
    fn reset(&mut self) {
        *self.core = HcaState {
            outgoing: std::mem::take(&mut self.core.outgoing),
            fetched: self.core.fetched,
            left: self.core.left,
            counters: self.core.counters,
            congestion: std::mem::take(&mut self.core.congestion),
            ..HcaState::default()
        };
    }

    /// CLOSE_HCA: all objects but the lent memory are gone.
    fn close(&mut self) {
        let lent = std::mem::take(&mut self.core.lent);
        let interface = std::mem::take(&mut self.core.interface);
        self.reset();
        (self.core.lent, self.core.interface) = (lent, interface);
    }
}

#[cfg(test)]
mod tests;
