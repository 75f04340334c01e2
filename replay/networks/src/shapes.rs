//! Topologies on which tests of several models play, always the same.
//!
//! Called by these tests.

use belljar_fabric::{FatTree, PartSpecs, Topology};

/// Two leaf switches with four hosts each below four others, of the links and switches that a star has.
pub(crate) fn two_levels(star: &Topology) -> Topology {
    let (link, switch) = (star.links()[0].spec, star.switches()[0]);
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
