//! The nodes' network: the section `[network]` and its tables of links.
//!
//! Parses values and checks words only; `plan/network.rs` checks the keys of each topology and builds it.

use std::fmt;
use std::path::PathBuf;

use belljar_fabric::Routing;
use belljar_sim::Span;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::scenario::delays::{HoldTable, LossTable};
use crate::scenario::quantity::{Bandwidth, Bytes, Duration};

/// The nodes' network. Keys of one topology are absent for others.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Network {
    /// Topology.
    #[schemars(with = "TopologyNames")]
    pub topology: TopologyKind,
    /// Tree: downward ports of each switch; 8 when absent.
    pub fanout: Option<u32>,
    /// Fat tree: ports of each of its switches, in three levels.
    pub ports: Option<u32>,
    /// Fat tree: children of each switch, from the lowest level up.
    pub children: Option<Vec<u32>>,
    /// Fat tree: parents of each switch or node, from the nodes up; the first is 1.
    pub parents: Option<Vec<u32>>,
    /// K-ary n-tree: children, and parents, of each switch.
    pub arity: Option<u32>,
    /// K-ary n-tree: levels of switches.
    pub levels: Option<u32>,
    /// Slim Fly: a prime; the number of switches is twice its square.
    pub order: Option<u32>,
    /// Torus and HyperX: switches along each dimension.
    pub dimensions: Option<Vec<u32>>,
    /// Torus, HyperX, dragonfly, Slim Fly, and a graph without hosts: nodes at each switch; 1 when absent.
    pub hosts_per_switch: Option<u32>,
    /// Dragonfly: switches in each group.
    pub switches_per_group: Option<u32>,
    /// Dragonfly: links of each switch to other groups.
    pub global_links_per_switch: Option<u32>,
    /// Dragonfly: number of groups; the minimum for the nodes when absent.
    pub groups: Option<u32>,
    /// Dragonfly: number of links between each two groups; as many as the ports allow when absent.
    pub global_wiring: Option<GlobalWiringName>,
    /// Dragonfly: bandwidth of links between groups; as between switches when absent.
    pub global_bandwidth: Option<Bandwidth>,
    /// Dragonfly: latency of links between groups; as between switches when absent.
    pub global_latency: Option<Duration>,
    /// Bandwidth of the nodes' links, in each direction.
    pub bandwidth: Bandwidth,
    /// Latency of the nodes' links.
    pub latency: Duration,
    /// Bandwidth of links between switches; as the nodes' links when absent.
    pub uplink_bandwidth: Option<Bandwidth>,
    /// Latency of links between switches; as the nodes' links when absent.
    pub uplink_latency: Option<Duration>,
    /// Latency of a switch, from the last bit in to the first bit out.
    pub switch_latency: Duration,
    /// Queue of each output port of a switch.
    pub switch_queue: Bytes,
    /// Bytes that a frame carries after the Ethernet header, from 576 to 9216.
    pub mtu: u16,
    /// True for network cards that compute checksums, cut large TCP packets into frames (TSO) and join received ones (LRO).
    pub offload: bool,
    /// Place of each node in the network, node 0 first, then of each host of background jobs. A place is given by the number of
    /// the node or host that has it by default.
    pub places: Option<Vec<u32>>,
    /// Selection among several routes. By default d-mod-k in fat trees and k-ary n-trees, ecmp in dragonflies, and shortest in
    /// all others.
    #[schemars(with = "Option<RoutingNames>")]
    pub routing: Option<RoutingName>,
    /// With routing `tables`: a file with the link of each switch towards each node.
    pub tables: Option<PathBuf>,
    /// Resolution of hardware addresses.
    pub arp: Arp,
    /// Losses, jitter and failures of links.
    #[serde(rename = "link")]
    pub links: Vec<LinkTable>,
    /// Frames that wait in the sender's network card.
    #[serde(rename = "hold")]
    pub holds: Vec<HoldTable>,
    /// Frames that are lost.
    #[serde(rename = "lose")]
    pub losses: Vec<LossTable>,
    /// Length of the windows in `links.csv`; no file when absent.
    pub statistics: Option<Duration>,
    /// Links to record as pcapng, such as `host0-switch0`; `all` for all.
    pub pcap: Vec<String>,
}

/// Number of links between each two groups of a dragonfly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GlobalWiringName {
    /// As many as the global ports allow, spread evenly over the groups' switches.
    AllPorts,
    /// One, from the groups' lowest ports.
    OneLink,
}

impl Network {
    /// The effective routing: the given one, or the topology's default.
    pub fn routing(&self) -> Routing {
        let named = self.routing.map(|RoutingName(routing)| routing);
        named.unwrap_or_else(|| self.topology.usual_routing())
    }

    /// Assignments of the topology's defaults that differ from the general ones. A scenario with them has the same meaning in a
    /// version with other defaults.
    pub fn defaults_of_shape(&self) -> Vec<String> {
        let mut named = Vec::new();
        let routing = RoutingName(self.routing());
        if self.routing.is_none() && routing.0 != Routing::default() {
            named.push(format!("network.routing={routing}"));
        }
        if self.topology == TopologyKind::Dragonfly && self.global_wiring.is_none() {
            named.push("network.global-wiring=all-ports".to_owned());
        }
        named
    }

    /// The wiring of a dragonfly's groups.
    pub fn global_wiring(&self) -> GlobalWiringName {
        self.global_wiring.unwrap_or(GlobalWiringName::AllPorts)
    }
}

/// Resolution of hardware addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arp {
    /// Nodes request an address when they need it, as Ethernet nodes do.
    Dynamic,
    /// Nodes know all addresses from the start.
    Static,
}

/// Losses, jitter and failures of some links. If several tables match a link, each adds its failure, and the last one with a loss
/// or a jitter applies.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkTable {
    /// Link name, or a pattern with `*` and `?`.
    pub name: String,
    /// Share of frames lost in each direction; none when absent.
    pub loss: Option<f64>,
    /// Longest delay of a frame; none when absent.
    pub jitter: Option<Duration>,
    /// Virtual time of the link's failure; never when absent.
    pub fail_at: Option<Duration>,
    /// Virtual time of the link's repair; never when absent.
    pub repair_at: Option<Duration>,
}

/// Topologies of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyKind {
    /// All nodes on one switch.
    Star,
    /// A tree of switches.
    Tree,
    /// A tree whose switches have several parents.
    FatTree,
    /// A grid of switches with joined edges.
    Torus,
    /// Groups of fully connected switches, with links between each two groups.
    Dragonfly,
    /// A fat tree with as many parents as children.
    KAryNTree,
    /// A grid of switches, each joined to all others along each dimension.
    HyperX,
    /// Switches with paths of two links at most.
    SlimFly,
    /// A graph from a file, relative to the scenario's.
    Graphml(PathBuf),
}

impl TopologyKind {
    const NAMED: [(&str, Self); 8] = [
        ("star", Self::Star),
        ("tree", Self::Tree),
        ("fat-tree", Self::FatTree),
        ("torus", Self::Torus),
        ("dragonfly", Self::Dragonfly),
        ("k-ary-n-tree", Self::KAryNTree),
        ("hyperx", Self::HyperX),
        ("slim-fly", Self::SlimFly),
    ];

    /// The default routing of a topology, which uses all of its links.
    pub fn usual_routing(&self) -> Routing {
        match self {
            Self::FatTree | Self::KAryNTree => Routing::DModK,
            Self::Dragonfly => Routing::Ecmp,
            _ => Routing::Shortest,
        }
    }
}

impl fmt::Display for TopologyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Graphml(file) = self {
            return write!(f, "graph of {}", file.display());
        }
        let named = Self::NAMED.iter().find(|(_, kind)| kind == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

/// Parses a name or a table, so that errors list the valid values.
struct TopologyVisitor;

impl<'de> Visitor<'de> for TopologyVisitor {
    type Value = TopologyKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "star, tree, fat-tree, k-ary-n-tree, torus, hyperx, dragonfly, slim-fly, or { graphml = \"FILE\" }",
        )
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<TopologyKind, E> {
        let mut named = TopologyKind::NAMED.into_iter();
        let found = named.find(|(known, _)| *known == name);
        found.map(|(_, kind)| kind).ok_or_else(|| {
            const NAMES: &[&str] = &[
                "star",
                "tree",
                "fat-tree",
                "k-ary-n-tree",
                "torus",
                "hyperx",
                "dragonfly",
                "slim-fly",
            ];
            E::unknown_variant(name, NAMES)
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TopologyKind, A::Error> {
        let mut file = None;
        while let Some(key) = map.next_key::<String>()? {
            if key != "graphml" {
                return Err(A::Error::unknown_field(&key, &["graphml"]));
            }
            file = Some(TopologyKind::Graphml(map.next_value()?));
        }
        file.ok_or_else(|| A::Error::missing_field("graphml"))
    }
}

impl<'de> Deserialize<'de> for TopologyKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TopologyVisitor)
    }
}

/// A routing by its name, such as `ecmp` or `d-mod-k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct RoutingName(pub Routing);

impl fmt::Display for RoutingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Routing::Shortest => "shortest",
            Routing::Ecmp => "ecmp",
            Routing::DModK => "d-mod-k",
            Routing::SModK => "s-mod-k",
            Routing::Random => "random",
            Routing::Valiant => "valiant",
            Routing::Adaptive => "adaptive",
            Routing::Ugal => "ugal",
            Routing::Tables => "tables",
        })
    }
}

/// Values of `topology`, for a schema.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "described, and never made")]
pub(crate) enum TopologyNames {
    Star,
    Tree,
    FatTree,
    Torus,
    Dragonfly,
    KAryNTree,
    #[schemars(rename = "hyperx")]
    HyperX,
    SlimFly,
    #[schemars(rename = "graphml")]
    Graphml(PathBuf),
}

/// Values of `routing`, for a schema.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "described, and never made")]
enum RoutingNames {
    Shortest,
    Ecmp,
    DModK,
    SModK,
    Random,
    Valiant,
    Adaptive,
    Ugal,
    Tables,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            topology: TopologyKind::Star,
            fanout: None,
            ports: None,
            children: None,
            parents: None,
            dimensions: None,
            hosts_per_switch: None,
            switches_per_group: None,
            global_links_per_switch: None,
            groups: None,
            global_wiring: None,
            global_bandwidth: None,
            global_latency: None,
            bandwidth: Bandwidth(10_000_000_000),
            latency: Duration(Span::from_us(1)),
            uplink_bandwidth: None,
            uplink_latency: None,
            switch_latency: Duration(Span::from_ns(300)),
            switch_queue: Bytes(512 << 10),
            mtu: 1500,
            offload: false,
            routing: None,
            tables: None,
            arp: Arp::Dynamic,
            links: Vec::new(),
            holds: Vec::new(),
            losses: Vec::new(),
            statistics: None,
            places: None,
            arity: None,
            levels: None,
            order: None,
            pcap: Vec::new(),
        }
    }
}
