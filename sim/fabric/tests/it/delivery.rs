//! Delivery times compared with calculated times of links and switches.

use belljar_fabric::{Delivery, Fabric, Frame, LinkSpec, Mac, SwitchSpec, Topology};
use belljar_sim::{Span, Time};

const LINK: LinkSpec = LinkSpec {
    bandwidth: 10_000_000_000,
    latency: Span::from_us(1),
};
const SWITCH: SwitchSpec = SwitchSpec {
    latency: Span::from_ns(300),
    queue_bytes: 10_000,
};

fn frame(to: Mac, from: u32, length: usize) -> Frame {
    let mut bytes = vec![0; length];
    bytes[..6].copy_from_slice(&to.0);
    bytes[6..12].copy_from_slice(&Mac::of_host(from).0);
    bytes.into()
}

fn all(fabric: &mut Fabric) -> Vec<Delivery> {
    fabric.advance(Time::MAX).collect()
}

#[test]
fn a_frame_takes_two_links_and_a_switch() {
    let mut fabric = Fabric::new(Topology::star(2, LINK, SWITCH).unwrap());
    fabric.send(Time::from_ps(7), 0, 0, frame(Mac::of_host(1), 0, 1514));
    let wire = Span::from_ps(1538 * 800);
    let expected = Time::from_ps(7) + wire + LINK.latency + SWITCH.latency + wire + LINK.latency;
    let delivered = all(&mut fabric);
    assert_eq!(delivered.len(), 1);
    assert_eq!((delivered[0].time, delivered[0].host), (expected, 1));
}

#[test]
fn no_frame_arrives_within_the_lookahead() {
    let mut fabric = Fabric::new(Topology::star(3, LINK, SWITCH).unwrap());
    fabric.send(Time::from_ps(5), 0, 0, frame(Mac::of_host(2), 0, 60));
    assert_eq!(
        all(&mut fabric)[0].time,
        Time::from_ps(5) + fabric.lookahead()
    );
}

#[test]
fn broadcast_reaches_everybody_else_once() {
    let mut fabric = Fabric::new(Topology::tree(9, 3, LINK, LINK, SWITCH).unwrap());
    fabric.send(Time::ZERO, 4, 0, frame(Mac([0xff; 6]), 4, 60));
    let mut hosts: Vec<u32> = all(&mut fabric)
        .iter()
        .map(|delivery| delivery.host)
        .collect();
    hosts.sort_unstable();
    assert_eq!(hosts, [0, 1, 2, 3, 5, 6, 7, 8]);
}

#[test]
fn incast_queues_and_then_drops() {
    let mut fabric = Fabric::new(Topology::star(9, LINK, SWITCH).unwrap());
    for host in 1..9 {
        fabric.send(Time::ZERO, host, 0, frame(Mac::of_host(0), host, 1514));
        fabric.send(Time::ZERO, host, 1, frame(Mac::of_host(0), host, 1514));
    }
    let delivered = all(&mut fabric).len() as u64;
    let dropped: u64 = fabric
        .statistics()
        .iter()
        .flatten()
        .map(|link| link.drops)
        .sum();
    assert_eq!(delivered + dropped, 16);
    assert!(dropped > 0, "ten kilobytes of queue cannot hold it all");
}

#[test]
fn how_time_is_cut_changes_nothing() {
    let run = |step: u64| {
        let mut fabric = Fabric::new(Topology::tree(8, 2, LINK, LINK, SWITCH).unwrap());
        fabric.watch(0);
        for sequence in 0..50u64 {
            for host in 0..8u32 {
                let to = Mac::of_host((host * 3 + sequence as u32) % 8);
                let time = Time::from_ps(sequence * 700_000 + u64::from(host) * 13);
                fabric.send(
                    time,
                    host,
                    sequence,
                    frame(to, host, 60 + (sequence as usize * 97) % 1400),
                );
            }
        }
        let mut delivered = Vec::new();
        let mut end = Time::ZERO;
        while fabric.next_time().is_some() {
            end += Span::from_ps(step);
            delivered.extend(fabric.advance(end));
        }
        (delivered, fabric.take_captured(), fabric.statistics())
    };
    assert_eq!(run(1_000_000), run(u64::MAX));
}

/// Rounds as the coordinator runs them: hosts' frames become known only after the fabric ran ahead
/// by a hop.
#[test]
fn running_ahead_by_a_hop_changes_nothing() {
    let sends = |fabric: &mut Fabric, from: Time, to: Time| {
        for sequence in 0..200u64 {
            for host in 0..8u32 {
                let time = Time::from_ps(sequence * 333_337 + u64::from(host) * 7_919);
                if (from..to).contains(&time) {
                    let target = Mac::of_host((host * 5 + sequence as u32) % 8);
                    fabric.send(
                        time,
                        host,
                        sequence,
                        frame(target, host, 60 + (sequence as usize * 131) % 1400),
                    );
                }
            }
        }
    };
    let fabric = || Fabric::new(Topology::tree(8, 2, LINK, LINK, SWITCH).unwrap());
    let mut whole = fabric();
    sends(&mut whole, Time::ZERO, Time::MAX);
    let expected = all(&mut whole);

    let mut rounds = fabric();
    let mut delivered = Vec::new();
    let mut now = Time::ZERO;
    while now < Time::from_ps(1_000_000_000) {
        let end = now + rounds.lookahead();
        for delivery in rounds.advance(now + rounds.hop()) {
            assert!(delivery.time >= now, "a frame for the past");
            delivered.push(delivery);
        }
        sends(&mut rounds, now, end);
        now = end;
    }
    let by_host = |mut all: Vec<Delivery>| {
        all.sort_by_key(|delivery| (delivery.host, delivery.time));
        all
    };
    assert_eq!(by_host(delivered), by_host(expected));
}
