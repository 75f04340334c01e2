//! Benefits of each routing: it spreads loads that others put onto one link, and loses no frame.

use std::sync::Arc;

use crate::net::{PARTS, SWITCH, any_topology, datagram, dragonfly, join, number_of};
use belljar_fabric::{
    Delivery, Endpoint, Fabric, FatTree, ForwardingTables, Routing, Settings, Topology, Torus,
};
use belljar_sim::Time;
use proptest::prelude::*;

const ALL: [Routing; 6] = [
    Routing::Shortest,
    Routing::Ecmp,
    Routing::Random,
    Routing::Valiant,
    Routing::Adaptive,
    Routing::Ugal,
];

fn fabric(topology: &Topology, routing: Routing) -> Fabric {
    let settings = Settings {
        routing,
        seed: 7,
        ..Settings::default()
    };
    Fabric::with_settings(topology.clone(), &settings).unwrap()
}

/// Every host sends `frames` frames in `flows` flows to the host `to`. Returns the deliveries, the time of the last one, and the most frames on a direction of a
/// link.
fn send(
    fabric: &mut Fabric,
    frames: u32,
    flows: u32,
    to: impl Fn(u32) -> u32,
) -> (Vec<Delivery>, Time, u64) {
    for number in 0..frames {
        for from in 0..fabric.topology().hosts() {
            let time = Time::from_ps(u64::from(number) * 200_000);
            let frame = datagram(from, to(from), number % flows, number);
            fabric.send(time, from, number.into(), frame);
        }
    }
    let arrived: Vec<Delivery> = fabric.advance(Time::MAX).collect();
    let last = arrived.iter().map(|it| it.time).max().unwrap();
    let links = fabric.statistics();
    let most = links.iter().flatten().map(|way| way.frames).max().unwrap();
    (arrived, last, most)
}

/// A dragonfly in which each host sends to the next group: minimal paths use one link for each group.
fn adversarial() -> (Topology, impl Fn(u32) -> u32) {
    let topology = dragonfly(4, 2, 2, 9).build(72, &PARTS).unwrap();
    (topology, |from| (from + 8) % 72)
}

#[test]
fn over_chance_switches_a_dragonfly_carries_what_is_worst_for_minimal_ways() {
    let (topology, next) = adversarial();
    let last = |routing| send(&mut fabric(&topology, routing), 40, 40, &next).1;
    let [minimal, valiant, ugal] = [Routing::Ecmp, Routing::Valiant, Routing::Ugal].map(last);
    let is_shorter = |last: Time| last.as_ps() * 4 < minimal.as_ps() * 3;
    assert!(
        is_shorter(valiant) && is_shorter(ugal),
        "{valiant} {ugal} {minimal}"
    );
}

#[test]
fn ugal_goes_the_straight_way_where_nothing_waits() {
    let topology = dragonfly(4, 2, 2, 9).build(72, &PARTS).unwrap();
    let time = |routing, to| {
        let mut fabric = fabric(&topology, routing);
        crate::net::links_between(&mut fabric, Time::ZERO, 0, to)
    };
    let mut longer = 0;
    for to in 1..72 {
        let straight = time(Routing::Shortest, to);
        assert_eq!(time(Routing::Ugal, to), straight);
        assert_eq!(time(Routing::Adaptive, to), straight);
        longer += u32::from(time(Routing::Valiant, to) > straight);
    }
    assert!(longer > 40, "{longer}");
}

#[test]
fn adaptive_ways_of_a_fat_tree_share_what_is_to_be_carried() {
    let tree = FatTree {
        children: vec![8, 8],
        parents: vec![1, 8],
    };
    let topology = tree.build(64, &PARTS).unwrap();
    // Every host's frames go to a host that d-mod-k by source numbers separates and hashes do not.
    let shift = |from: u32| (from + 8) % 64;
    let most = |routing| send(&mut fabric(&topology, routing), 64, 1, shift).2;
    assert_eq!(most(Routing::SModK), 64);
    assert!(most(Routing::Ecmp) > 100);
    assert!(most(Routing::Random) > 100);
    assert!(most(Routing::Adaptive) < 80);
}

#[test]
fn valiants_ways_spread_a_tornado() {
    let torus = Torus {
        dimensions: vec![8],
        hosts_per_switch: 1,
    };
    let topology = torus.build(8, &PARTS).unwrap();
    // Half the way around: of two equal paths, shortest routing always takes one.
    let tornado = |from: u32| (from + 3) % 8;
    let most = |routing| send(&mut fabric(&topology, routing), 16, 1, tornado).2;
    assert_eq!(most(Routing::Shortest), 48);
    let (arrived, ..) = send(&mut fabric(&topology, Routing::Valiant), 16, 1, tornado);
    assert_eq!(arrived.len(), 128);
}

#[test]
fn tables_are_followed_also_where_ways_are_longer() {
    let switch = Endpoint::Switch;
    let links = vec![
        join(Endpoint::Host(0), switch(0)),
        join(Endpoint::Host(1), switch(1)),
        join(switch(0), switch(1)),
        join(switch(0), switch(2)),
        join(switch(2), switch(1)),
    ];
    let topology = Topology::new(2, vec![SWITCH; 3], links).unwrap();
    let text =
        "switch0 * switch0-switch2\nswitch2 host1 switch2-switch1\nswitch1 host0 switch0-switch1\n
        switch2 host0 switch0-switch2";
    let tables = ForwardingTables::parse(&topology, text).unwrap();
    let settings = Settings {
        routing: Routing::Tables,
        tables: Some(Arc::new(tables)),
        ..Settings::default()
    };
    let mut fabric = Fabric::with_settings(topology.clone(), &settings).unwrap();
    assert_eq!(
        crate::net::links_between(&mut fabric, Time::ZERO, 0, 1),
        Some(4)
    );
    assert_eq!(
        crate::net::links_between(&mut fabric, Time::from_ps(1 << 40), 1, 0),
        Some(3)
    );
    let without = Settings {
        tables: None,
        ..settings
    };
    assert!(Fabric::with_settings(topology, &without).is_err());
}

proptest! {
    /// No frame is lost, and frames of a flow stay in order under routings that do not choose per frame.
    #[test]
    fn all_frames_arrive(topology in any_topology(), routing in 0..ALL.len(), shift in 1..40_u32) {
        let routing = ALL[routing];
        let hosts = topology.hosts();
        prop_assume!(!shift.is_multiple_of(hosts));
        let (arrived, ..) = send(&mut fabric(&topology, routing), 12, 1, |from| (from + shift) % hosts);
        prop_assert_eq!(arrived.len() as u32, 12 * hosts);
        if matches!(routing, Routing::Adaptive | Routing::Ugal) {
            return Ok(());
        }
        for host in 0..hosts {
            let of_host = arrived.iter().filter(|it| it.host == host);
            let numbers: Vec<u32> = of_host.map(|it| number_of(&it.frame)).collect();
            prop_assert!(numbers.is_sorted(), "{:?}", numbers);
        }
    }
}
