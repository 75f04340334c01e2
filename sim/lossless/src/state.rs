//! The running state as plain values.
//!
//! A loaded state is untrusted: one that does not fit the topology is refused. Checkpoints save and restore it.

use std::collections::BTreeMap;

use belljar_congestion::Marker;
use belljar_fabric::Endpoint;
use belljar_sim::{EventKey, EventQueue, Time};
use serde::{Deserialize, Serialize};

use crate::adaptive::{FlowLinks, SavedFlow};
use crate::advance::Side;
use crate::port::{Lane, Port, PortFigures};
use crate::{Lossless, OWN, PairTraffic, Parcel, Transit};

/// The saved state of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LosslessState<P = Vec<u8>> {
    ports: Vec<SavedPort<P>>,
    written: Vec<Time>,
    /// Packets of hosts that are not ready yet, and those of switches.
    coming: [Vec<SavedTransit<P>>; 2],
    unroutable: u64,
    traffic: BTreeMap<(u32, u32), PairTraffic>,
    /// Port and last packet of each flow at a switch, with adaptive routing.
    flows: Vec<SavedFlow>,
}

/// A port without its packets, and these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedPort<P> {
    free_at: Time,
    since: Time,
    now: Time,
    attempt: Option<Time>,
    lanes: Vec<SavedLane<P>>,
    last: u8,
    figures: PortFigures,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedLane<P> {
    credits: u64,
    returns: BTreeMap<Time, u64>,
    /// In the order in which they wait behind each input.
    waiting: Vec<SavedTransit<P>>,
    last: u32,
    marker: Marker,
}

/// A packet in transit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedTransit<P> {
    /// Time, source and sequence number of its event; zero while it waits.
    key: (Time, u32, u64),
    ends: (u32, u32),
    hop: usize,
    lane: u8,
    input: u32,
    input_lane: u8,
    ready: Time,
    packet: P,
}

/// A state that belongs to another topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreError;

impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the state of the InfiniBand fabric belongs to another topology")
    }
}

impl std::error::Error for RestoreError {}

impl<P: Parcel> Lossless<P> {
    /// The state of packets and links.
    pub fn save(&self) -> LosslessState<P> {
        LosslessState {
            ports: self.ports.iter().map(SavedPort::of).collect(),
            written: self.written.clone(),
            coming: [&self.hosts, &self.switches].map(|side| save(&side.ready)),
            unroutable: self.unroutable,
            traffic: self.traffic.clone(),
            flows: self.flows.as_ref().map_or_else(Vec::new, FlowLinks::save),
        }
    }

    /// Loads a state that was saved by a fabric of the same topology and settings.
    ///
    /// # Errors
    /// If the state does not fit it.
    pub fn restore(&mut self, state: LosslessState<P>) -> Result<(), RestoreError> {
        let is_like = state.ports.len() == self.ports.len()
            && state.written.len() == self.written.len()
            && state.ports.iter().all(|port| self.fits(port));
        let waiting = state.ports.iter().flat_map(|port| &port.lanes);
        let waiting = waiting.flat_map(|lane| &lane.waiting);
        let mut transits = waiting.chain(state.coming.iter().flatten());
        let mut flows = state.flows.iter();
        let are_flows = flows.all(|((switch, ..), (port, _))| self.leaves(*switch, *port));
        if !is_like || !are_flows || !transits.all(|one| self.is_possible(one)) {
            return Err(RestoreError);
        }
        let [hosts, switches] = state.coming;
        self.hosts = Side::default();
        self.switches = Side::default();
        self.hosts.ready = load(hosts);
        self.switches.ready = load(switches);
        self.ports = state.ports.into_iter().map(SavedPort::into_port).collect();
        for number in 0..self.ports.len() as u32 {
            let attempt = self.ports[number as usize].attempt;
            let side = match self.is_of_host(number) {
                true => &mut self.hosts,
                false => &mut self.switches,
            };
            side.attempts.extend(attempt.map(|time| (time, number)));
        }
        self.written = state.written;
        self.unroutable = state.unroutable;
        self.traffic = state.traffic;
        if let Some(flows) = &mut self.flows {
            flows.load(state.flows);
        }
        Ok(())
    }

    /// True if a port sends from this switch.
    fn leaves(&self, switch: u32, port: u32) -> bool {
        let link = self.topology.links().get(port as usize / 2);
        link.is_some_and(|link| link.ends[port as usize % 2] == Endpoint::Switch(switch))
    }

    /// True if a port has the lanes and at most the credits of this fabric.
    fn fits(&self, port: &SavedPort<P>) -> bool {
        let buffer = self.flow.buffer;
        let in_buffer = |lane: &SavedLane<P>| {
            let all = lane
                .returns
                .values()
                .try_fold(lane.credits, |sum, bytes| sum.checked_add(*bytes));
            all.is_some_and(|all| all <= buffer)
        };
        port.lanes.len() == usize::from(self.flow.lanes)
            && port.last < self.flow.lanes
            && port.lanes.iter().all(in_buffer)
    }

    /// True if a packet is on a link of its path.
    fn is_possible(&mut self, transit: &SavedTransit<P>) -> bool {
        let (from, to) = transit.ends;
        let hosts = self.topology.hosts();
        if from >= hosts || to >= hosts || from == to {
            return false;
        }
        if self.flows.is_some() {
            // Switches choose from wherever it is.
            let is_link = (transit.input as usize) < self.ports.len();
            let is_within = transit.input_lane == 0 && transit.lane == 0;
            return is_within
                && (transit.input == OWN
                    || is_link && self.switch_behind(transit.input).is_some());
        }
        let path = self.path(from, to);
        let before = transit.hop.checked_sub(1).and_then(|hop| path.get(hop));
        let input = before.map_or((OWN, 0), |hop| (hop.port(), hop.lane));
        transit.hop < path.len() && (transit.input, transit.input_lane) == input
    }
}

impl<P: Parcel> SavedPort<P> {
    fn of(port: &Port<P>) -> Self {
        let lane = |lane: &Lane<P>| SavedLane {
            credits: lane.credits,
            returns: lane.returns.clone(),
            waiting: lane
                .waiting
                .values()
                .flatten()
                .map(|transit| SavedTransit::of((Time::ZERO, 0, 0), transit))
                .collect(),
            last: lane.last,
            marker: lane.marker,
        };
        Self {
            free_at: port.free_at,
            since: port.since,
            now: port.now,
            attempt: port.attempt,
            lanes: port.lanes.iter().map(lane).collect(),
            last: port.last,
            figures: port.figures,
        }
    }

    fn into_port(self) -> Port<P> {
        let lane = |saved: SavedLane<P>| {
            let mut lane = Lane {
                credits: saved.credits,
                returns: saved.returns,
                last: saved.last,
                waiting: BTreeMap::new(),
                queue: 0,
                marker: saved.marker,
            };
            for transit in saved.waiting {
                lane.push(transit.into_transit());
            }
            lane
        };
        Port {
            free_at: self.free_at,
            since: self.since,
            now: self.now,
            attempt: self.attempt,
            lanes: self.lanes.into_iter().map(lane).collect(),
            last: self.last,
            figures: self.figures,
        }
    }
}

impl<P: Parcel> SavedTransit<P> {
    fn of(key: (Time, u32, u64), transit: &Transit<P>) -> Self {
        Self {
            key,
            ends: (transit.from, transit.to),
            hop: transit.hop,
            lane: transit.lane,
            input: transit.input,
            input_lane: transit.input_lane,
            ready: transit.ready,
            packet: transit.packet.clone(),
        }
    }

    fn into_transit(self) -> Transit<P> {
        let (from, to) = self.ends;
        Transit {
            from,
            to,
            hop: self.hop,
            lane: self.lane,
            input: self.input,
            input_lane: self.input_lane,
            ready: self.ready,
            packet: self.packet,
        }
    }
}

fn save<P: Parcel>(queue: &EventQueue<Transit<P>>) -> Vec<SavedTransit<P>> {
    let saved = |(key, transit): (EventKey, &Transit<P>)| {
        SavedTransit::of((key.time, key.source, key.sequence), transit)
    };
    queue.iter().map(saved).collect()
}

fn load<P: Parcel>(saved: Vec<SavedTransit<P>>) -> EventQueue<Transit<P>> {
    let mut queue = EventQueue::new();
    for one in saved {
        let (time, source, sequence) = one.key;
        let key = EventKey {
            time,
            kind: 0,
            source,
            sequence,
        };
        queue.push(key, one.into_transit());
    }
    queue
}
