//! Unused links of shapes with known counts.
use belljar_sim::Span;

use super::*;
use crate::link::LinkSpec;
use crate::topology::{FatTree, HyperX, Link, PartSpecs, SwitchSpec, Torus};

const LINK: LinkSpec = LinkSpec {
    bandwidth: 10_000_000_000,
    latency: Span::from_us(1),
};
const PARTS: PartSpecs = PartSpecs {
    link: LINK,
    uplink: LINK,
    switch: SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 19,
    },
};

fn usage(topology: &Topology, routing: Routing) -> LinkUsage {
    let routes = Routes {
        routing,
        ..Routes::default()
    };
    LinkUsage::of(topology, &routes).unwrap()
}

#[test]
fn shortest_routes_of_a_fat_tree_leave_all_spines_but_one_idle() {
    let tree = FatTree {
        children: vec![8, 8],
        parents: vec![1, 4],
    };
    let topology = tree.build(64, &PARTS).unwrap();
    let shortest = usage(&topology, Routing::Shortest);
    assert_eq!((shortest.links, shortest.idle), (32, 24));
    assert_eq!(
        topology.link_name(shortest.example.unwrap()),
        "switch0-switch9"
    );
    assert_eq!(shortest.followed, [8, 8]);
    for routing in [Routing::DModK, Routing::SModK] {
        let spread = usage(&topology, routing);
        assert_eq!((spread.idle, spread.half_idle), (0, 0), "{routing:?}");
    }
    assert_eq!(usage(&topology, Routing::Ecmp).idle, 0);
}

#[test]
fn grids_that_are_full_use_all_links() {
    let torus = Torus {
        dimensions: vec![4, 3],
        hosts_per_switch: 1,
    };
    let hyperx = HyperX {
        dimensions: vec![3, 4],
        hosts_per_switch: 1,
    };
    for topology in [torus.build(12, &PARTS), hyperx.build(12, &PARTS)] {
        let usage = usage(&topology.unwrap(), Routing::Shortest);
        assert_eq!((usage.idle, usage.half_idle, usage.costly), (0, 0, 0));
    }
}

#[test]
fn parallel_and_costly_links_are_counted_apart() {
    let link = |near, far| Link {
        ends: [near, far],
        spec: LINK,
    };
    let [a, b, c] = [0, 1, 2].map(Endpoint::Switch);
    let mut links = vec![link(a, b), link(b, c), link(a, b), link(a, c)];
    links.extend(
        [a, b, c]
            .into_iter()
            .zip(0..)
            .map(|(at, host)| link(Endpoint::Host(host), at)),
    );
    let mut topology = Topology::new(3, vec![PARTS.switch; 3], links).unwrap();
    topology.set_cost(3, 5).unwrap();
    let shortest = usage(&topology, Routing::Shortest);
    assert_eq!((shortest.links, shortest.idle, shortest.costly), (4, 1, 1));
    assert_eq!(shortest.example, Some(2));
    let ecmp = usage(&topology, Routing::Ecmp);
    assert_eq!((ecmp.idle, ecmp.costly, ecmp.example), (0, 1, Some(3)));
}

#[test]
fn strides_visit_every_place() {
    for count in 1..50 {
        let mut seen: Vec<usize> = (0..count).map(|at| at * stride(count) % count).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..count).collect::<Vec<_>>());
    }
}
