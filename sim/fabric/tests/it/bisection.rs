//! Bisections of shapes, compared with the number of links that halves cut.

use crate::net::{LINK, PARTS, dragonfly};
use belljar_fabric::{Bisection, Endpoint, FatTree, HyperX, Topology, Torus};

/// A bisection of this number of links.
fn exactly(links: u64) -> Option<Bisection> {
    Some(Bisection {
        bandwidth: links * LINK.bandwidth,
        is_bound: false,
    })
}

#[test]
fn a_bisection_is_the_least_of_cuts_by_dimension() {
    let torus = |dimensions: &[u32]| Torus {
        dimensions: dimensions.to_vec(),
        hosts_per_switch: 1,
    };
    for dimensions in [[8, 8, 4], [8, 4, 8], [4, 8, 8]] {
        let topology = torus(&dimensions).build(256, &PARTS).unwrap();
        // Twice the 4 x 8 rings that are cut.
        assert_eq!(topology.measures().bisection, exactly(64), "{dimensions:?}");
    }
    // Equal networks have equal figures, even if no dimension is even.
    let odd = [[3, 5, 7], [7, 5, 3], [5, 3, 7]].map(|dimensions| {
        let topology = torus(&dimensions).build(105, &PARTS).unwrap();
        topology.measures().bisection.unwrap()
    });
    assert!(
        odd[0].is_bound && odd.iter().all(|it| *it == odd[0]),
        "{odd:?}"
    );
    // Along the dimension of four: 2 x 2 links in each of six rows; along the other one 3 x 3 in each of four.
    for dimensions in [vec![4, 6], vec![6, 4]] {
        let hyperx = HyperX {
            dimensions,
            hosts_per_switch: 9,
        };
        let topology = hyperx.build(216, &PARTS).unwrap();
        assert_eq!(topology.measures().bisection, exactly(24));
    }
}

#[test]
fn a_bisection_of_groups_and_subtrees_is_that_of_their_links() {
    // Four groups, nine links each two of them: two groups to two others.
    let topology = dragonfly(9, 2, 3, 4).build(72, &PARTS).unwrap();
    assert_eq!(topology.measures().bisection, exactly(4 * 9));
    let places: Vec<u32> = (0..36).flat_map(|it| [it, it + 36]).collect();
    let topology = topology.placed(&places).unwrap();
    assert_eq!(topology.measures().bisection, exactly(4 * 9));
    let tree = FatTree {
        children: vec![16, 8],
        parents: vec![1, 4],
    };
    let topology = tree.build(128, &PARTS).unwrap();
    assert_eq!(topology.measures().bisection, exactly(16));
}

#[test]
fn a_bisection_of_a_graph_is_a_bound() {
    // Two full meshes of six switches with even and odd numbers, and one link between them.
    let switch = Endpoint::Switch;
    let link = |near, far| belljar_fabric::Link {
        ends: [near, far],
        spec: LINK,
    };
    let mut links: Vec<_> = (0..12)
        .map(|it| link(Endpoint::Host(it), switch(it)))
        .collect();
    for near in 0..12 {
        links.extend(
            (near + 2..12)
                .step_by(2)
                .map(|far| link(switch(near), switch(far))),
        );
    }
    links.push(link(switch(4), switch(7)));
    let topology = Topology::new(12, vec![PARTS.switch; 12], links).unwrap();
    let bound = Bisection {
        bandwidth: LINK.bandwidth,
        is_bound: true,
    };
    assert_eq!(topology.measures().bisection, Some(bound));
}
