//! Helpers of tests of whole networks: uniform parts, frames, and distances from delivery times.
#![allow(dead_code, missing_docs, unreachable_pub)]

use belljar_fabric::{
    Delivery, Dragonfly, Endpoint, Fabric, FatTree, Frame, GlobalWiring, Link, LinkSpec, Mac,
    PartSpecs, SwitchSpec, Topology, Torus,
};
use belljar_sim::{Span, Time};
use proptest::prelude::*;

pub const LINK: LinkSpec = LinkSpec {
    bandwidth: 10_000_000_000,
    latency: Span::from_us(1),
};
pub const SWITCH: SwitchSpec = SwitchSpec {
    latency: Span::from_ns(300),
    queue_bytes: 1 << 20,
};
pub const PARTS: PartSpecs = PartSpecs {
    link: LINK,
    uplink: LINK,
    switch: SWITCH,
};
/// Long enough for an IPv4 header and ports.
const LENGTH: usize = 64;

/// A UDP datagram; `ports` identifies its flow, `number` the frame.
pub fn datagram(from: u32, to: u32, ports: u32, number: u32) -> Frame {
    let mut bytes = vec![0; LENGTH];
    bytes[..6].copy_from_slice(&Mac::of_host(to).0);
    bytes[6..12].copy_from_slice(&Mac::of_host(from).0);
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    bytes[23] = 17;
    bytes[26..30].copy_from_slice(&from.to_be_bytes());
    bytes[30..34].copy_from_slice(&to.to_be_bytes());
    bytes[34..38].copy_from_slice(&ports.to_be_bytes());
    bytes[42..46].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// The number of a [`datagram`].
pub fn number_of(frame: &Frame) -> u32 {
    u32::from_be_bytes(frame.head()[42..46].try_into().unwrap())
}

/// A broadcast frame.
pub fn broadcast(from: u32) -> Frame {
    let mut bytes = datagram(from, 0, 0, 0).to_vec();
    bytes[..6].fill(0xff);
    bytes.into()
}

/// The time of a single frame over `links` links.
pub fn time_over(links: u32) -> Span {
    let link = LINK.latency + LINK.transmission(LENGTH);
    let all = u64::from(links) * link.as_ps();
    Span::from_ps(all + u64::from(links - 1) * SWITCH.latency.as_ps())
}

/// Number of links that a single frame sent at `time` passes; `None` if it does not arrive.
pub fn links_between(fabric: &mut Fabric, time: Time, from: u32, to: u32) -> Option<u32> {
    fabric.send(time, from, time.as_ps(), datagram(from, to, 7, 0));
    let arrived: Vec<Delivery> = fabric.advance(Time::MAX).collect();
    assert!(arrived.len() <= 1, "one frame became {}", arrived.len());
    let arrived = arrived.first()?;
    assert_eq!(arrived.host, to);
    let took = arrived.time.since(time);
    Some(
        (1..1000)
            .find(|&links| time_over(links) == took)
            .expect("a whole number of links"),
    )
}

pub fn join(near: Endpoint, far: Endpoint) -> Link {
    Link {
        ends: [near, far],
        spec: LINK,
    }
}

/// A connected graph of switches, with loops and parallel links, and some hosts.
pub fn any_graph() -> impl Strategy<Value = Topology> {
    (1..12_u32, 2..10_u32)
        .prop_flat_map(|(switches, hosts)| {
            let above = proptest::collection::vec(any::<u32>(), switches as usize);
            let more = proptest::collection::vec((0..switches, 0..switches), 0..12);
            let places = proptest::collection::vec(0..switches, hosts as usize);
            (above, more, places)
        })
        .prop_map(|(above, more, places)| {
            let switch = Endpoint::Switch;
            let hosts = places.iter().zip(0..);
            let mut links: Vec<Link> = hosts
                .map(|(&place, host)| join(Endpoint::Host(host), switch(place)))
                .collect();
            let below = 1..above.len() as u32;
            links.extend(below.map(|at| join(switch(at), switch(above[at as usize] % at))));
            let loops = more.iter().filter(|(near, far)| near != far);
            links.extend(loops.map(|&(near, far)| join(switch(near), switch(far))));
            Topology::new(places.len() as u32, vec![SWITCH; above.len()], links).unwrap()
        })
}

/// A topology of any kind with a few hosts.
pub fn any_topology() -> impl Strategy<Value = Topology> {
    let tree = (2..20_u32, 2..5_u32)
        .prop_map(|(hosts, fanout)| Topology::tree(hosts, fanout, LINK, LINK, SWITCH).unwrap());
    let fat_tree = (2..17_u32).prop_map(|hosts| {
        FatTree::for_hosts(hosts)
            .unwrap()
            .build(hosts, &PARTS)
            .unwrap()
    });
    let torus =
        (proptest::collection::vec(1..5_u32, 1..4), 1..3_u32).prop_map(|(dimensions, per)| {
            let torus = Torus {
                dimensions,
                hosts_per_switch: per,
            };
            torus
                .build((torus.capacity() as u32).max(1), &PARTS)
                .unwrap()
        });
    let dragonfly = (1..4_u32, 1..3_u32, 1..3_u32).prop_map(|(a, p, h)| {
        let dragonfly = dragonfly(a, p, h, a * h + 1);
        dragonfly
            .build(dragonfly.capacity() as u32, &PARTS)
            .unwrap()
    });
    prop_oneof![tree, fat_tree, torus, dragonfly, any_graph()]
}

pub fn dragonfly(a: u32, p: u32, h: u32, g: u32) -> Dragonfly {
    Dragonfly {
        switches_per_group: a,
        hosts_per_switch: p,
        global_links_per_switch: h,
        groups: g,
        wiring: GlobalWiring::AllPorts,
        global_link: LINK,
    }
}

/// Distances between all hosts in links, over links for which `works` is true, by Floyd and
/// Warshall, as a reference for the fabric's own search.
pub fn distances(topology: &Topology, works: impl Fn(u32) -> bool) -> Vec<Vec<Option<u32>>> {
    let hosts = topology.hosts() as usize;
    let places = hosts + topology.switches().len();
    let index = |end| match end {
        Endpoint::Host(host) => host as usize,
        Endpoint::Switch(switch) => hosts + switch as usize,
    };
    let mut steps = vec![vec![None; places]; places];
    for (place, row) in steps.iter_mut().enumerate() {
        row[place] = Some(0);
    }
    for (link, _) in topology
        .links()
        .iter()
        .zip(0..)
        .filter(|&(_, id)| works(id))
    {
        let [near, far] = link.ends.map(index);
        (steps[near][far], steps[far][near]) = (Some(1), Some(1));
    }
    for middle in 0..places {
        for from in 0..places {
            for to in 0..places {
                if let (Some(here), Some(there)) = (steps[from][middle], steps[middle][to])
                    && steps[from][to].is_none_or(|direct| here + there < direct)
                {
                    steps[from][to] = Some(here + there);
                }
            }
        }
    }
    steps.truncate(hosts);
    steps
}
