//! Regular shapes compared with the formulas of their papers.

use crate::net::{LINK, PARTS, datagram, dragonfly, links_between};
use belljar_fabric::{
    Bisection, Dragonfly, Endpoint, Fabric, FatTree, Measures, Routing, Settings, Topology, Torus,
};
use belljar_sim::Time;
use proptest::prelude::*;

/// A bisection of this number of links.
fn exactly(links: u64) -> Option<Bisection> {
    Some(Bisection {
        bandwidth: links * LINK.bandwidth,
        is_bound: false,
    })
}

/// Checks for every pair of hosts that a frame passes `expected` links.
fn all_pairs(topology: Topology, expected: impl Fn(u32, u32) -> u32) {
    let hosts = topology.hosts();
    let mut fabric = Fabric::new(topology);
    let mut time = Time::ZERO;
    for from in 0..hosts {
        for to in (0..hosts).filter(|&to| to != from) {
            let links = links_between(&mut fabric, time, from, to);
            assert_eq!(links, Some(expected(from, to)), "{from} to {to}");
            time += crate::net::time_over(20);
        }
    }
}

#[test]
fn a_fat_tree_of_four_port_switches_has_the_papers_parts() {
    let tree = FatTree::of_ports(4).unwrap();
    assert_eq!(tree.capacity(), 16);
    let topology = tree.build(16, &PARTS).unwrap();
    // 8 edge, 8 aggregation and 4 core switches; 16 links at each of three levels.
    assert_eq!(
        (topology.switches().len(), topology.links().len()),
        (20, 48)
    );
    for switch in 0..20 {
        assert_eq!(topology.links_at(switch).len(), 4);
    }
    let full = Measures {
        diameter: 6,
        bisection: exactly(8),
    };
    assert_eq!(topology.measures(), full);
}

#[test]
fn a_fat_tree_climbs_to_the_nearest_common_level() {
    for ports in [2, 4, 6] {
        let tree = FatTree::of_ports(ports).unwrap();
        let half = ports / 2;
        all_pairs(
            tree.build(tree.capacity() as u32, &PARTS).unwrap(),
            |from, to| match () {
                () if from / half == to / half => 2,
                () if from / (half * half) == to / (half * half) => 4,
                () => 6,
            },
        );
    }
}

#[test]
fn numbers_that_make_no_shape_are_refused_with_reasons() {
    let reasons = [
        FatTree::of_ports(5).unwrap_err(),
        FatTree::of_ports(4).unwrap().build(17, &PARTS).unwrap_err(),
        FatTree {
            children: vec![4, 4],
            parents: vec![2, 2],
        }
        .build(4, &PARTS)
        .unwrap_err(),
        FatTree {
            children: vec![4, 4],
            parents: vec![1],
        }
        .build(4, &PARTS)
        .unwrap_err(),
        FatTree {
            children: vec![4096; 8],
            parents: vec![1; 8],
        }
        .build(4, &PARTS)
        .unwrap_err(),
        Torus {
            dimensions: vec![],
            hosts_per_switch: 1,
        }
        .build(1, &PARTS)
        .unwrap_err(),
        Torus {
            dimensions: vec![3, 3],
            hosts_per_switch: 1,
        }
        .build(10, &PARTS)
        .unwrap_err(),
        Torus {
            dimensions: vec![u32::MAX; 8],
            hosts_per_switch: 1,
        }
        .build(1, &PARTS)
        .unwrap_err(),
        dragonfly(2, 2, 1, 4).build(4, &PARTS).unwrap_err(),
        dragonfly(2, 2, 1, 3).build(13, &PARTS).unwrap_err(),
        dragonfly(u32::MAX, 1, u32::MAX, u32::MAX)
            .build(1, &PARTS)
            .unwrap_err(),
    ];
    let words = [
        "even",
        "room for 16",
        "begin with 1",
        "same number",
        "too many",
        "dimensions",
        "room for 9",
        "too many",
        "reach 2 other",
        "room for 12",
        "too many",
    ];
    for (reason, word) in reasons.iter().zip(words) {
        assert!(reason.to_string().contains(word), "{reason}: no {word}");
    }
}

/// Sends a frame from every host to the host `shift` further, all at once; returns the most frames
/// on a link.
fn shift_all(topology: &Topology, routing: Routing, shift: u32) -> u64 {
    let settings = Settings {
        routing,
        seed: 5,
        ..Settings::default()
    };
    let hosts = topology.hosts();
    let mut fabric = Fabric::with_settings(topology.clone(), &settings).unwrap();
    for from in 0..hosts {
        fabric.send(
            Time::ZERO,
            from,
            0,
            datagram(from, (from + shift) % hosts, 0, 0),
        );
    }
    assert_eq!(fabric.advance(Time::MAX).len() as u32, hosts);
    let links = fabric.statistics();
    links.iter().flatten().map(|way| way.frames).max().unwrap()
}

#[test]
fn d_mod_k_carries_every_shift_without_contention() {
    let trees = [
        FatTree::of_ports(4).unwrap(),
        FatTree::of_ports(6).unwrap(),
        FatTree {
            children: vec![4, 4, 4],
            parents: vec![1, 4, 4],
        },
        FatTree {
            children: vec![8, 8],
            parents: vec![1, 8],
        },
    ];
    for tree in trees {
        let topology = tree.build(tree.capacity() as u32, &PARTS).unwrap();
        for shift in 1..topology.hosts() {
            assert_eq!(
                shift_all(&topology, Routing::DModK, shift),
                1,
                "{tree:?} by {shift}"
            );
        }
        // Without D-mod-K there is contention: the lowest link carries all frames.
        assert!(shift_all(&topology, Routing::Shortest, topology.hosts() / 2) > 1);
    }
}

#[test]
fn d_mod_k_needs_levels() {
    let torus = Torus {
        dimensions: vec![3, 3],
        hosts_per_switch: 1,
    };
    let settings = Settings {
        routing: Routing::DModK,
        ..Settings::default()
    };
    assert!(Fabric::with_settings(torus.build(9, &PARTS).unwrap(), &settings).is_err());
}

#[test]
fn ecmp_spreads_flows_and_keeps_each_on_one_way() {
    let topology = FatTree::of_ports(8).unwrap().build(128, &PARTS).unwrap();
    let loads = |seed: u64, flows: u32| {
        let settings = Settings {
            routing: Routing::Ecmp,
            seed,
            ..Settings::default()
        };
        let mut fabric = Fabric::with_settings(topology.clone(), &settings).unwrap();
        for number in 0..1600 {
            let time = Time::from_ps(u64::from(number) * 10_000_000);
            fabric.send(
                time,
                0,
                u64::from(number),
                datagram(0, 127, number % flows, number),
            );
        }
        assert_eq!(fabric.advance(Time::MAX).len(), 1600);
        // The sixteen links from the first pod's aggregation switches, 32 to 35, to the core.
        let statistics = fabric.statistics();
        let links = (0..).zip(topology.links());
        let up = links.filter(|(_, link)| {
            matches!(
                link.ends,
                [Endpoint::Switch(32..36), Endpoint::Switch(64..)]
            )
        });
        up.map(|(id, _)| statistics[id as usize][0].frames)
            .collect::<Vec<u64>>()
    };
    let one = loads(1, 1);
    assert_eq!(one.len(), 16);
    assert_eq!(one.iter().filter(|&&frames| frames > 0).count(), 1);
    // A hundred on each, with a standard deviation of ten.
    let many = loads(1, 1600);
    assert!(
        many.iter().all(|frames| (55..150).contains(frames)),
        "{many:?}"
    );
    assert_eq!(many, loads(1, 1600));
    assert_ne!(many, loads(2, 1600));
}

fn digits(mut number: u32, radices: &[u32]) -> Vec<u32> {
    let mut digits = Vec::new();
    for radix in radices {
        digits.push(number % radix);
        number /= radix;
    }
    digits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_generalized_fat_tree_climbs_to_the_highest_digit_that_differs(
        children in proptest::collection::vec(1..4_u32, 1..4),
        parents in proptest::collection::vec(1..4_u32, 3),
    ) {
        let mut parents = parents[..children.len()].to_vec();
        parents[0] = 1;
        let tree = FatTree { children: children.clone(), parents };
        let topology = tree.build(tree.capacity() as u32, &PARTS).unwrap();
        all_pairs(topology, |from, to| {
            let (from, to) = (digits(from, &children), digits(to, &children));
            2 * (1 + (0..from.len()).rfind(|&at| from[at] != to[at]).unwrap_or(0)) as u32
        });
    }

    #[test]
    fn a_torus_is_as_far_as_its_coordinates(
        dimensions in proptest::collection::vec(1..6_u32, 1..4),
        per in 1..3_u32,
    ) {
        let torus = Torus { dimensions: dimensions.clone(), hosts_per_switch: per };
        let hosts = (torus.capacity() as u32).min(60);
        all_pairs(torus.build(hosts, &PARTS).unwrap(), |from, to| {
            let (from, to) = (digits(from / per, &dimensions), digits(to / per, &dimensions));
            let along = (0..from.len()).map(|at| {
                let apart = from[at].abs_diff(to[at]);
                apart.min(dimensions[at] - apart)
            });
            2 + along.sum::<u32>()
        });
    }

    #[test]
    fn a_dragonfly_takes_one_global_link_at_most(
        a in 1..5_u32, p in 1..3_u32, h in 1..4_u32, fewer in 0..8_u32,
    ) {
        let groups = (a * h + 1).saturating_sub(fewer).max(1);
        let shape = dragonfly(a, p, h, groups);
        let hosts = (shape.capacity() as u32).min(60);
        all_pairs(shape.build(hosts, &PARTS).unwrap(), |from, to| {
            let (from, to) = (from / p, to / p);
            let (near, far) = (from / a, to / a);
            if near == far {
                return 2 + u32::from(from != to);
            }
            let ways = (0..shape.links_between_groups()).map(|link| {
                let gates = [(near, far), (far, near)].map(|(own, other)| {
                    let number = link * (groups - 1) + other - u32::from(other > own);
                    own * a + gates(&shape)[number as usize]
                });
                u32::from(from != gates[0]) + u32::from(to != gates[1])
            });
            let links = 3 + ways.min().unwrap();
            assert!(links <= 5);
            links
        });
    }
}

/// The switch of each of a group's links to others, counted port by port.
fn gates(shape: &Dragonfly) -> Vec<u32> {
    let all = (shape.groups - 1) * shape.links_between_groups();
    let each = all.div_ceil(shape.switches_per_group);
    let full = shape.switches_per_group - (each * shape.switches_per_group - all);
    let switches = 0..shape.switches_per_group;
    let ports = switches.flat_map(|it| vec![it; (each - u32::from(it >= full)) as usize]);
    ports.collect()
}
#[test]
fn a_torus_goes_along_its_dimensions_in_order() {
    let torus = Torus {
        dimensions: vec![4, 4],
        hosts_per_switch: 1,
    };
    let topology = torus.build(16, &PARTS).unwrap();
    let name = |link: usize| topology.link_name(link as u32);
    let mut fabric = Fabric::new(topology.clone());
    links_between(&mut fabric, Time::ZERO, 0, 5);
    let carried = fabric.statistics().into_iter().enumerate();
    let used: Vec<String> = carried
        .filter(|(_, ways)| ways.iter().any(|way| way.frames > 0))
        .map(|(link, _)| name(link))
        .collect();
    assert_eq!(
        used,
        [
            "host0-switch0",
            "host5-switch5",
            "switch0-switch1",
            "switch1-switch5"
        ]
    );
    let measures = topology.measures();
    assert_eq!((measures.diameter, measures.bisection), (6, exactly(8)));
}
