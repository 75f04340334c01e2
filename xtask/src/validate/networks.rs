//! Networks for runs of programs, for the comparison with replays.
//!
//! Each list begins with a base: all others are predicted from it, and it from all others. Called by `validate`.

/// A network for runs of programs.
#[derive(Debug, PartialEq)]
pub(super) struct Network {
    pub(super) name: &'static str,
    /// Keys of the scenario.
    pub(super) keys: &'static [&'static str],
    /// Keys that restore the base. A tree of one switch is a star.
    pub(super) back: &'static [&'static str],
}

/// Networks of the kernels: one key changes at a time, or the shape.
pub(super) const NETWORKS: [Network; 5] = [
    Network {
        name: "base",
        keys: &[],
        back: &[],
    },
    Network {
        name: "1 Gb/s",
        keys: &["network.bandwidth=1 Gb/s"],
        back: &["network.bandwidth=10 Gb/s"],
    },
    Network {
        name: "100 Gb/s",
        keys: &["network.bandwidth=100 Gb/s"],
        back: &["network.bandwidth=10 Gb/s"],
    },
    Network {
        name: "20 us",
        keys: &["network.latency=20 us"],
        back: &["network.latency=1 us"],
    },
    Network {
        name: "tree",
        keys: &[
            "network.topology=tree",
            "network.fanout=2",
            "network.uplink-latency=10 us",
            "network.uplink-bandwidth=5 Gb/s",
        ],
        back: &["network.fanout=64"],
    },
];

/// The base of [`NETWORKS`] in words.
pub(super) const BASE: &str = "a star of 10 Gb/s and 1 us";

/// A network that is defined completely.
const fn whole(name: &'static str, keys: &'static [&'static str]) -> Network {
    Network {
        name,
        keys,
        back: &[],
    }
}

/// Topologies of eight nodes for the patterns.
pub(super) const SHAPES: [Network; 7] = [
    whole("base", &[r#"network={bandwidth="10 Gb/s",latency="1 us"}"#]),
    whole("far", &[r#"network={bandwidth="1 Gb/s",latency="10 us"}"#]),
    whole(
        "torus",
        &[r#"network={topology="torus",dimensions=[2,2,2],bandwidth="10 Gb/s",latency="1 us"}"#],
    ),
    whole(
        "fat tree",
        &[
            r#"network={topology="fat-tree",children=[4,2],parents=[1,2],bandwidth="10 Gb/s",latency="1 us"}"#,
        ],
    ),
    whole(
        "oversubscribed",
        &[
            r#"network={topology="tree",fanout=4,bandwidth="10 Gb/s",latency="1 us",uplink-bandwidth="5 Gb/s",uplink-latency="5 us"}"#,
        ],
    ),
    whole(
        "dragonfly",
        &[
            r#"network={topology="dragonfly",switches-per-group=2,global-links-per-switch=1,hosts-per-switch=2,groups=2,bandwidth="10 Gb/s",latency="1 us",global-latency="5 us"}"#,
        ],
    ),
    whole(
        LOSSY,
        &[r#"network={bandwidth="1 Gb/s",latency="10 us",switch-queue="32 KiB"}"#],
    ),
];

/// The name of the topology that loses frames.
pub(super) const LOSSY: &str = "short queues";

/// Networks of InfiniBand cards.
pub(super) const CARDS: [Network; 5] = [
    whole("base", &[r#"infiniband={speed="EDR"}"#]),
    whole("FDR", &[r#"infiniband={speed="FDR"}"#]),
    whole("HDR", &[r#"infiniband={speed="HDR"}"#]),
    whole("far", &[r#"infiniband={speed="EDR",cable="1 us"}"#]),
    whole(
        "thin",
        &[r#"infiniband={speed="EDR",topology="tree",fanout=2,uplink-bandwidth="25 Gb/s"}"#],
    ),
];
