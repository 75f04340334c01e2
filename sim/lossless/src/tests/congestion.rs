//! Credits, turns and circles.

use super::*;
use belljar_fabric::{PartSpecs, Torus};

pub(super) const LINK: LinkSpec = LinkSpec {
    bandwidth: 100_000_000_000,
    latency: Span::from_ns(10),
};

pub(super) const SWITCH: SwitchSpec = SwitchSpec {
    latency: Span::from_ns(90),
    queue_bytes: 1 << 16,
};

/// A torus with a host at each switch.
fn torus(dimensions: &[u32], lanes: u8) -> Lossless {
    torus_with(dimensions, lanes, 2_048)
}

/// The same with this many bytes of buffer for each lane.
fn torus_with(dimensions: &[u32], lanes: u8, buffer: u64) -> Lossless {
    let parts = PartSpecs {
        link: LINK,
        uplink: LINK,
        switch: SWITCH,
    };
    let torus = Torus {
        dimensions: dimensions.to_vec(),
        hosts_per_switch: 1,
    };
    let hosts = torus.capacity() as u32;
    let topology = torus.build(hosts, &parts).unwrap();
    let flow = Flow {
        buffer,
        lanes,
        gap: Span::ZERO,
    };
    Lossless::new(topology, &Routes::default(), DELAYS, flow).unwrap()
}

/// `count` packets of 1,002 bytes from one host to another, all ready at time zero.
fn burst(fabric: &mut Lossless, from: u16, to: u16, count: u64) {
    for sequence in 0..count {
        let packet = packet(to + 1, from + 1, 1_002);
        fabric.send(
            Time::ZERO,
            u32::from(from),
            u64::from(to) << 32 | sequence,
            packet,
        );
    }
}

/// When the last packet of each sender arrived at `host`, in nanoseconds.
fn last_of(arrivals: &[Arrival], host: u32, from: u16) -> u64 {
    let of = |arrival: &&Arrival| {
        let (_, sender) = addresses(&arrival.packet).unwrap();
        arrival.host == host && sender == from + 1
    };
    let last = arrivals.iter().rfind(of).unwrap();
    last.time.as_ps() / 1_000
}

#[test]
fn two_senders_have_half_of_an_output_each_and_wait_for_credits() {
    let mut fabric = star(4);
    for from in [1, 2] {
        burst(&mut fabric, from, 0, 1_000);
    }
    let arrivals = fabric.advance(Time::MAX);
    assert_eq!(arrivals.len(), 2_000);
    // Packets take turns from the first to the last.
    let half = arrivals.iter().take(1_000);
    let of_first = half.filter(|arrival| addresses(&arrival.packet).unwrap().1 == 2);
    assert!((495..=505).contains(&of_first.count()));
    // Both send at the full rate until 64 KiB wait in the switch, then at half of it.
    let figures = fabric.figures();
    let up = figures[fabric.topology().link_of(1) as usize][0];
    let waited = up.credit_wait_ps / BUSY;
    assert!((860..1_000).contains(&waited), "{waited} packets");
}

#[test]
fn a_full_output_does_not_harm_flows_to_other_outputs_of_other_inputs() {
    let alone = {
        let mut fabric = star(5);
        burst(&mut fabric, 3, 4, 500);
        last_of(&fabric.advance(Time::MAX), 4, 3)
    };
    let mut fabric = star(5);
    for from in [1, 2] {
        burst(&mut fabric, from, 0, 1_000);
    }
    burst(&mut fabric, 3, 4, 500);
    assert_eq!(last_of(&fabric.advance(Time::MAX), 4, 3), alone);
}

#[test]
fn congestion_spreads_to_flows_that_share_a_link_with_a_full_buffer() {
    // On two switches: hosts 0 and 1 at one send to host 2 and 3 at the other; host 2 also gets packets of host 3.
    let build = |with_incast: bool| {
        let mut fabric = tree_with(FLOW);
        burst(&mut fabric, 1, 3, 500);
        if with_incast {
            burst(&mut fabric, 0, 2, 4_000);
            burst(&mut fabric, 3, 2, 4_000);
        }
        last_of(&fabric.advance(Time::MAX), 3, 1)
    };
    assert!(build(true) > build(false));
}

#[test]
fn a_ring_with_one_lane_names_its_circle_and_with_two_all_packets_arrive() {
    let send = |lanes| {
        let mut fabric = torus(&[5], lanes);
        for from in 0..5 {
            burst(&mut fabric, from, (from + 2) % 5, 50);
        }
        let arrivals = fabric.advance(Time::MAX).len();
        (arrivals, fabric.circle())
    };
    let (arrivals, circle) = send(1);
    assert!(arrivals < 250);
    let links: std::collections::BTreeSet<LinkId> =
        circle.unwrap().iter().map(|(link, ..)| *link).collect();
    // After the five links of hosts.
    assert_eq!(links, (5..10).collect());
    assert_eq!(send(2), (250, None));
}

/// Packets that never arrive are in a circle, with any size of buffers. In some cases the returned credits are too few for a packet.
#[test]
fn packets_that_never_arrive_are_in_a_circle() {
    let mut blocked = 0;
    for buffer in (1_100..9_000).step_by(331) {
        for step in [1, 389, 787] {
            let mut fabric = torus_with(&[5], 1, buffer);
            for from in 0..5 {
                for sequence in 0..100 {
                    let bytes = 100 + (sequence * step + u64::from(from) * 97) % 990;
                    let packet = packet((from + 2) % 5 + 1, from + 1, bytes as usize);
                    fabric.send(Time::ZERO, u32::from(from), sequence, packet);
                }
            }
            let all = fabric.advance(Time::MAX).len() == 500;
            assert_eq!(all, fabric.circle().is_none(), "{buffer} {step}");
            blocked += u32::from(!all);
        }
    }
    assert!(blocked > 10);
}

#[test]
fn two_lanes_are_enough_for_a_torus_with_routing_by_dimensions() {
    let mut fabric = torus(&[5, 5], 2);
    assert_eq!(lanes_needed(fabric.topology(), &Routes::default()), Ok(2));
    for from in 0..25 {
        for to in (0..25).filter(|to| *to != from) {
            burst(&mut fabric, from, to, 10);
        }
    }
    assert_eq!(fabric.advance(Time::MAX).len(), 25 * 24 * 10);
    assert_eq!(fabric.circle(), None);
}

#[test]
fn trees_need_one_lane() {
    let fabric = tree_with(Flow { lanes: 4, ..FLOW });
    assert_eq!(lanes_needed(fabric.topology(), &Routes::default()), Ok(1));
}
