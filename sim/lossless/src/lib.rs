//! A lossless fabric: InfiniBand's links and switches.
//!
//! Switches forward by cut-through: a packet leaves as soon as its head is through the switch, its output is free and the far side
//! of the output has granted credits for all of it. Each input of a switch has a buffer for each virtual lane, with a queue for
//! each output, and the inputs of an output take turns. No packet is lost: without credits it waits, and the links behind it wait
//! when its buffer is full. Deliveries are a function of the topology, the settings and the packets that hosts send, not of the
//! steps of [`Lossless::advance`]. Driven by the coordinator between rounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_congestion::CongestionControl;
use belljar_fabric::{
    Direction, Distances, LinkId, Paths, Routes, Routing, RoutingError, Topology,
};
use belljar_sim::{EventKey, Span, Time};
pub use belljar_verbs::wire_bytes;
use belljar_verbs::{FIRST_MULTICAST, LONGEST_PACKET, SHORTEST_PACKET, addresses, payload_bytes};
use serde::{Deserialize, Serialize};

/// Adaptive routing.
mod adaptive;
/// Events of hosts and switches, and their handling.
mod advance;
/// Links that wait for each other in a circle.
mod circle;
/// The virtual lane of each link of a path.
mod lanes;
/// Marks of congestion control.
mod marks;
/// The sending side of a link.
mod port;
/// The running state as plain values.
mod state;

use adaptive::FlowLinks;
use advance::Side;
use lanes::Datelines;
pub use lanes::lanes_needed;
use port::Port;
pub use port::PortFigures;
pub use state::{LosslessState, RestoreError};

/// Delays of the hosts' cards, which bound how soon hosts affect each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardDelays {
    /// The least time from an action of a host to the first bit on its link.
    pub before: Span,
    /// The least time from the last bit's arrival to its effect on the host.
    pub after: Span,
    /// Bits per second at which a host's card writes packets to memory, one after the other, before their effect.
    pub bus: u64,
}

/// Credits and lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Bytes of the buffer that each link has at its far side for each virtual lane. At least one packet's.
    pub buffer: u64,
    /// Virtual lanes for data, at least one. A path changes to the next one where it could close a circle of links that wait for
    /// each other, as long as there is one.
    pub lanes: u8,
    /// With adaptive routing: the time without packets from one host to another after which a switch may choose another link for them.
    pub gap: Span,
}

/// The destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The host of this number.
    Host(u32),
    /// All other hosts: the members of a multicast group.
    Others,
}

/// A packet as the fabric carries it: its bytes, or a description.
pub trait Parcel: Clone {
    /// Its destination; `None` if it has no valid address.
    fn destination(&self) -> Option<Destination>;

    /// Its bytes without the link's own checksum.
    fn length(&self) -> usize;

    /// Bytes of data.
    fn payload(&self) -> usize;

    /// Marks it as a packet of a congested output. Returns false if it is of a kind that is never marked.
    fn mark(&mut self) -> bool;
}

impl Parcel for Vec<u8> {
    fn destination(&self) -> Option<Destination> {
        let (to, _) = addresses(self)?;
        match to {
            0 => None,
            FIRST_MULTICAST..=0xfffe => Some(Destination::Others),
            to => Some(Destination::Host(u32::from(to - 1))),
        }
    }

    fn length(&self) -> usize {
        self.len()
    }

    fn payload(&self) -> usize {
        payload_bytes(self).unwrap_or_default()
    }

    fn mark(&mut self) -> bool {
        belljar_verbs::mark_congestion(self)
    }
}

/// A packet's arrival at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival<P = Vec<u8>> {
    /// The time of its effect.
    pub time: Time,
    /// The host.
    pub host: u32,
    /// The packet.
    pub packet: P,
}

/// The bytes on a link of the largest packet.
pub const LONGEST_ON_LINK: u64 = wire_bytes(LONGEST_PACKET);

/// More than the links of any path, in picoseconds.
const MOST_ROUNDING: Span = Span::from_ps(256);

/// Traffic from one host to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairTraffic {
    /// Packets, acknowledgements included.
    pub packets: u64,
    /// Their bytes on links.
    pub bytes: u64,
    /// Bytes of data.
    pub payload: u64,
}

/// A link of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop {
    link: LinkId,
    direction: Direction,
    lane: u8,
}

impl Hop {
    /// The number of the link's port on this side.
    fn port(self) -> u32 {
        self.link * 2 + self.direction.index() as u32
    }
}

/// A path's links, in order.
type Path = Arc<[Hop]>;

/// The link that a host's own packets come from.
const OWN: u32 = u32::MAX;

/// A packet in transit.
#[derive(Clone, Debug)]
struct Transit<P> {
    from: u32,
    to: u32,
    /// Index in the path of the link that it takes next.
    hop: usize,
    /// The lane of this link.
    lane: u8,
    /// The port that sent it here, or [`OWN`], and the lane on its link.
    input: u32,
    input_lane: u8,
    /// When it was ready for this link.
    ready: Time,
    packet: P,
}

impl<P: Parcel> Transit<P> {
    /// Its bytes on a link.
    fn length(&self) -> u64 {
        wire_bytes(self.packet.length())
    }
}

/// A topology in operation. Host `n` has local identifier `n` + 1.
pub struct Lossless<P = Vec<u8>> {
    topology: Topology,
    paths: Paths,
    known: BTreeMap<(u32, u32), Path>,
    datelines: Datelines,
    /// The links of flows, if switches choose them.
    flows: Option<FlowLinks>,
    flow: Flow,
    /// Congestion control, if switches mark packets.
    control: Option<Arc<CongestionControl>>,
    delays: CardDelays,
    /// From an action of a host until a packet is ready at an output of its switch, apart from the cable.
    lead: Span,
    cable: Span,
    /// Two for each link, by direction.
    ports: Vec<Port<P>>,
    /// For each host, when its card has written all packets so far.
    written: Vec<Time>,
    /// Events of hosts: packets that they send, and attempts of their links.
    hosts: Side<P>,
    /// Events of switches: packets whose head is through, and attempts of their links.
    switches: Side<P>,
    unroutable: u64,
    /// By sender and receiver.
    traffic: BTreeMap<(u32, u32), PairTraffic>,
}

impl<P: Parcel> Lossless<P> {
    /// Starts a topology at time zero.
    ///
    /// # Errors
    /// When the topology does not fit the routing.
    ///
    /// # Panics
    /// If adaptive routing is chosen for a topology without levels, in which links could wait for each other in a circle.
    pub fn new(
        topology: Topology,
        routes: &Routes,
        delays: CardDelays,
        flow: Flow,
    ) -> Result<Self, RoutingError> {
        assert!(
            routes.routing != Routing::Adaptive || topology.has_levels(),
            "adaptive routing is for trees"
        );
        let mut paths = Paths::new(&topology, routes)?;
        let is_by_switch = routes.routing == Routing::Shortest;
        let datelines = Datelines::new(&topology, &mut paths, is_by_switch, flow.lanes);
        let through = topology
            .switches()
            .iter()
            .map(|switch| switch.latency)
            .min();
        let cable = topology.links().iter().map(|link| link.spec.latency).min();
        Ok(Self {
            paths,
            known: BTreeMap::new(),
            delays,
            lead: delays.before + through.unwrap_or(Span::ZERO),
            cable: cable.unwrap_or(Span::ZERO),
            ports: (0..topology.links().len() * 2)
                .map(|_| Port::new(flow.lanes, flow.buffer))
                .collect(),
            datelines,
            flows: (routes.routing == Routing::Adaptive).then(|| FlowLinks::new(flow.gap)),
            flow,
            control: None,
            written: vec![Time::ZERO; topology.hosts() as usize],
            hosts: Side::default(),
            switches: Side::default(),
            unroutable: 0,
            traffic: BTreeMap::new(),
            topology,
        })
    }

    /// The same with congestion control, by which its switches mark packets.
    #[must_use]
    pub fn with_control(self, control: Option<Arc<CongestionControl>>) -> Self {
        Self { control, ..self }
    }

    /// True if it has congestion control.
    pub fn has_control(&self) -> bool {
        self.control.is_some()
    }

    /// Its topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The least times between hosts, with the delays of their cards.
    pub fn distances(&self) -> Distances {
        let links = self.topology.links().iter();
        let rate = links.map(|link| link.spec.bandwidth).max().unwrap_or(1);
        let shortest = Span::of_transfer(wire_bytes(SHORTEST_PACKET), rate);
        let at_once = self
            .topology
            .clone()
            .with_links(|link| belljar_fabric::LinkSpec {
                bandwidth: u64::MAX,
                ..link
            });
        // Rounding adds a picosecond for each link.
        let extra = self.delays.before + self.delays.after + (shortest - MOST_ROUNDING);
        Distances::with_delay(&at_once, extra)
    }

    /// The least time from a packet's first bit on a host's link to its arrival at a switch.
    pub fn hop(&self) -> Span {
        self.cable
    }

    /// Figures of each link, by direction.
    pub fn figures(&self) -> Vec<[PortFigures; 2]> {
        let (links, _) = self.ports.as_chunks::<2>();
        let of = |ports: &[Port<P>; 2]| ports.each_ref().map(|port| port.figures);
        links.iter().map(of).collect()
    }

    /// Traffic so far, for each pair of hosts with any, in order.
    pub fn traffic(&self) -> impl Iterator<Item = ((u32, u32), PairTraffic)> {
        self.traffic.iter().map(|(pair, traffic)| (*pair, *traffic))
    }

    /// Packets for local identifiers that no host has.
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }

    /// `host` sends a packet, which is ready for its link at `time`; `sequence` counts the host's packets. Packets of one time leave
    /// in this order. Packets for a multicast group go to all other hosts, one after the other.
    pub fn send(&mut self, time: Time, host: u32, sequence: u64, packet: P) {
        let hosts = self.topology.hosts();
        let copies: Vec<u32> = match packet.destination() {
            Some(Destination::Others) => (0..hosts).filter(|other| *other != host).collect(),
            Some(Destination::Host(to)) => vec![to],
            None => vec![OWN],
        };
        let packets = std::iter::repeat_n(packet, copies.len());
        for ((copy, to), packet) in (0..).zip(copies).zip(packets) {
            if to >= hosts || to == host || host >= hosts {
                self.unroutable += 1;
                continue;
            }
            let traffic = self.traffic.entry((host, to)).or_default();
            traffic.packets += 1;
            traffic.bytes += wire_bytes(packet.length());
            traffic.payload += packet.payload() as u64;
            let key = EventKey {
                time,
                kind: 0,
                source: host,
                // Copies for a group keep their order among each other.
                sequence: sequence << 20 | copy,
            };
            let transit = Transit {
                from: host,
                to,
                hop: 0,
                lane: 0,
                input: OWN,
                input_lane: 0,
                ready: time,
                packet,
            };
            self.hosts.ready.push(key, transit);
        }
    }

    /// The time from which packets in transit may affect nodes, in the terms of [`distances`](Self::distances): a packet with this
    /// time arrives no earlier than the tail of its destination later.
    pub fn next_time(&self) -> Option<Time> {
        let ready = self.switches.next_time().map(|at| before(at, self.lead));
        let sent = self.hosts.next_time();
        // Not earlier than the action that sent it, to which the whole distance applies.
        let sent = sent.map(|at| before(at, self.delays.before) + self.cable);
        ready.into_iter().chain(sent).min()
    }
}

/// `span` before `time`, or zero.
fn before(time: Time, span: Span) -> Time {
    Time::from_ps(time.as_ps().saturating_sub(span.as_ps()))
}

#[cfg(test)]
mod tests;
