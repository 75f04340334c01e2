//! A topology for tests: a fixed fat tree of two levels.
//!
//! Used by the tests of policies and of the simulation.

use belljar_fabric::{FatTree, LinkSpec, PartSpecs, SwitchSpec, Topology};
use belljar_sim::Span;

/// Two leaf switches with four hosts each below four others.
pub(crate) fn two_levels() -> Topology {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    let parts = PartSpecs {
        link,
        uplink: link,
        switch,
    };
    let tree = FatTree {
        children: vec![4, 2],
        parents: vec![1, 4],
    };
    tree.build(8, &parts).unwrap()
}
