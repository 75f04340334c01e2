//! Ways through a network: what messages go over, and how long the way is.
//!
//! Called by models of networks.

use std::sync::Arc;

use belljar_fabric::{Direction, Endpoint, LinkId, Paths, Routes, RoutingError, Topology, headers};
use belljar_sim::Span;

use crate::network::{SEGMENT, on_wire};

/// A way from one host to another.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// Directions of links that it goes over, by twice the link's number and one more downwards; then the sender and the receiver, by the numbers after
    /// those.
    pub(crate) over: Arc<[u32]>,
    /// Bits a second of its slowest link.
    slowest: u64,
    /// All latencies.
    latency: Span,
    /// For each link but the slowest, bits a second: a frame is taken in there before it is sent on.
    others: Vec<u64>,
}

impl Way {
    /// Time that a message's last frame takes besides that on the slowest link.
    pub(crate) fn after(&self, bytes: u64) -> Span {
        let frame = on_wire(bytes.min(SEGMENT));
        let others = self.others.iter();
        others.fold(self.latency, |sum, rate| {
            sum + Span::of_transfer(frame, *rate)
        })
    }

    /// Time on the slowest link.
    pub(crate) fn transmission(&self, bytes: u64) -> Span {
        Span::of_transfer(on_wire(bytes), self.slowest)
    }

    /// Time that a frame without data takes where nothing else goes.
    pub(crate) fn empty(&self) -> Span {
        self.after(0) + self.transmission(0)
    }
}

/// Ways through a topology, found when first asked for.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    paths: Paths,
    /// By sender: receivers, in order, with the way to each.
    ways: Vec<Vec<(u32, Way)>>,
}

impl Ways {
    pub(crate) fn new(topology: &Topology, routes: &Routes) -> Result<Self, RoutingError> {
        Ok(Self {
            paths: Paths::new(topology, routes)?,
            ways: vec![Vec::new(); topology.hosts() as usize],
        })
    }

    /// The way from one host to another; where routing looks at queues, that of an idle network.
    pub(crate) fn between(&mut self, topology: &Topology, from: u32, to: u32) -> &Way {
        let own = &mut self.ways[from as usize];
        let at = match own.binary_search_by_key(&to, |(receiver, _)| *receiver) {
            Ok(at) => at,
            Err(at) => {
                let frame = headers(from, to);
                let frame = (frame.as_slice(), 0);
                let path = self.paths.between(topology, from, to, frame, &|_, _| 0);
                own.insert(at, (to, way(topology, &path, (from, to))));
                at
            }
        };
        &own[at].1
    }

    /// The way that routing which looks at queues chooses now: `load` says how much each link carries in a direction, and `salt` tells choices apart.
    pub(crate) fn chosen(
        &mut self,
        topology: &Topology,
        (from, to): (u32, u32),
        salt: u64,
        load: &dyn Fn(LinkId, Direction) -> u64,
    ) -> Way {
        let frame = headers(from, to);
        let path = self.paths.between(topology, from, to, (&frame, salt), load);
        way(topology, &path, (from, to))
    }
}

/// How long the ways of a topology are.
#[derive(Clone, Debug)]
pub struct Latencies {
    topology: Topology,
    ways: Ways,
}

impl Latencies {
    /// Those of the topology with these routes.
    ///
    /// # Errors
    /// When the topology is none for the routing.
    pub fn new(topology: Topology, routes: &Routes) -> Result<Self, RoutingError> {
        let ways = Ways::new(&topology, routes)?;
        Ok(Self { topology, ways })
    }

    /// How long a frame without data takes from one host to another where nothing else goes; nothing from a host to itself.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn between(&mut self, from: u32, to: u32) -> Span {
        match from == to {
            true => Span::ZERO,
            false => self.ways.between(&self.topology, from, to).empty(),
        }
    }
}

fn way(topology: &Topology, path: &[(LinkId, Direction)], (from, to): (u32, u32)) -> Way {
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
    Way {
        over: over.into(),
        slowest,
        latency,
        others,
    }
}

/// A direction of a link, for people.
pub(crate) fn name(topology: &Topology, link: LinkId, direction: Direction) -> String {
    let way = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    format!("{} {way}", topology.link_name(link))
}
