//! Routing of a job's flows over links.
//!
//! Used by the simulation when a job's processes are placed. A policy gets the placement, the traffic, and the current load of links.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_fabric::{Direction, LinkId, Paths, Routes, Routing, RoutingError, Topology, headers};

use crate::job::JobTraffic;
use crate::load::Loads;
use crate::memory::Memory;

/// A route, by its links as numbered by [`Loads`].
pub type Way = Arc<[u32]>;

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
    /// Returns the route of each flow of the job's traffic, in their order; empty within a host.
    fn route(&mut self, placed: Placed<'_>) -> Vec<Way>;
}

/// Routes like runs and replays, by the fabric's own rules. Adaptive rules use the links' loads in place of queues, including the job's flows that were routed
/// before.
#[derive(Debug)]
pub struct Fabric {
    paths: Paths,
    looks_at_load: bool,
    known: BTreeMap<(u32, u32), Way>,
}

/// Most cached routes.
const REMEMBERED: usize = 1 << 20;

impl Fabric {
    /// Creates a router with these rules.
    ///
    /// # Errors
    /// Returns an error if the topology does not fit the rules.
    pub fn new(topology: &Topology, routes: &Routes) -> Result<Self, RoutingError> {
        Ok(Self {
            paths: Paths::new(topology, routes)?,
            looks_at_load: routes.routing.looks_at_load(),
            known: BTreeMap::new(),
        })
    }

    fn between(
        &mut self,
        topology: &Topology,
        from: u32,
        to: u32,
        salt: u64,
        load: &dyn Fn(u32) -> u64,
    ) -> Way {
        if !self.looks_at_load
            && let Some(way) = self.known.get(&(from, to))
        {
            return Arc::clone(way);
        }
        let load = |link: LinkId, direction: Direction| load(number(link, direction));
        let frame = headers(from, to);
        let path = self.paths.between(topology, from, to, &frame, salt, &load);
        let way: Way = path
            .into_iter()
            .map(|(link, direction)| number(link, direction))
            .collect();
        if !self.looks_at_load && self.known.len() < REMEMBERED {
            self.known.insert((from, to), Arc::clone(&way));
        }
        way
    }
}

/// The cache needs no saving, as it is recomputed.
impl Memory for Fabric {}

impl Router for Fabric {
    fn route(&mut self, placed: Placed<'_>) -> Vec<Way> {
        let mut own: BTreeMap<u32, u64> = BTreeMap::new();
        let mut ways = Vec::with_capacity(placed.traffic.flows.len());
        for (salt, flow) in (0..).zip(&placed.traffic.flows) {
            let pair = [flow.from, flow.to].map(|rank| placed.places[rank as usize]);
            let load = |link| placed.loads.of(link) + own.get(&link).copied().unwrap_or(0);
            let way = self.between(placed.topology, pair[0], pair[1], salt, &load);
            if self.looks_at_load {
                for link in way.iter() {
                    *own.entry(*link).or_default() += flow.rate;
                }
            }
            ways.push(way);
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
    fn route(&mut self, placed: Placed<'_>) -> Vec<Way> {
        let flows = &placed.traffic.flows;
        let mut order: Vec<usize> = (0..flows.len()).collect();
        order.sort_by_key(|flow| std::cmp::Reverse(flows[*flow].rate));
        let mut own: BTreeMap<u32, u64> = BTreeMap::new();
        let mut ways: Vec<Way> = vec![Arc::from([]); flows.len()];
        for at in order {
            let flow = flows[at];
            let [from, to] = [flow.from, flow.to].map(|rank| placed.places[rank as usize]);
            let busiest = |way: &Way| {
                let shares = way.iter().map(|link| {
                    let load = placed.loads.of(*link) + own.get(link).copied().unwrap_or(0);
                    (load + flow.rate) as f64 / placed.loads.capacity(*link).max(1) as f64
                });
                shares.fold(0.0, f64::max)
            };
            let tried = self.several.iter_mut();
            let tried = tried.map(|router| router.between(placed.topology, from, to, 0, &|_| 0));
            let way = tried.min_by(|one, other| busiest(one).total_cmp(&busiest(other)));
            let way = way.unwrap_or_else(|| Arc::from([]));
            for link in way.iter() {
                *own.entry(*link).or_default() += flow.rate;
            }
            ways[at] = way;
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
        for way in &ways {
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
        assert_eq!(ways[0].len(), 0);
    }
}
