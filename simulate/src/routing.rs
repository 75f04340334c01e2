//! Routing of a job's flows over links.
//!
//! Used by the simulation when a job's processes are placed. A policy gets the placement, the traffic, and the current load of links.

/// Routes of a job's flows.
mod ways;

use std::collections::BTreeMap;

use belljar_fabric::{Direction, LinkId, Paths, Routes, Routing, RoutingError, Topology, headers};

use crate::job::JobTraffic;
use crate::load::Loads;
use crate::memory::Memory;
pub use ways::Ways;

/// A job whose flows are to be routed.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The host of each process.
    pub places: &'a [u32],
    /// Their traffic.
    pub traffic: &'a JobTraffic,
    /// The load of links, without the job.
    pub loads: &'a Loads,
    /// The network.
    pub topology: &'a Topology,
}

/// Routes flows. Implement it for a custom policy.
pub trait Router: Memory {
    /// Returns the route of each flow of the job's traffic; empty within a host.
    fn route(&mut self, placed: Placed<'_>) -> Ways;
}

/// Routes like runs and replays, by the fabric's own rules. Adaptive rules use the links' loads in place of queues, including the job's flows that were routed
/// before.
#[derive(Debug)]
pub struct Fabric {
    paths: Paths,
    looks_at_load: bool,
    /// The latest route.
    way: Vec<u32>,
}

impl Fabric {
    /// Creates a router with these rules.
    ///
    /// # Errors
    /// Returns an error if the topology does not fit the rules.
    pub fn new(topology: &Topology, routes: &Routes) -> Result<Self, RoutingError> {
        Ok(Self {
            paths: Paths::new(topology, routes)?,
            looks_at_load: routes.routing.looks_at_load(),
            way: Vec::new(),
        })
    }

    /// Returns the route of a pair. Routes are not cached: a cache of all pairs that a large machine uses is slower than the search.
    fn between(
        &mut self,
        topology: &Topology,
        (from, to): (u32, u32),
        salt: u64,
        load: &dyn Fn(u32) -> u64,
    ) -> &[u32] {
        let load = |link: LinkId, direction: Direction| load(number(link, direction));
        let frame = headers(from, to);
        let path = self.paths.between(topology, from, to, &frame, salt, &load);
        let links = path.into_iter();
        self.way.clear();
        self.way
            .extend(links.map(|(link, direction)| number(link, direction)));
        &self.way
    }
}

impl Memory for Fabric {}

impl Router for Fabric {
    fn route(&mut self, placed: Placed<'_>) -> Ways {
        let flows = &placed.traffic.flows;
        let mut own: BTreeMap<u32, u64> = BTreeMap::new();
        let mut ways = Ways::new(flows.len());
        for (number, flow) in flows.iter().enumerate() {
            let host = |rank: u32| placed.places[rank as usize];
            let pair = (host(flow.from), host(flow.to));
            let load = |link| placed.loads.of(link) + own.get(&link).copied().unwrap_or(0);
            let salt = number as u64;
            ways.set(number, self.between(placed.topology, pair, salt, &load));
            if self.looks_at_load {
                for link in ways.of(number) {
                    *own.entry(*link).or_default() += flow.rate;
                }
            }
        }
        ways
    }
}

/// Routes the largest flows first, each over the one of several shortest routes that minimizes the load of its busiest link, relative to the capacity.
#[derive(Debug)]
pub struct Greedy {
    /// Random routes, from several seeds.
    several: Vec<Fabric>,
}

/// Number of routes that are tried.
const TRIED: u64 = 16;

impl Greedy {
    /// Creates a router for a topology.
    ///
    /// # Errors
    /// Returns an error if the topology does not support random routing; all topologies do.
    pub fn new(topology: &Topology, seed: u64) -> Result<Self, RoutingError> {
        let of = |number: u64| {
            let routes = Routes {
                routing: Routing::Random,
                seed: seed ^ number.rotate_left(17),
                tables: None,
            };
            Fabric::new(topology, &routes)
        };
        Ok(Self {
            several: (0..TRIED).map(of).collect::<Result<_, _>>()?,
        })
    }
}

impl Memory for Greedy {}

impl Router for Greedy {
    fn route(&mut self, placed: Placed<'_>) -> Ways {
        let flows = &placed.traffic.flows;
        let mut order: Vec<usize> = (0..flows.len()).collect();
        order.sort_by_key(|flow| std::cmp::Reverse(flows[*flow].rate));
        let mut own: BTreeMap<u32, u64> = BTreeMap::new();
        let mut ways = Ways::new(flows.len());
        for at in order {
            let flow = flows[at];
            let host = |rank: u32| placed.places[rank as usize];
            let pair = (host(flow.from), host(flow.to));
            let busiest = |way: &[u32]| {
                let shares = way.iter().map(|link| {
                    let load = placed.loads.of(*link) + own.get(link).copied().unwrap_or(0);
                    (load + flow.rate) as f64 / placed.loads.capacity(*link).max(1) as f64
                });
                shares.fold(0.0, f64::max)
            };
            let mut least: Option<f64> = None;
            for router in &mut self.several {
                let way = router.between(placed.topology, pair, 0, &|_| 0);
                let share = busiest(way);
                if least.is_none_or(|least| share.total_cmp(&least).is_lt()) {
                    least = Some(share);
                    ways.set(at, way);
                }
            }
            for link in ways.of(at) {
                *own.entry(*link).or_default() += flow.rate;
            }
        }
        ways
    }
}

fn number(link: LinkId, direction: Direction) -> u32 {
    link * 2 + direction.index() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RankFlow;
    use crate::shapes::two_levels;

    /// Returns the load of the busiest link with four flows from one switch's hosts to the other's.
    fn busiest(router: &mut dyn Router) -> u64 {
        let topology = two_levels();
        let flow = |from: u32| RankFlow {
            from,
            to: from + 4,
            rate: 1_000,
        };
        let traffic = JobTraffic {
            flows: (0..4).map(flow).collect(),
        };
        let places: Vec<u32> = (0..8).collect();
        let mut loads = Loads::new(vec![10_000; topology.links().len() * 2]);
        let ways = router.route(Placed {
            places: &places,
            traffic: &traffic,
            loads: &loads,
            topology: &topology,
        });
        for way in ways.iter() {
            // Up, up, down, down.
            assert_eq!(way.len(), 4);
            for link in way.iter() {
                loads.add(0, *link, 1_000);
            }
        }
        loads.at(0).maximum
    }

    fn fabric(routing: Routing) -> Fabric {
        let routes = Routes {
            routing,
            seed: 1,
            tables: None,
        };
        Fabric::new(&two_levels(), &routes).unwrap()
    }

    #[test]
    fn policies_spread_flows_as_they_say() {
        // All flows over the first of four upper switches; then one over each.
        assert_eq!(busiest(&mut fabric(Routing::Shortest)), 4_000);
        assert_eq!(busiest(&mut fabric(Routing::DModK)), 1_000);
        assert_eq!(busiest(&mut fabric(Routing::Adaptive)), 1_000);
        assert_eq!(busiest(&mut Greedy::new(&two_levels(), 1).unwrap()), 1_000);
    }

    #[test]
    fn within_a_host_nothing_is_routed() {
        let topology = two_levels();
        let traffic = JobTraffic {
            flows: vec![RankFlow {
                from: 0,
                to: 1,
                rate: 5,
            }],
        };
        let loads = Loads::new(vec![10; topology.links().len() * 2]);
        let ways = fabric(Routing::Shortest).route(Placed {
            places: &[3, 3],
            traffic: &traffic,
            loads: &loads,
            topology: &topology,
        });
        assert!(ways.of(0).is_empty());
    }
}
