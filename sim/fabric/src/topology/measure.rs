//! Measures of a network: its diameter and its bandwidth between halves.
//!
//! Figures for people, computed when asked for: no route and no time depends on them. Shown by `belljar
//! check`.

use petgraph::algo::maximum_flow::dinics;
use petgraph::graph::{DiGraph, NodeIndex};

use super::{Endpoint, Topology};

/// Figures of a whole network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Links on the way between the two hosts that are farthest apart, over as few links
    /// as there can be.
    pub diameter: u32,
    /// What the lower half of the hosts, by number, can send to the upper half at a time, in
    /// bits per second: the maximum flow, which for full regular shapes is the bisection
    /// bandwidth. `None` with fewer than two hosts.
    pub between_halves: Option<u64>,
}

impl Topology {
    /// Computes figures of the whole network: takes up to seconds for thousands of
    /// switches.
    pub fn measures(&self) -> Measures {
        Measures {
            diameter: self.diameter(),
            between_halves: self.between_halves(),
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

    fn neighbours(&self, switch: u32) -> impl Iterator<Item = u32> {
        self.links_at(switch).iter().filter_map(move |&link| {
            match self.links()[link as usize].other_end(Endpoint::Switch(switch)) {
                Endpoint::Switch(far) => Some(far),
                Endpoint::Host(_) => None,
            }
        })
    }

    fn between_halves(&self) -> Option<u64> {
        let half = self.hosts() / 2;
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
        for host in 0..self.hosts() {
            let switch = switches[self.switch_of(host) as usize];
            let bandwidth = self.links()[self.link_of(host) as usize].spec.bandwidth;
            let (near, far) = if host < half {
                (source, switch)
            } else {
                (switch, sink)
            };
            match graph.find_edge(near, far) {
                Some(edge) => graph[edge] = graph[edge].saturating_add(bandwidth),
                None => drop(graph.add_edge(near, far, bandwidth)),
            }
        }
        (half > 0).then(|| dinics(&graph, source, sink).0)
    }
}
