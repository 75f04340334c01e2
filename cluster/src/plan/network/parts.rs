//! A scenario's properties of all links and switches.
//!
//! Single links and switches of a topology may have different ones. Called when a topology is built.

use belljar_fabric::{LinkSpec, PartSpecs, SwitchSpec};

use crate::scenario::Network;

/// The links, uplinks and switches of a network without individual properties.
pub(in crate::plan) fn parts(network: &Network) -> PartSpecs {
    let link = LinkSpec {
        bandwidth: network.bandwidth.0,
        latency: network.latency.0,
    };
    PartSpecs {
        link,
        uplink: LinkSpec {
            bandwidth: network.uplink_bandwidth.map_or(link.bandwidth, |it| it.0),
            latency: network.uplink_latency.map_or(link.latency, |it| it.0),
        },
        switch: SwitchSpec {
            latency: network.switch_latency.0,
            queue_bytes: network.switch_queue.0,
        },
    }
}
