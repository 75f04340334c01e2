//! A network in which messages share links fairly, without frames.
//!
//! Each stream is a flow, and its messages are sent one after the other. A flow has the same rate on all links of its route, and rates are max-min fair among flows that
//! share links (D. Bertsekas, R. Gallager, "Data Networks", 6.5.2): no flow's rate can increase without decreasing a rate that is no higher. Hosts' work for each frame
//! is also a link: one out of the sender and one into the receiver, shared by all of its messages. A message has arrived when its last byte has left, and has traversed
//! the route: latencies, and at each switch the reception of a frame. Messages of one frame do not share: they only take the route's time. Used by replay.

/// Ends of flows.
mod ends;
/// Max-min fair rates.
mod fair;
/// Its state as plain values.
mod state;
/// Messages behind others.
mod streams;

use std::sync::Arc;

use belljar_fabric::{Direction, LinkId, Routes, RoutingError, Topology};
use belljar_sim::{Span, Time};

use crate::message::{Arrival, HEADERS, Message, MessageId, SEGMENT, frames_of, on_wire};
use crate::network::{LinkLoad, Network, NetworkState};
use crate::pace::within;
use crate::pace::{Pace, Paces};
use crate::way::{FlowRoutes, name};
use ends::FlowEnds;
use fair::Sharing;
pub use state::FlowState;
use streams::{StreamNumber, Streams};

/// A message in flight.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The time at which its last byte leaves.
    ends: Time,
    /// The time from then to its arrival.
    after: Span,
    stream: StreamNumber,
}

/// Sender, receiver and number of a stream.
type Stream = (u32, u32, u64);

/// A message behind others of its stream.
#[derive(Clone, Debug)]
struct Queued {
    id: MessageId,
    bytes: u64,
    after: Span,
    over: Arc<[u32]>,
}

/// A network of flows.
pub struct FlowNetwork {
    topology: Topology,
    ways: FlowRoutes,
    /// True if messages choose their routes by the load of links when they begin.
    adaptive: bool,
    paces: Paces,
    sharing: Sharing,
    /// By message.
    flows: Vec<Option<Flow>>,
    ends: FlowEnds,
    streams: Streams,
    /// Bytes of messages of one frame, by link.
    small: Vec<u64>,
}

impl FlowNetwork {
    /// Creates a network with the topology and these routes.
    ///
    /// # Errors
    /// Returns an error if the topology does not fit the routing.
    pub fn new(
        topology: Topology,
        routes: &Routes,
        paces: impl Into<Paces>,
    ) -> Result<Self, RoutingError> {
        let paces = paces.into();
        let links = topology.links();
        let mut capacities: Vec<f64> = links
            .iter()
            .flat_map(|link| [link.spec.bandwidth as f64 / 8e12; 2])
            .collect();
        // Hosts' work for a frame bounds their rates: first out of each host, then into each.
        let spans: [fn(&Pace) -> Span; 2] = [|pace| pace.sends, |pace| pace.receives];
        for span in spans {
            let rate = |host| match span(paces.of(host)).as_ps() {
                0 => f64::INFINITY,
                ps => on_wire(SEGMENT) as f64 / ps as f64,
            };
            capacities.extend((0..topology.hosts()).map(rate));
        }
        Ok(Self {
            ways: FlowRoutes::new(&topology, routes)?,
            adaptive: routes.routing.looks_at_load(),
            small: vec![0; links.len() * 2],
            sharing: Sharing::new(capacities),
            streams: Streams::of_hosts(topology.hosts()),
            topology,
            paces,
            flows: Vec::new(),
            ends: FlowEnds::default(),
        })
    }

    /// Handles a message that begins to leave.
    fn begin(&mut self, now: Time, stream: StreamNumber, message: Queued) {
        let Queued {
            id,
            bytes,
            after,
            over,
        } = message;
        let flow = Flow {
            ends: Time::MAX,
            after,
            stream,
        };
        if self.flows.len() <= id as usize {
            self.flows.resize(id as usize + 1, None);
        }
        self.flows[id as usize] = Some(flow);
        self.sharing
            .begin(now.as_ps(), id, over, on_wire(bytes) as f64);
    }

    /// Applies changed rates to the ends of flows.
    fn settle(&mut self, now: Time) {
        let (flows, ends) = (&mut self.flows, &mut self.ends);
        self.sharing.changed(|id, rest, rate| {
            let Some(Some(flow)) = flows.get_mut(id as usize) else {
                return;
            };
            flow.ends = now + Span::from_ps((rest / rate).ceil() as u64);
            ends.set(id, flow.ends);
        });
    }
}

impl Network for FlowNetwork {
    fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        let Message {
            id,
            from,
            to,
            bytes,
            stream,
        } = message;
        if from == to {
            return Some(time + within(self.paces.of(from), bytes));
        }
        let chosen = self.adaptive.then(|| {
            let load = |link: LinkId, direction: Direction| {
                self.sharing.flows_on(link * 2 + direction.index() as u32)
            };
            let salt = time.as_ps() ^ u64::from(id) << 32;
            self.ways.chosen(&self.topology, from, to, salt, &load)
        });
        let way = match &chosen {
            Some(way) => way,
            None => self.ways.between(&self.topology, from, to),
        };
        let (after, over) = (way.after(bytes), Arc::clone(&way.over));
        if frames_of(bytes) == 1 {
            let last = way.transmission(bytes);
            for link in over.iter() {
                if let Some(own) = self.small.get_mut(*link as usize) {
                    *own = own.saturating_add(bytes + HEADERS);
                }
            }
            return Some(time + after + last);
        }
        let stream = self.streams.number((from, to, stream));
        let message = Queued {
            id,
            bytes,
            after,
            over,
        };
        if let Some(message) = self.streams.enqueue(stream, message) {
            self.begin(time, stream, message);
            self.settle(time);
        }
        None
    }

    fn next_time(&self) -> Option<Time> {
        self.ends.first().map(|(time, _)| time)
    }

    fn advance(&mut self, arrived: &mut Vec<Arrival>) {
        let Some((now, id)) = self.ends.pop() else {
            return;
        };
        self.sharing.end(now.as_ps(), id);
        if let Some(flow) = self.flows.get_mut(id as usize).and_then(Option::take) {
            arrived.push(Arrival {
                time: now + flow.after,
                id,
            });
            if let Some(next) = self.streams.next(flow.stream) {
                self.begin(now, flow.stream, next);
            }
        }
        self.settle(now);
    }

    fn loads(&self, _until: Time) -> Vec<LinkLoad> {
        let links = self.topology.links();
        let both = |link: LinkId| [(link, Direction::Up), (link, Direction::Down)];
        let all = (0..links.len() as LinkId).flat_map(both);
        let carried = self.sharing.carried().zip(&self.small);
        let loads = all.zip(carried).map(|((link, direction), (flows, small))| {
            let bytes = (flows as u64).saturating_add(*small);
            LinkLoad {
                name: name(&self.topology, link, direction),
                bytes,
                busy: Span::of_transfer(bytes, links[link as usize].spec.bandwidth),
                dropped: 0,
            }
        });
        loads.filter(|load| load.bytes > 0).collect()
    }

    fn saved(&self, _now: Time) -> Option<NetworkState> {
        Some(NetworkState::Flow(self.save()))
    }

    fn continues_from(&mut self, state: NetworkState) -> bool {
        match state {
            NetworkState::Flow(state) => self.restore(state),
            NetworkState::Packet(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
