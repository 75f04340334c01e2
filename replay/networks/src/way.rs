//! Routes through a network: their links and their latencies.
//!
//! Used by network models.

use std::sync::Arc;

use belljar_fabric::{Direction, Endpoint, LinkId, Paths, Routes, RoutingError, Topology, headers};
use belljar_sim::Span;

use crate::message::{SEGMENT, on_wire};

/// A route from one host to another.
#[derive(Clone, Debug)]
pub(crate) struct FlowRoute {
    /// Directions of its links, by twice the link's number, plus one for downwards; then the sender and the receiver, by the numbers after those.
    pub(crate) over: Arc<[u32]>,
    /// Bits a second of its slowest link.
    slowest: u64,
    /// Sum of all latencies.
    latency: Span,
    /// For each link except the slowest, bits a second: a frame is received there before it is forwarded.
    others: Vec<u64>,
}

impl FlowRoute {
    /// Returns the directions of its links, without both hosts.
    pub(crate) fn links(&self) -> Arc<[u32]> {
        self.over[..self.over.len().saturating_sub(2)].into()
    }

    /// Returns the time of a message's last frame, without its time on the slowest link.
    pub(crate) fn after(&self, bytes: u64) -> Span {
        let frame = on_wire(bytes.min(SEGMENT));
        let others = self.others.iter();
        others.fold(self.latency, |sum, rate| {
            sum + Span::of_transfer(frame, *rate)
        })
    }

    /// Returns the time on the slowest link.
    pub(crate) fn transmission(&self, bytes: u64) -> Span {
        Span::of_transfer(on_wire(bytes), self.slowest)
    }

    /// Returns the time of a frame without data on an idle network.
    pub(crate) fn empty(&self) -> Span {
        self.after(0) + self.transmission(0)
    }
}

/// Routes through a topology, computed at first use.
#[derive(Clone, Debug)]
pub(crate) struct FlowRoutes {
    paths: Paths,
    /// By sender: receivers, in order, with the route to each.
    ways: Vec<Vec<(u32, FlowRoute)>>,
}

impl FlowRoutes {
    pub(crate) fn new(topology: &Topology, routes: &Routes) -> Result<Self, RoutingError> {
        Ok(Self {
            paths: Paths::new(topology, routes)?,
            ways: vec![Vec::new(); topology.hosts() as usize],
        })
    }

    /// Returns the route from one host to another; with adaptive routing, the route in an idle network.
    pub(crate) fn between(&mut self, topology: &Topology, from: u32, to: u32) -> &FlowRoute {
        let own = &mut self.ways[from as usize];
        let at = match own.binary_search_by_key(&to, |(receiver, _)| *receiver) {
            Ok(at) => at,
            Err(at) => {
                let frame = headers(from, to);
                let path = self.paths.between(topology, from, to, &frame, 0, &|_, _| 0);
                own.insert(at, (to, way(topology, &path, from, to)));
                at
            }
        };
        &own[at].1
    }

    /// Returns the route that adaptive routing chooses now: `load` returns each link's load in a direction, and `salt` varies the choices.
    pub(crate) fn chosen(
        &mut self,
        topology: &Topology,
        from: u32,
        to: u32,
        salt: u64,
        load: &dyn Fn(LinkId, Direction) -> u64,
    ) -> FlowRoute {
        let frame = headers(from, to);
        let path = self.paths.between(topology, from, to, &frame, salt, load);
        way(topology, &path, from, to)
    }
}

/// The latencies of a topology's routes.
#[derive(Clone, Debug)]
pub struct Latencies {
    topology: Topology,
    ways: FlowRoutes,
}

impl Latencies {
    /// Creates the latencies of the topology with these routes.
    ///
    /// # Errors
    /// Returns an error if the topology does not fit the routing.
    pub fn new(topology: Topology, routes: &Routes) -> Result<Self, RoutingError> {
        let ways = FlowRoutes::new(&topology, routes)?;
        Ok(Self { topology, ways })
    }

    /// Returns the time of a frame without data from one host to another on an idle network; zero from a host to itself.
    ///
    /// # Panics
    /// Panics if there is no such host.
    pub fn between(&mut self, from: u32, to: u32) -> Span {
        match from == to {
            true => Span::ZERO,
            false => self.ways.between(&self.topology, from, to).empty(),
        }
    }
}

fn way(topology: &Topology, path: &[(LinkId, Direction)], from: u32, to: u32) -> FlowRoute {
    let links = topology.links();
    let specs = path.iter().map(|(link, _)| links[*link as usize].spec);
    let latencies = specs.clone().map(|spec| spec.latency);
    let switches =
        path.iter().map(
            |(link, direction)| match links[*link as usize].ends[direction.index()] {
                Endpoint::Switch(switch) => topology.switches()[switch as usize].latency,
                Endpoint::Host(_) => Span::ZERO,
            },
        );
    let latency = latencies
        .chain(switches)
        .fold(Span::ZERO, |sum, it| sum + it);
    let mut others: Vec<u64> = specs.map(|spec| spec.bandwidth).collect();
    let slowest = others.iter().copied().min().unwrap_or(0);
    if let Some(at) = others.iter().position(|rate| *rate == slowest) {
        others.remove(at);
    }
    let cards = links.len() as u32 * 2;
    let mut over: Vec<u32> = path
        .iter()
        .map(|(link, direction)| link * 2 + direction.index() as u32)
        .collect();
    over.extend([cards + from, cards + topology.hosts() + to]);
    FlowRoute {
        over: over.into(),
        slowest,
        latency,
        others,
    }
}

/// Returns the name of a direction of a link.
pub(crate) fn name(topology: &Topology, link: LinkId, direction: Direction) -> String {
    let way = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    format!("{} {way}", topology.link_name(link))
}
