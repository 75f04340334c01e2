//! The assignment of nodes to hosts.
//!
//! Every node has one host, and host 0 has the run directory; no result depends on it. Made by `muster`
//! from the placement and sent to all hosts, which validate it.

use belljar_fabric::Distances;
use belljar_sim::Span;
use serde::{Deserialize, Serialize};

/// Host 0 has the run directory; hosts go by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    names: Vec<String>,
    /// For each node, the host that runs it.
    host_of: Vec<u32>,
}

impl Partition {
    /// Hosts with these names, and for each node its host.
    ///
    /// # Panics
    /// If a node's host does not exist.
    pub fn new(names: Vec<String>, host_of: Vec<u32>) -> Self {
        let known = |host: &u32| (*host as usize) < names.len();
        assert!(host_of.iter().all(known), "a node is on no host");
        Self { names, host_of }
    }

    /// True if it is consistent, as it may come from another host.
    pub(crate) fn is_sound(&self) -> bool {
        let known = |host: &u32| (*host as usize) < self.names.len();
        self.host_of.iter().all(known)
    }

    /// The hosts' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The name of a host.
    pub fn name(&self, host: u32) -> &str {
        self.names.get(host as usize).map_or("?", String::as_str)
    }

    /// The host that runs `node`, if the node exists.
    pub fn host_of(&self, node: u32) -> Option<u32> {
        self.host_of.get(node as usize).copied()
    }

    /// The minimum latency of a frame from one of `host`'s nodes to another host's node; `None` if
    /// there are no such pairs.
    pub fn least_crossing(&self, host: u32, distances: &Distances) -> Option<Span> {
        let nodes = 0..self.host_of.len() as u32;
        let others: Vec<u32> = nodes
            .filter(|&node| self.host_of(node) != Some(host))
            .collect();
        let crossing = self
            .nodes_of(host)
            .flat_map(|from| others.iter().map(move |&to| distances.least(from, to)));
        crossing.min()
    }

    /// The nodes that `host` runs, in order.
    pub fn nodes_of(&self, host: u32) -> impl Iterator<Item = u32> {
        let hosts = (0..).zip(&self.host_of);
        hosts.filter_map(move |(node, of)| (*of == host).then_some(node))
    }
}
