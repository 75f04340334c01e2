//! Measures of a network: its diameter and its bisection.
//!
//! For display only, computed on demand: routes and times do not depend on them. Shown by `belljar check`.

use petgraph::algo::maximum_flow::dinics;
use petgraph::graph::{DiGraph, NodeIndex};

use super::{Endpoint, Topology};

/// Figures of a whole network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Links on the shortest path between the two hosts that are farthest apart.
    pub diameter: u32,
    /// The bisection; `None` with fewer than two hosts.
    pub bisection: Option<Bisection>,
}

/// The bandwidth between two halves of the hosts: the least of several cuts, each computed as the maximum
/// flow between the halves.
///
/// Tori, grids and HyperX are cut along each dimension, dragonflies by groups and across them, trees and fat
/// trees by subtrees. Other graphs are cut by number, outwards from a rim, and by the Fiedler vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bisection {
    /// Bits per second in one direction.
    pub bandwidth: u64,
    /// True if another cut may have less, so that the figure is an upper bound.
    pub is_bound: bool,
}

impl Topology {
    /// Computes figures of the whole network, which takes up to seconds for thousands of switches.
    pub fn measures(&self) -> Measures {
        Measures {
            diameter: self.diameter(),
            bisection: self.bisection(),
        }
    }

    fn populated(&self) -> Vec<u32> {
        let mut switches: Vec<u32> = (0..self.hosts()).map(|host| self.switch_of(host)).collect();
        switches.sort_unstable();
        switches.dedup();
        switches
    }

    fn diameter(&self) -> u32 {
        if self.hosts() < 2 {
            return 0;
        }
        let populated = self.populated();
        let mut farthest = 0;
        let mut steps = vec![u32::MAX; self.switches().len()];
        let mut open = Vec::new();
        for &from in &populated {
            steps.fill(u32::MAX);
            steps[from as usize] = 0;
            open.clear();
            open.push(from);
            let mut next = 0;
            while let Some(&switch) = open.get(next) {
                next += 1;
                for far in self.neighbours(switch) {
                    if steps[far as usize] == u32::MAX {
                        steps[far as usize] = steps[switch as usize] + 1;
                        open.push(far);
                    }
                }
            }
            let reached = populated.iter().map(|&to| steps[to as usize]);
            farthest = farthest.max(reached.max().unwrap_or(0));
        }
        farthest + 2
    }

    pub(super) fn neighbours(&self, switch: u32) -> impl Iterator<Item = u32> {
        self.links_at(switch).iter().filter_map(move |&link| {
            match self.links()[link as usize].other_end(Endpoint::Switch(switch)) {
                Endpoint::Switch(far) => Some(far),
                Endpoint::Host(_) => None,
            }
        })
    }

    fn bisection(&self) -> Option<Bisection> {
        let mut orders = self.cut_orders();
        orders.dedup();
        let cuts = orders.iter().filter_map(|order| self.between_halves(order));
        Some(Bisection {
            bandwidth: cuts.min()?,
            is_bound: self.cuts_are_a_sample(),
        })
    }

    /// The maximum flow from the first half of the hosts in an order to the second.
    fn between_halves(&self, order: &[u32]) -> Option<u64> {
        let half = order.len() / 2;
        let mut graph: DiGraph<(), u64> = DiGraph::new();
        let switches: Vec<NodeIndex> = self.switches().iter().map(|_| graph.add_node(())).collect();
        for link in self.links() {
            if let [Endpoint::Switch(near), Endpoint::Switch(far)] = link.ends {
                let (near, far) = (switches[near as usize], switches[far as usize]);
                graph.add_edge(near, far, link.spec.bandwidth);
                graph.add_edge(far, near, link.spec.bandwidth);
            }
        }
        let (source, sink) = (graph.add_node(()), graph.add_node(()));
        let mut of_hosts = vec![[0_u64; 2]; self.switches().len()];
        for (number, &host) in order.iter().enumerate() {
            let bandwidth = self.links()[self.link_of(host) as usize].spec.bandwidth;
            let sum = &mut of_hosts[self.switch_of(host) as usize][usize::from(number >= half)];
            *sum = sum.saturating_add(bandwidth);
        }
        for (&switch, [first, second]) in switches.iter().zip(of_hosts) {
            if first > 0 {
                graph.add_edge(source, switch, first);
            }
            if second > 0 {
                graph.add_edge(switch, sink, second);
            }
        }
        (half > 0).then(|| dinics(&graph, source, sink).0)
    }
}
