//! The networks and costs of measurements of replay: links of 100 Gb/s, MPICH's costs.
//!
//! All measurements play programs in the same settings, so that their figures are comparable. Used by the examples `speed` and `stages`.

use belljar_fabric::{FatTree, LinkSpec, PartSpecs, Routing, Settings, SwitchSpec, Topology};
use belljar_networks::Parameters;
use belljar_replay::{Costs, NetworkModel, Setting};
use belljar_sim::{Frequency, Span};
use belljar_trace::Implementation;

/// Returns the topology: a fat tree, or one switch for all.
pub(crate) fn topology(shape: &str, hosts: u32) -> Topology {
    let link = LinkSpec {
        bandwidth: 100_000_000_000,
        latency: Span::from_ns(500),
    };
    let parts = PartSpecs {
        link,
        uplink: link,
        switch: SwitchSpec {
            latency: Span::from_ns(300),
            queue_bytes: 1 << 22,
        },
    };
    if shape == "star" {
        return Topology::star(hosts, link, parts.switch).expect("a star");
    }
    let tree = FatTree::for_hosts(hosts).expect("room");
    tree.build(hosts, &parts).expect("a fat tree")
}

/// Returns the setting of a model, with a host for each process.
pub(crate) fn setting(model: &str, topology: Topology, clock: Frequency) -> Setting {
    let hosts = topology.hosts();
    let routed = Settings {
        routing: Routing::DModK,
        ..Settings::default()
    };
    let network = match model {
        "packet" => NetworkModel::Packet(topology, routed),
        "flow" => NetworkModel::Flow(topology, routed),
        _ => NetworkModel::LogGops(
            hosts,
            Parameters {
                latency: Span::from_us(3),
                gap: Span::ZERO,
                bandwidth: 100_000_000_000,
            },
        ),
    };
    Setting {
        network,
        costs: Costs::of(Implementation::Mpich),
        clocks: vec![clock],
        hosts: (0..hosts).collect(),
        scale: 1.0,
    }
}
