//! Topologies: their parts, their names, and errors.
use super::*;

const LINK: LinkSpec = LinkSpec {
    bandwidth: 1_000_000_000,
    latency: Span::from_us(5),
};
const SWITCH: SwitchSpec = SwitchSpec {
    latency: Span::from_ns(500),
    queue_bytes: 100_000,
};

fn link(near: Endpoint, far: Endpoint) -> Link {
    Link {
        ends: [near, far],
        spec: LINK,
    }
}

#[test]
fn a_tree_of_nine_hosts_by_three_has_four_switches() {
    let tree = Topology::tree(9, 3, LINK, LINK, SWITCH).unwrap();
    assert_eq!(tree.switches().len(), 4);
    assert_eq!(tree.links().len(), 12);
}

#[test]
fn lookahead_is_the_shortest_way_of_the_shortest_frame() {
    let star = Topology::star(2, LINK, SWITCH).unwrap();
    // Two links of 5 us and 84 bytes at 8 ns each, and the switch.
    assert_eq!(star.lookahead(), Span::from_ns(2 * (5_000 + 672) + 500));
}

#[test]
fn loose_ends_are_refused_by_name() {
    let [a, b] = [0, 1].map(Endpoint::Switch);
    let [x, y] = [0, 1].map(Endpoint::Host);
    let make = |hosts, links| Topology::new(hosts, vec![SWITCH; 2], links);
    let none = make(1, vec![link(a, b)]).unwrap_err();
    assert!(none.to_string().contains("host0 has 0 links"), "{none}");
    let two = make(1, vec![link(x, a), link(x, b), link(a, b)]).unwrap_err();
    assert!(two.to_string().contains("host0 has 2 links"), "{two}");
    let apart = make(2, vec![link(x, a), link(y, b)]).unwrap_err();
    assert!(apart.to_string().contains("host1, switch1"), "{apart}");
    let hosts = make(2, vec![link(x, y), link(a, b)]).unwrap_err();
    assert_eq!(hosts, TopologyError::Ends("host0 and host1".to_owned()));
    let itself = make(1, vec![link(x, a), link(a, b), link(b, b)]).unwrap_err();
    assert_eq!(
        itself,
        TopologyError::Ends("switch1 and switch1".to_owned())
    );
    let nowhere = make(1, vec![link(x, Endpoint::Switch(2)), link(a, b)]).unwrap_err();
    assert_eq!(nowhere, TopologyError::NoSuchEnd(Endpoint::Switch(2)));
    let slow = Link {
        spec: LinkSpec {
            bandwidth: 0,
            ..LINK
        },
        ..link(x, a)
    };
    let slow = make(1, vec![slow, link(a, b)]).unwrap_err();
    assert!(
        slow.to_string().contains("between host0 and switch0"),
        "{slow}"
    );
    assert_eq!(
        Topology::tree(4, 1, LINK, LINK, SWITCH),
        Err(TopologyError::Fanout(1))
    );
}

#[test]
fn parallel_links_have_names_of_their_own() {
    let [a, b] = [0, 1].map(Endpoint::Switch);
    let links = vec![link(Endpoint::Host(0), a), link(a, b), link(b, a)];
    let topology = Topology::new(1, vec![SWITCH; 2], links).unwrap();
    let names: Vec<String> = (0..3).map(|link| topology.link_name(link)).collect();
    assert_eq!(
        names,
        ["host0-switch0", "switch0-switch1", "switch1-switch0.2"]
    );
}

#[test]
fn hosts_come_to_other_places() {
    let tree = Topology::tree(4, 2, LINK, LINK, SWITCH).unwrap();
    let placed = tree.clone().placed(&[2, 0, 3, 1]).unwrap();
    for (host, place) in [(0, 2), (1, 0), (2, 3), (3, 1)] {
        assert_eq!(placed.switch_of(host), tree.switch_of(place));
        let link = placed.links()[placed.link_of(host) as usize];
        assert_eq!(link.ends[0], Endpoint::Host(host));
    }
    assert_eq!(tree.clone().placed(&[0, 1, 2, 3]).unwrap(), tree);
    for (places, reason) in [
        (&[0, 1, 2][..], "3 places are named, and there are 4 hosts"),
        (&[0, 1, 2, 2], "place 2 is named twice"),
        (&[0, 1, 2, 4], "place 4 is named twice, or is none"),
    ] {
        let error = tree.clone().placed(places).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

fn specs() -> PartSpecs {
    PartSpecs {
        link: LINK,
        uplink: LINK,
        switch: SWITCH,
    }
}

#[test]
fn a_slim_fly_has_ways_of_two_links() {
    for order in [5, 7, 11, 13] {
        let fly = SlimFly {
            order,
            hosts_per_switch: 1,
        };
        let hosts = 2 * order * order;
        let topology = fly.build(hosts, &specs()).unwrap();
        assert_eq!(topology.switches().len() as u32, hosts);
        // Besta and Hoefler: (3 q - d) / 2 for q = 4 w + d.
        let degree = if order % 4 == 1 {
            (3 * order - 1) / 2
        } else {
            (3 * order).div_ceil(2)
        };
        for switch in 0..hosts {
            assert_eq!(
                topology.links_at(switch).len() as u32,
                degree + 1,
                "{order}"
            );
        }
        // Two links of hosts, and two between switches.
        assert_eq!(topology.measures().diameter, 4, "{order}");
    }
    for order in [2, 3, 4, 9, 15, 1000] {
        let fly = SlimFly {
            order,
            hosts_per_switch: 1,
        };
        let error = fly.build(2, &specs()).unwrap_err().to_string();
        assert!(error.contains("prime"), "{error}");
    }
}

#[test]
fn a_hyperx_has_a_link_for_each_dimension() {
    let hyperx = HyperX {
        dimensions: vec![4, 3, 2],
        hosts_per_switch: 2,
    };
    let topology = hyperx.build(48, &specs()).unwrap();
    assert_eq!(topology.switches().len(), 24);
    // A switch has S - 1 links along each dimension, and its hosts' links.
    for switch in 0..24 {
        assert_eq!(topology.links_at(switch).len(), 3 + 2 + 1 + 2);
    }
    assert_eq!(topology.measures().diameter, 2 + 3);
    let error = hyperx.build(49, &specs()).unwrap_err().to_string();
    assert!(
        error.contains("it has room for 48 hosts, not 49"),
        "{error}"
    );
}

#[test]
fn a_k_ary_n_tree_has_as_many_switches_at_each_level() {
    for (arity, levels) in [(2u32, 3u32), (4, 2), (3, 3)] {
        let tree = FatTree::k_ary(arity, levels).unwrap();
        let hosts = arity.pow(levels);
        let topology = tree.build(hosts, &specs()).unwrap();
        assert_eq!(
            topology.switches().len() as u32,
            levels * arity.pow(levels - 1)
        );
        assert_eq!(topology.measures().diameter, 2 * levels);
        // The bandwidth between the halves equals that of half of the hosts.
        let halves = topology.measures().bisection.unwrap();
        if arity.is_multiple_of(2) {
            assert_eq!(halves.bandwidth, u64::from(hosts / 2) * LINK.bandwidth);
        }
    }
    assert!(FatTree::k_ary(4, 0).is_err());
}
