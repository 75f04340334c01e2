//! Fixed topologies for tests of several models.
//!
//! Used by these tests.

use belljar_fabric::{FatTree, PartSpecs, Topology};

/// Two leaf switches with four hosts each below four others, with the links and switches of a star.
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
