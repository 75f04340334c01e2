//! The nodes' InfiniBand cards and their network: the section `[infiniband]`.
//!
//! Parses values and checks words only; `plan/infiniband.rs` resolves them. A scenario without the section has no cards.

use belljar_sim::Span;
use schemars::JsonSchema;
use serde::Deserialize;

/// The table `infiniband.congestion`.
mod congestion;

pub use congestion::{CongestionTable, ControlName};

use crate::scenario::network::{
    GlobalWiringName, Network, RoutingName, TopologyKind, TopologyNames,
};
use crate::scenario::quantity::{Bandwidth, Bytes, Duration};

/// InfiniBand cards of the nodes, and their network. Keys of one topology are absent for others.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Infiniband {
    /// Generation of links with four lanes.
    pub speed: SpeedName,
    /// Bandwidth of the nodes' links, in each direction; by speed when absent.
    pub bandwidth: Option<Bandwidth>,
    /// Topology.
    #[serde(default = "star")]
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
    /// Torus, HyperX, dragonfly and Slim Fly: nodes at each switch; 1 when absent.
    pub hosts_per_switch: Option<u32>,
    /// Dragonfly: switches in each group.
    pub switches_per_group: Option<u32>,
    /// Dragonfly: links of each switch to other groups.
    pub global_links_per_switch: Option<u32>,
    /// Dragonfly: number of groups; the minimum for the nodes when absent.
    pub groups: Option<u32>,
    /// Dragonfly: number of links between each two groups; as many as the ports allow when absent.
    pub global_wiring: Option<GlobalWiringName>,
    /// Bandwidth of links between switches; as the nodes' links when absent.
    pub uplink_bandwidth: Option<Bandwidth>,
    /// Routes by source and destination: `shortest`, `d-mod-k`, `s-mod-k` or `random`; or by the queues of switches: `adaptive`, in trees. By
    /// default d-mod-k in fat trees and k-ary n-trees, and shortest in all others.
    #[schemars(with = "Option<String>")]
    pub routing: Option<RoutingName>,
    /// With adaptive routing: time without packets from one node to another after which a switch may choose another link for them.
    #[serde(default = "adaptive_gap")]
    pub adaptive_gap: Duration,
    /// Latency of a switch, from a packet's head in to its head out; by speed when absent.
    pub switch_latency: Option<Duration>,
    /// Latency of each cable.
    #[serde(default = "cable")]
    pub cable: Duration,
    /// Buffer of each input of a switch or card, divided evenly between the virtual lanes.
    #[serde(default = "buffer")]
    pub buffer: Bytes,
    /// Virtual lanes of the data; by default as many as the routes need so that no links wait for each other in a circle.
    pub lanes: Option<u8>,
    /// True to give each node an interface of IP over InfiniBand, `ib0`.
    #[serde(default)]
    pub ipoib: bool,
    /// The nodes' cards.
    #[serde(default)]
    pub card: CardTable,
    /// Congestion control of switches and cards.
    #[serde(default)]
    pub congestion: CongestionTable,
}

/// Delays of a card.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CardTable {
    /// From a program's doorbell to the first bit on the link: the card reads the request and its data.
    pub send: Duration,
    /// From a packet's last bit to its effect in memory.
    pub receive: Duration,
    /// From a packet's effect to the first bit of the answer.
    pub answer: Duration,
    /// Additional time to read data that are not in the request itself from memory.
    pub fetch: Duration,
}

impl Default for CardTable {
    fn default() -> Self {
        Self {
            send: Duration(Span::from_ns(270)),
            receive: Duration(Span::from_ns(260)),
            answer: Duration(Span::from_ns(60)),
            fetch: Duration(Span::from_ns(540)),
        }
    }
}

/// Generations of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum SpeedName {
    /// 4 x 14.0625 Gb/s.
    Fdr,
    /// 4 x 25.78125 Gb/s.
    Edr,
    /// 4 x 53.125 Gb/s. Programs see EDR.
    Hdr,
    /// 4 x 106.25 Gb/s. Programs see EDR.
    Ndr,
}

impl SpeedName {
    /// Bits per second of data: FDR and EDR after 64b/66b encoding, HDR and NDR after encoding and error correction.
    pub fn bandwidth(self) -> u64 {
        match self {
            Self::Fdr => 54_545_454_545,
            Self::Edr => 100_000_000_000,
            Self::Hdr => 200_000_000_000,
            Self::Ndr => 400_000_000_000,
        }
    }

    /// Latency of a switch of this generation, port to port.
    pub fn switch_latency(self) -> Span {
        Span::from_ns(match self {
            Self::Fdr => 170,
            Self::Edr => 90,
            Self::Hdr | Self::Ndr => 130,
        })
    }

    /// Bits per second of data that the PCI Express link carries in each direction: 8, 16 and 32 GT/s, 128b/130b encoding, packets of 256 bytes with
    /// 26 bytes of headers.
    pub fn bus(self) -> u64 {
        let (generation, lanes) = self.express();
        let raw = (8_000_000_000_u64 << (generation - 3)) * u64::from(lanes);
        raw / 130 * 128 / 282 * 256
    }

    /// Generation and lanes of the PCI Express link that such a card needs.
    pub fn express(self) -> (u8, u8) {
        match self {
            Self::Fdr | Self::Edr => (3, 16),
            Self::Hdr => (4, 16),
            Self::Ndr => (5, 16),
        }
    }
}

impl Infiniband {
    /// The shape of the network, in the terms of `[network]`.
    pub(crate) fn shape(&self) -> Network {
        Network {
            topology: self.topology.clone(),
            fanout: self.fanout,
            ports: self.ports,
            children: self.children.clone(),
            parents: self.parents.clone(),
            arity: self.arity,
            levels: self.levels,
            order: self.order,
            dimensions: self.dimensions.clone(),
            hosts_per_switch: self.hosts_per_switch,
            switches_per_group: self.switches_per_group,
            global_links_per_switch: self.global_links_per_switch,
            groups: self.groups,
            global_wiring: self.global_wiring,
            bandwidth: Bandwidth(self.bandwidth()),
            latency: self.cable,
            uplink_bandwidth: self.uplink_bandwidth,
            switch_latency: Duration(self.switch_latency()),
            routing: self.routing,
            ..Network::default()
        }
    }

    /// Bits per second of the nodes' links.
    pub(crate) fn bandwidth(&self) -> u64 {
        self.bandwidth.map_or(self.speed.bandwidth(), |it| it.0)
    }

    fn switch_latency(&self) -> Span {
        self.switch_latency
            .map_or(self.speed.switch_latency(), |it| it.0)
    }
}

fn star() -> TopologyKind {
    TopologyKind::Star
}

fn adaptive_gap() -> Duration {
    Duration(Span::from_us(10))
}

fn cable() -> Duration {
    Duration(Span::from_ns(10))
}

fn buffer() -> Bytes {
    Bytes(64 << 10)
}
