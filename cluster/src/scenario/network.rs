//! What connects the nodes: the section `[network]` and its tables of links.
//!
//! Says what was written and checks words only; what belongs to which topology is checked by
//! `plan/network.rs`, which builds it.

use std::fmt;
use std::path::PathBuf;

use belljar_fabric::Routing;
use belljar_sim::Span;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::scenario::quantity::{Bandwidth, Bytes, Duration};

/// What connects the nodes. What belongs to one topology only is absent for the others.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Network {
    /// Its shape.
    #[schemars(with = "TopologyNames")]
    pub topology: TopologyKind,
    /// Of a tree: ports downward of each switch; 8 when absent.
    pub fanout: Option<u32>,
    /// Of a fat tree: ports of each of its switches, in three levels.
    pub ports: Option<u32>,
    /// Of a fat tree: children of each switch, from the lowest level up.
    pub children: Option<Vec<u32>>,
    /// Of a fat tree: parents of each place, from the nodes up; the first is 1.
    pub parents: Option<Vec<u32>>,
    /// Of a k-ary n-tree: children, and parents, of each switch.
    pub arity: Option<u32>,
    /// Of a k-ary n-tree: levels of switches.
    pub levels: Option<u32>,
    /// Of a Slim Fly: a prime; there are twice its square switches.
    pub order: Option<u32>,
    /// Of a torus and a HyperX: switches along each dimension.
    pub dimensions: Option<Vec<u32>>,
    /// Of a torus, a HyperX, a dragonfly and a Slim Fly, and of a graph that names no hosts: nodes at each
    /// switch; 1 when absent.
    pub hosts_per_switch: Option<u32>,
    /// Of a dragonfly: switches in each group.
    pub switches_per_group: Option<u32>,
    /// Of a dragonfly: links of each switch to other groups.
    pub global_links_per_switch: Option<u32>,
    /// Of a dragonfly: groups; as few as have room when absent.
    pub groups: Option<u32>,
    /// Of a dragonfly: how many links join each two groups; as many as the ports allow when absent.
    pub global_wiring: Option<GlobalWiringName>,
    /// Of a dragonfly's links between groups; those between switches when absent.
    pub global_bandwidth: Option<Bandwidth>,
    /// Of a dragonfly's links between groups; those between switches when absent.
    pub global_latency: Option<Duration>,
    /// Of the nodes' links, each way.
    pub bandwidth: Bandwidth,
    /// Of the nodes' links.
    pub latency: Duration,
    /// Of links between switches; the nodes' when absent.
    pub uplink_bandwidth: Option<Bandwidth>,
    /// Of links between switches; the nodes' when absent.
    pub uplink_latency: Option<Duration>,
    /// From the last bit in to the first bit out.
    pub switch_latency: Duration,
    /// Room at each output port of a switch.
    pub switch_queue: Bytes,
    /// Bytes that a frame carries after the Ethernet header, from 576 to 9216.
    pub mtu: u16,
    /// True for cards that compute checksums, cut large TCP packets into frames (TSO) and join received ones (LRO).
    pub offload: bool,
    /// The place of each node in the network, node 0 first, then of each host of background jobs: the number of the place that it would have otherwise. As they are numbered when absent.
    pub places: Option<Vec<u32>>,
    /// Choice among several routes; by default d-mod-k in fat trees and k-ary n-trees, ecmp in
    /// dragonflies, and shortest in all others.
    #[schemars(with = "Option<RoutingNames>")]
    pub routing: Option<RoutingName>,
    /// With routing `tables`: a file that says which link each switch sends frames to each node over.
    pub tables: Option<PathBuf>,
    /// How nodes get to know each other's hardware addresses.
    pub arp: Arp,
    /// What goes wrong on links.
    #[serde(rename = "link")]
    pub links: Vec<LinkTable>,
    /// Length of the windows for which `links.csv` has figures; no file when absent.
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
    /// The routing in force: the one that is named, or the shape's default.
    pub fn routing(&self) -> Routing {
        let named = self.routing.map(|RoutingName(routing)| routing);
        named.unwrap_or_else(|| self.topology.usual_routing())
    }

    /// Assignments that name the defaults of the shape, where they are not those of all shapes: a scenario
    /// with them means the same to a version with other defaults.
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

/// How nodes get to know each other's hardware addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arp {
    /// They ask all others when they need one, as Ethernet's nodes do.
    Dynamic,
    /// They know all from the start, and never ask.
    Static,
}

/// What goes wrong on some links. Of several tables for a link, each adds its failure, and
/// the last one that has a loss or a jitter holds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkTable {
    /// The link's name, or a pattern with `*` and `?` for several.
    pub name: String,
    /// Share of frames lost on the wire, each way; none when absent.
    pub loss: Option<f64>,
    /// The most by which a frame is late; never when absent.
    pub jitter: Option<Duration>,
    /// Virtual time at which the link fails; never when absent.
    pub fail_at: Option<Duration>,
    /// Virtual time at which it works again; never when absent.
    pub repair_at: Option<Duration>,
}

/// Shapes of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyKind {
    /// All nodes on one switch.
    Star,
    /// A tree of switches.
    Tree,
    /// A tree whose switches have several parents.
    FatTree,
    /// A grid of switches whose edges are joined.
    Torus,
    /// Groups of switches, all joined within and each two joined by links.
    Dragonfly,
    /// A fat tree with as many parents as children.
    KAryNTree,
    /// A grid of switches, each joined to all others along each dimension.
    HyperX,
    /// Switches with ways of two links at most.
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

    /// The routing of a shape for which none is named: one that uses its links.
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

/// Reads a name or a table, so that errors say what could have been written.
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

/// What `topology` may be, for a schema.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "described, and never made")]
enum TopologyNames {
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

/// What `routing` may be, for a schema.
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
            statistics: None,
            places: None,
            arity: None,
            levels: None,
            order: None,
            pcap: Vec::new(),
        }
    }
}
