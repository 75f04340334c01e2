//! A lossless fabric: InfiniBand's links and switches.
//!
//! Switches forward by cut-through: a packet leaves as soon as its head is through the switch and its output is free. Packets
//! wait at outputs in the order in which they are ready there, and none is lost. Deliveries are a function of the topology, the
//! settings and the packets that hosts send, not of the steps of [`Lossless::advance`]. Driven by the coordinator between rounds.
//!
//! Buffers are not bounded yet: a link never waits for credits of the far side, so congestion does not spread beyond the output
//! that causes it.

use std::collections::BTreeMap;

use belljar_fabric::{Direction, Distances, LinkId, Paths, Routes, RoutingError, Topology};
use belljar_sim::{EventKey, EventQueue, Span, Time};
use belljar_verbs::{FIRST_MULTICAST, SHORTEST_PACKET, addresses, payload_bytes, wire_bytes};
use serde::{Deserialize, Serialize};

/// One direction of a link: the wire, and its figures.
mod port;
/// The running state as plain values.
mod state;

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

/// A packet's arrival at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time of its effect.
    pub time: Time,
    /// The host.
    pub host: u32,
    /// The packet.
    pub packet: Vec<u8>,
}

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

/// A path's links, in order.
type Path = Vec<(LinkId, Direction)>;

/// A packet in transit.
#[derive(Clone, Debug)]
struct Transit {
    from: u32,
    to: u32,
    /// Index in the path of the link that it takes next.
    hop: usize,
    packet: Vec<u8>,
}

/// A topology in operation. Host `n` has local identifier `n` + 1.
pub struct Lossless {
    topology: Topology,
    paths: Paths,
    known: BTreeMap<(u32, u32), Path>,
    delays: CardDelays,
    /// From an action of a host until a packet is ready at an output of its switch, apart from the cable.
    lead: Span,
    cable: Span,
    ports: Vec<[Port; 2]>,
    /// For each host, when its card has written all packets so far.
    written: Vec<Time>,
    /// Packets that hosts send, at the time at which they are ready for the host's link.
    sent: EventQueue<Transit>,
    /// Packets at outputs of switches, at the time at which their head is through the switch.
    ready: EventQueue<Transit>,
    unroutable: u64,
    /// By sender and receiver.
    traffic: BTreeMap<(u32, u32), PairTraffic>,
}

impl Lossless {
    /// Starts a topology at time zero.
    ///
    /// # Errors
    /// When the topology does not fit the routing.
    pub fn new(
        topology: Topology,
        routes: &Routes,
        delays: CardDelays,
    ) -> Result<Self, RoutingError> {
        let paths = Paths::new(&topology, routes)?;
        let through = topology
            .switches()
            .iter()
            .map(|switch| switch.latency)
            .min();
        let cable = topology.links().iter().map(|link| link.spec.latency).min();
        let port = |_| [Port::default(), Port::default()];
        Ok(Self {
            paths,
            known: BTreeMap::new(),
            delays,
            lead: delays.before + through.unwrap_or(Span::ZERO),
            cable: cable.unwrap_or(Span::ZERO),
            ports: topology.links().iter().map(port).collect(),
            written: vec![Time::ZERO; topology.hosts() as usize],
            sent: EventQueue::new(),
            ready: EventQueue::new(),
            unroutable: 0,
            traffic: BTreeMap::new(),
            topology,
        })
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
        let of = |ports: &[Port; 2]| ports.each_ref().map(|port| port.figures);
        self.ports.iter().map(of).collect()
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
    pub fn send(&mut self, time: Time, host: u32, sequence: u64, packet: Vec<u8>) {
        let hosts = self.topology.hosts();
        let (to, _) = addresses(&packet).unwrap_or_default();
        let copies: Vec<u32> = match to {
            FIRST_MULTICAST..=0xfffe => (0..hosts).filter(|other| *other != host).collect(),
            to => vec![u32::from(to.wrapping_sub(1))],
        };
        let packets = std::iter::repeat_n(packet, copies.len());
        for ((copy, to), packet) in (0..).zip(copies).zip(packets) {
            if to >= hosts || to == host || host >= hosts {
                self.unroutable += 1;
                continue;
            }
            let traffic = self.traffic.entry((host, to)).or_default();
            traffic.packets += 1;
            traffic.bytes += wire_bytes(packet.len());
            traffic.payload += payload_bytes(&packet).unwrap_or_default() as u64;
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
                packet,
            };
            self.sent.push(key, transit);
        }
    }

    /// The time from which packets in transit may affect nodes, in the terms of [`distances`](Self::distances): a packet with this
    /// time arrives no earlier than the tail of its destination later.
    pub fn next_time(&self) -> Option<Time> {
        let ready = self.ready.next_time().map(|at| before(at, self.lead));
        let sent = self.sent.next_time();
        // Not earlier than the action that sent it, to which the whole distance applies.
        let sent = sent.map(|at| before(at, self.delays.before) + self.cable);
        ready.into_iter().chain(sent).min()
    }

    /// Handles all events that no action of a host from `end` minus the least cable on can precede. Returns arrivals, for each host
    /// in order of time.
    pub fn advance(&mut self, end: Time) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let sent_before = before(end, self.cable) + self.delays.before;
        while let Some((key, transit)) = self.sent.pop_before(sent_before) {
            self.pass(key.time, transit, &mut arrivals);
        }
        while let Some((key, transit)) = self.ready.pop_before(end + self.lead) {
            self.pass(key.time, transit, &mut arrivals);
        }
        // Of different links, which do not know of each other.
        arrivals.sort_by_key(|arrival| arrival.time);
        arrivals
    }

    /// Puts a packet that is ready at `time` on its next link.
    fn pass(&mut self, time: Time, mut transit: Transit, arrivals: &mut Vec<Arrival>) {
        let Some((link, direction, is_last, rate)) = self.next_link(&transit) else {
            self.unroutable += 1;
            return;
        };
        let spec = self.topology.links()[link as usize].spec;
        let port = &mut self.ports[link as usize][direction.index()];
        // A faster output waits until the tail cannot run dry.
        let length = wire_bytes(transit.packet.len());
        let busy = Span::of_transfer(length, spec.bandwidth);
        let late = Span::of_transfer(length, rate.min(spec.bandwidth)) - busy;
        let start = port.send(time, late, busy, length);
        if is_last {
            let written = &mut self.written[transit.to as usize];
            let here = (start + busy + spec.latency + self.delays.after).max(*written);
            let data = transit.packet.len() as u64;
            *written = here + Span::of_transfer(data, self.delays.bus);
            arrivals.push(Arrival {
                time: *written,
                host: transit.to,
                packet: transit.packet,
            });
            return;
        }
        let through = self.latency_after(link, direction);
        transit.hop += 1;
        let number = link * 2 + direction.index() as u32;
        let key = EventKey {
            time: start + spec.latency + through,
            kind: 0,
            source: number,
            sequence: port_count(&self.ports, link, direction),
        };
        self.ready.push(key, transit);
    }

    /// A packet's next link and its direction, whether it is the last one, and the rate at which the packet comes in.
    fn next_link(&mut self, transit: &Transit) -> Option<(LinkId, Direction, bool, u64)> {
        let pair = (transit.from, transit.to);
        let (topology, paths) = (&self.topology, &mut self.paths);
        let path = self
            .known
            .entry(pair)
            .or_insert_with(|| paths.between(topology, pair.0, pair.1, &[], 0, &|_, _| 0));
        let (link, direction) = *path.get(transit.hop)?;
        let before = transit.hop.checked_sub(1).and_then(|hop| path.get(hop));
        let rate = before.map_or(u64::MAX, |(link, _)| {
            topology.links()[*link as usize].spec.bandwidth
        });
        Some((link, direction, transit.hop + 1 == path.len(), rate))
    }

    /// The latency of the switch at the end of a link in this direction.
    fn latency_after(&self, link: LinkId, direction: Direction) -> Span {
        let ends = self.topology.links()[link as usize].ends;
        match ends[1 - direction.index()] {
            belljar_fabric::Endpoint::Switch(switch) => {
                self.topology.switches()[switch as usize].latency
            }
            belljar_fabric::Endpoint::Host(_) => Span::ZERO,
        }
    }
}

fn port_count(ports: &[[Port; 2]], link: LinkId, direction: Direction) -> u64 {
    ports[link as usize][direction.index()].figures.packets
}

/// `span` before `time`, or zero.
fn before(time: Time, span: Span) -> Time {
    Time::from_ps(time.as_ps().saturating_sub(span.as_ps()))
}

#[cfg(test)]
mod tests;
