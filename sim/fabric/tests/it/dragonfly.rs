//! Links between the groups of a dragonfly: their number, their switches and their load.

use crate::net::{PARTS, datagram, dragonfly};
use belljar_fabric::{
    Dragonfly, Endpoint, Fabric, GlobalPorts, GlobalWiring, Routing, Settings, Topology,
};
use belljar_sim::Time;

/// The links between groups of a dragonfly, by the switch at each end.
fn gates_used(topology: &Topology, size: u32) -> Vec<usize> {
    let mut used = vec![0; size as usize];
    for link in topology.links() {
        if let [Endpoint::Switch(near), Endpoint::Switch(far)] = link.ends
            && near / size != far / size
        {
            used[(near % size) as usize] += 1;
            used[(far % size) as usize] += 1;
        }
    }
    used
}

#[test]
fn a_dragonfly_spreads_all_links_that_its_ports_allow() {
    let shape = dragonfly(8, 4, 4, 8);
    let topology = shape.build(256, &PARTS).unwrap();
    // 28 of each group's 32 ports, four links to each of seven groups: the first four switches have
    // four links, the last four have three.
    let ports = GlobalPorts {
        per_group: 32,
        linked: 28,
        groups: 8,
    };
    assert_eq!(topology.global_ports(), Some(ports));
    assert_eq!(gates_used(&topology, 8), [32, 32, 32, 32, 24, 24, 24, 24]);
    let one = Dragonfly {
        wiring: GlobalWiring::OneLink,
        ..shape
    };
    let one = one.build(256, &PARTS).unwrap();
    assert_eq!(gates_used(&one, 8), [32, 24, 0, 0, 0, 0, 0, 0]);
    // With ports for one link to each group, both wirings are equal.
    let full = dragonfly(4, 2, 2, 9);
    let one = Dragonfly {
        wiring: GlobalWiring::OneLink,
        ..full
    };
    assert_eq!(full.build(72, &PARTS), one.build(72, &PARTS));
}

#[test]
fn ecmp_uses_every_link_between_two_groups() {
    let topology = dragonfly(4, 4, 3, 3).build(48, &PARTS).unwrap();
    let settings = Settings {
        routing: Routing::Ecmp,
        ..Settings::default()
    };
    let mut fabric = Fabric::with_settings(topology.clone(), &settings).unwrap();
    for from in 0..48 {
        for to in (0..48).filter(|to| *to != from) {
            let time = Time::from_ps(u64::from(from * 48 + to) * 1_000_000_000);
            fabric.send(time, from, u64::from(to), datagram(from, to, 0, 0));
        }
    }
    assert_eq!(fabric.advance(Time::MAX).len(), 48 * 47);
    // 16 hosts of a group send to 16 of another, over six links: 42 frames on each, if distributed
    // evenly.
    for (link, ways) in topology.links().iter().zip(fabric.statistics()) {
        if let [Endpoint::Switch(near), Endpoint::Switch(far)] = link.ends
            && near / 4 != far / 4
        {
            let frames = ways.map(|way| way.frames);
            assert!(
                frames.iter().all(|it| (20..80).contains(it)),
                "{near} to {far}: {frames:?}"
            );
        }
    }
}
