//! Adaptive routing: switches choose links by their queues.
//!
//! A switch sends a packet to the shortest queue among the links that begin a shortest path. To keep a flow's packets in order, a flow keeps
//! its link until no packet of it has come for a given time, as switches of InfiniBand do in the bounded mode of their adaptive routing. The
//! paths of a tree go up and then down, so links cannot wait for each other in a circle, whatever switches choose. Queues are those of the
//! switch itself, at the time at which the packet is ready.

use std::collections::BTreeMap;

use belljar_fabric::{Direction, Endpoint, LinkId};
use belljar_sim::{Span, Time};

use crate::{Hop, Lossless, OWN, Parcel, Transit};

/// A flow at a switch: switch, sender, receiver.
type FlowAt = (u32, u32, u32);

/// A flow with its port and the time of its last packet.
pub(crate) type SavedFlow = (FlowAt, (u32, Time));

/// The links of flows.
#[derive(Clone, Debug)]
pub(crate) struct FlowLinks {
    /// The time without packets after which a flow may change its link.
    gap: Span,
    /// Port and last packet of each flow.
    last: BTreeMap<FlowAt, (u32, Time)>,
    /// Number of flows at which old ones are removed.
    most: usize,
}

/// Flows that are kept before old ones are removed for the first time.
const FIRST_REMOVAL: usize = 1024;

impl FlowLinks {
    pub(crate) fn new(gap: Span) -> Self {
        Self {
            gap,
            last: BTreeMap::new(),
            most: FIRST_REMOVAL,
        }
    }

    /// The port that a flow must keep at `now`.
    fn kept(&self, flow: FlowAt, now: Time) -> Option<u32> {
        let (port, last) = self.last.get(&flow)?;
        (now.since(*last) < self.gap).then_some(*port)
    }

    /// A packet of a flow takes a port. Flows that may change it again have no effect, and are removed.
    fn take(&mut self, flow: FlowAt, port: u32, now: Time) {
        self.last.insert(flow, (port, now));
        if self.last.len() > self.most {
            let gap = self.gap;
            self.last.retain(|_, (_, last)| now.since(*last) < gap);
            self.most = (2 * self.last.len()).max(FIRST_REMOVAL);
        }
    }

    /// Each flow with its port and the time of its last packet.
    pub(crate) fn save(&self) -> Vec<SavedFlow> {
        self.last
            .iter()
            .map(|(flow, last)| (*flow, *last))
            .collect()
    }

    pub(crate) fn load(&mut self, saved: Vec<SavedFlow>) {
        self.last = saved.into_iter().collect();
    }
}

impl<P: Parcel> Lossless<P> {
    /// The switch at which a packet is; `None` at its host.
    pub(crate) fn switch_behind(&self, input: u32) -> Option<u32> {
        if input == OWN {
            return None;
        }
        let link = &self.topology.links()[input as usize / 2];
        match link.ends[1 - input as usize % 2] {
            Endpoint::Switch(switch) => Some(switch),
            Endpoint::Host(_) => None,
        }
    }

    /// The link that a packet takes at `now`, by the queues of its switch.
    pub(crate) fn adaptive_hop(&mut self, now: Time, transit: &Transit<P>) -> Option<Hop> {
        let Some(switch) = self.switch_behind(transit.input) else {
            return Some(first_hop(self.topology.link_of(transit.from)));
        };
        let flow = (switch, transit.from, transit.to);
        let kept = self.flows.as_ref().and_then(|flows| flows.kept(flow, now));
        let hop = match kept {
            Some(port) => hop_of(port),
            None => self.least_loaded(switch, transit, now)?,
        };
        if let Some(flows) = &mut self.flows {
            flows.take(flow, hop.port(), now);
        }
        Some(hop)
    }

    fn least_loaded(&mut self, switch: u32, transit: &Transit<P>, now: Time) -> Option<Hop> {
        let count = self.topology.links_at(switch).len() as u64;
        // Among equal queues, different flows take different links.
        let shift = u64::from(transit.from) + u64::from(transit.to);
        let (ports, topology) = (&self.ports, &self.topology);
        let load = |link: LinkId, direction: Direction| {
            let port = &ports[link as usize * 2 + direction.index()];
            let rate = topology.links()[link as usize].spec.bandwidth;
            let queue = port.queue(now, rate).as_ps().min(u64::MAX >> 16);
            queue * count + (u64::from(link) + shift) % count
        };
        let (link, direction) = self.paths.next(topology, switch, transit.to, &load)?;
        Some(Hop {
            link,
            direction,
            lane: 0,
        })
    }

    /// The bandwidth of the fastest link that a packet can take after it has come through `input`.
    pub(crate) fn fastest_after(&mut self, input: u32, to: u32) -> u64 {
        let Some(switch) = self.switch_behind(input) else {
            return u64::MAX;
        };
        let links = self.paths.choices(&self.topology, switch, to).into_iter();
        let rates = links.map(|link| self.topology.links()[link as usize].spec.bandwidth);
        rates.max().unwrap_or(u64::MAX)
    }
}

/// A host's own link.
fn first_hop(link: LinkId) -> Hop {
    Hop {
        link,
        direction: Direction::Up,
        lane: 0,
    }
}

fn hop_of(port: u32) -> Hop {
    Hop {
        link: port / 2,
        direction: [Direction::Up, Direction::Down][port as usize % 2],
        lane: 0,
    }
}
