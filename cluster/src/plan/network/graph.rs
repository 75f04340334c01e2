//! Topologies from GraphML files.
//!
//! Attributes of nodes: `kind`, `host` or `switch` (a switch when absent); of switches `latency`
//! and `queue`. Of edges: `bandwidth`, `latency`, `queue` and `cost`. The scenario gives absent
//! values. If no node is a host, the scenario's nodes are placed at the switches, in the file's
//! order.

use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

use belljar_fabric::graphml::{Data, Graph, GraphEdge, GraphNode};
use belljar_fabric::{Endpoint, Link, LinkId, LinkSpec, PartSpecs, SwitchSpec, Topology};

use super::bounded;
use super::error::NetworkError;
use super::parts::parts;
use crate::scenario::Network;
use crate::scenario::quantity::{Bandwidth, Bytes, Duration, QuantityError};

/// Builds the topology of the file `path`.
pub(super) fn build(path: &Path, network: &Network, hosts: u32) -> Result<Topology, NetworkError> {
    let read = |source| NetworkError::Read {
        path: path.to_owned(),
        source,
    };
    let text = bounded::read(path).map_err(read)?;
    let graph = Graph::parse(&text).map_err(|source| NetworkError::Graphml {
        path: path.to_owned(),
        source,
    })?;
    GraphBuilder {
        path,
        parts: parts(network),
        per_switch: network.hosts_per_switch,
    }
    .build(&graph, hosts)
}

struct GraphBuilder<'a> {
    path: &'a Path,
    parts: PartSpecs,
    per_switch: Option<u32>,
}

/// Attributes of links that are read.
const LINK_ATTRIBUTES: [&str; 4] = ["bandwidth", "latency", "queue", "cost"];

/// Attributes of edges besides bandwidth and latency.
type Extras = Vec<(LinkId, Option<u8>, Option<u64>)>;

impl GraphBuilder<'_> {
    fn build(&self, graph: &Graph, hosts: u32) -> Result<Topology, NetworkError> {
        let mut places = Vec::new();
        let mut names = [Vec::new(), Vec::new()];
        let mut switches = Vec::new();
        for node in &graph.nodes {
            let is_host = self.is_host(node)?;
            let kind = &mut names[usize::from(!is_host)];
            let number = kind.len() as u32;
            kind.push(node.id.clone());
            places.push(if is_host {
                Endpoint::Host(number)
            } else {
                switches.push(self.switch(node)?);
                Endpoint::Switch(number)
            });
        }
        let mut links = Vec::new();
        let mut extras = Vec::new();
        for edge in &graph.edges {
            extras.push((
                links.len() as LinkId,
                self.cost(graph, edge)?,
                self.queue(graph, edge)?,
            ));
            links.push(self.link(graph, edge, &places)?);
        }
        if names[0].is_empty() {
            self.populate(hosts, &mut names, &mut links)?;
        } else if names[0].len() != hosts as usize {
            return Err(self.refuse(format!(
                "it has {} hosts and the scenario {hosts} nodes; set nodes.count to the same",
                names[0].len()
            )));
        } else if self.per_switch.is_some() {
            return Err(self.refuse(
                "it names its hosts, so network.hosts-per-switch says nothing; remove it".into(),
            ));
        }
        let mut topology = Topology::with_names(hosts, switches, links, Some(names))?;
        topology.set_unread_attributes(unread(graph, &places));
        finish(topology, extras)
    }

    /// Places hosts at switches without any.
    fn populate(
        &self,
        hosts: u32,
        names: &mut [Vec<String>; 2],
        links: &mut Vec<Link>,
    ) -> Result<(), NetworkError> {
        let per_switch = self.per_switch.unwrap_or(1).max(1);
        let room = names[1].len() as u64 * u64::from(per_switch);
        if room < u64::from(hosts) {
            return Err(self.refuse(format!(
                "it names no hosts, and its switches have room for {room}, not {hosts}; raise network.hosts-per-switch"
            )));
        }
        // A switch may have a host's usual name.
        let taken: BTreeSet<String> = names[1].iter().cloned().collect();
        for host in 0..hosts {
            let name = format!("host{host}");
            if taken.contains(&name) {
                return Err(self.refuse(format!(
                    "a switch has the name `{name}` of a host; rename it"
                )));
            }
            names[0].push(name);
            links.push(Link {
                ends: [Endpoint::Host(host), Endpoint::Switch(host / per_switch)],
                spec: self.parts.link,
            });
        }
        Ok(())
    }

    fn is_host(&self, node: &GraphNode) -> Result<bool, NetworkError> {
        match node.data.get("kind").map(String::as_str) {
            Some("host") => Ok(true),
            Some("switch") | None => Ok(false),
            Some(kind) => Err(self.refuse(format!(
                "the node {} is of kind `{}`; it must be host or switch",
                node.id,
                kind.escape_debug()
            ))),
        }
    }

    fn switch(&self, node: &GraphNode) -> Result<SwitchSpec, NetworkError> {
        let latency: Option<Duration> = self.value(&node.data, "latency", || node.id.clone())?;
        let queue: Option<Bytes> = self.value(&node.data, "queue", || node.id.clone())?;
        Ok(SwitchSpec {
            latency: latency.map_or(self.parts.switch.latency, |it| it.0),
            queue_bytes: queue.map_or(self.parts.switch.queue_bytes, |it| it.0),
        })
    }

    fn link(
        &self,
        graph: &Graph,
        edge: &GraphEdge,
        places: &[Endpoint],
    ) -> Result<Link, NetworkError> {
        let mut ends = edge.ends.map(|node| places[node]);
        // Puts the host first.
        ends.sort_unstable_by_key(|end| matches!(end, Endpoint::Switch(_)));
        let usual = match ends[0] {
            Endpoint::Host(_) => self.parts.link,
            Endpoint::Switch(_) => self.parts.uplink,
        };
        let place = || name(graph, edge);
        let bandwidth: Option<Bandwidth> = self.value(&edge.data, "bandwidth", place)?;
        let latency: Option<Duration> = self.value(&edge.data, "latency", place)?;
        Ok(Link {
            ends,
            spec: LinkSpec {
                bandwidth: bandwidth.map_or(usual.bandwidth, |it| it.0),
                latency: latency.map_or(usual.latency, |it| it.0),
            },
        })
    }

    fn cost(&self, graph: &Graph, edge: &GraphEdge) -> Result<Option<u8>, NetworkError> {
        let Some(text) = edge.data.get("cost") else {
            return Ok(None);
        };
        // Tools write whole numbers of a decimal type with a fraction of zero.
        let number = text.parse().ok().filter(|it: &f64| it.fract() == 0.0);
        let cost = number
            .filter(|it| (1.0..=255.0).contains(it))
            .map(|it| it as u8);
        let place = name(graph, edge);
        cost.map(Some).ok_or_else(|| {
            self.refuse(format!(
                "cost of {place} is `{}`; it must be a whole number from 1 to 255",
                text.escape_debug()
            ))
        })
    }

    fn queue(&self, graph: &Graph, edge: &GraphEdge) -> Result<Option<u64>, NetworkError> {
        let queue: Option<Bytes> = self.value(&edge.data, "queue", || name(graph, edge))?;
        Ok(queue.map(|bytes| bytes.0))
    }

    fn value<T: FromStr<Err = QuantityError>>(
        &self,
        data: &Data,
        key: &'static str,
        place: impl Fn() -> String,
    ) -> Result<Option<T>, NetworkError> {
        let parsed = data.get(key).map(|text| text.parse());
        parsed.transpose().map_err(|source| NetworkError::Value {
            path: self.path.to_owned(),
            key,
            place: place(),
            source: Box::new(source),
        })
    }

    fn refuse(&self, reason: String) -> NetworkError {
        NetworkError::Graph {
            path: self.path.to_owned(),
            reason,
        }
    }
}

/// Attributes that the file has and the topology does not, sorted: of hosts, of switches, of links.
fn unread(graph: &Graph, places: &[Endpoint]) -> Vec<String> {
    let of_nodes = graph.nodes.iter().zip(places).map(|(node, place)| {
        let (owner, read): (_, &[&str]) = match place {
            Endpoint::Host(_) => ("host", &["kind"]),
            Endpoint::Switch(_) => ("switch", &["kind", "latency", "queue"]),
        };
        (owner, read, &node.data)
    });
    let links = graph.edges.iter();
    let of_links = links.map(|edge| ("link", LINK_ATTRIBUTES.as_slice(), &edge.data));
    let unread = of_nodes.chain(of_links).flat_map(|(owner, read, data)| {
        let names = data.keys().filter(|name| !read.contains(&name.as_str()));
        names.map(move |name| format!("{owner} {}", name.escape_debug()))
    });
    let sorted: BTreeSet<String> = unread.collect();
    sorted.into_iter().collect()
}

fn name(graph: &Graph, edge: &GraphEdge) -> String {
    let [source, target] = edge.ends.map(|node| graph.nodes[node].id.as_str());
    format!("{source}-{target}")
}

fn finish(mut topology: Topology, extras: Extras) -> Result<Topology, NetworkError> {
    for (link, cost, queue) in extras {
        if let Some(cost) = cost {
            topology.set_cost(link, cost)?;
        }
        if let Some(bytes) = queue {
            topology.set_queue(link, bytes);
        }
    }
    Ok(topology)
}
