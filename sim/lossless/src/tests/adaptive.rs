//! Links that switches choose by their queues.

use super::congestion::{LINK, SWITCH};
use super::*;
use belljar_fabric::{FatTree, PartSpecs};

/// The time without packets after which a flow may change its link.
const GAP: Span = Span::from_us(10);

/// Two switches with four hosts each, and two switches above them.
fn fat_tree(routing: Routing) -> Lossless {
    let parts = PartSpecs {
        link: LINK,
        uplink: LINK,
        switch: SWITCH,
    };
    let tree = FatTree {
        children: vec![4, 2],
        parents: vec![1, 2],
    };
    let topology = tree.build(8, &parts).unwrap();
    let routes = Routes {
        routing,
        ..Routes::default()
    };
    let flow = Flow {
        buffer: 1 << 16,
        lanes: 1,
        gap: GAP,
    };
    Lossless::new(topology, &routes, DELAYS, flow).unwrap()
}

/// `count` packets of 1,002 bytes from each of `flows`, ready at `at`; the time of the last arrival in nanoseconds.
fn last_arrival(fabric: &mut Lossless, flows: &[(u16, u16)], at: Time, count: u64) -> u64 {
    for &(from, to) in flows {
        for sequence in 0..count {
            let number = at.as_ps() << 20 | sequence;
            fabric.send(at, from.into(), number, packet(to + 1, from + 1, 1_002));
        }
    }
    let arrivals = fabric.advance(Time::MAX);
    assert_eq!(arrivals.len() as u64, count * flows.len() as u64);
    arrivals.iter().map(|it| it.time.as_ps()).max().unwrap() / 1_000
}

#[test]
fn flows_that_share_a_link_by_destination_do_not_share_it_if_switches_choose() {
    // Both destinations are behind the same switch of the upper level under d-mod-k.
    let flows = [(0, 4), (1, 6)];
    let took = |routing| last_arrival(&mut fat_tree(routing), &flows, Time::ZERO, 1_000);
    let (fixed, adaptive) = (took(Routing::DModK), took(Routing::Adaptive));
    let alone = last_arrival(&mut fat_tree(Routing::DModK), &[(0, 4)], Time::ZERO, 1_000);
    assert_eq!(adaptive, alone);
    let ratio = fixed as f64 / adaptive as f64;
    assert!((1.95..2.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_flow_keeps_its_link_until_no_packet_has_come_for_the_gap() {
    let mut fabric = fat_tree(Routing::Adaptive);
    let up = |fabric: &Lossless| {
        let topology = fabric.topology();
        let switch = topology.switch_of(0);
        let links = topology.links_at(switch).iter().copied();
        let figures = fabric.figures();
        // Links to hosts have the lowest numbers.
        let packets = links
            .filter(|link| *link >= topology.hosts())
            .map(|link| figures[link as usize][0].packets);
        packets.collect::<Vec<u64>>()
    };
    last_arrival(&mut fabric, &[(0, 4)], Time::ZERO, 100);
    let first = up(&fabric);
    assert_eq!(first.iter().sum::<u64>(), 100);
    assert!(first.contains(&0), "{first:?}");
    let used = first.iter().position(|packets| *packets > 0).unwrap();
    // A second flow fills the link of the first one. Within the gap, the first flow stays there.
    let soon = Time::from_ps(9_000_000);
    let other = [(1, 5), (2, 7)];
    last_arrival(&mut fabric, &other, soon, 50);
    last_arrival(&mut fabric, &[(0, 4)], Time::from_ps(17_000_000), 10);
    let second = up(&fabric);
    assert_eq!(second.iter().sum::<u64>(), 210);
    assert_eq!(second[used], 100 + 50 + 10);
    // After the gap it leaves a link with a queue.
    let late = Time::from_ps(100_000_000);
    for sequence in 0..50 {
        let number = 1 << 50 | sequence;
        fabric.send(late, 1, number, packet(6, 2, 1_002));
    }
    let begun = late + Span::from_ns(500);
    last_arrival_after(&mut fabric, begun);
    let third = up(&fabric);
    let grown: Vec<u64> = third
        .iter()
        .zip(&second)
        .map(|(now, then)| now - then)
        .collect();
    assert!(grown.contains(&50) && grown.contains(&10), "{grown:?}");
}

fn last_arrival_after(fabric: &mut Lossless, at: Time) {
    for sequence in 0..10 {
        fabric.send(at, 0, 1 << 51 | sequence, packet(5, 1, 1_002));
    }
    assert_eq!(fabric.advance(Time::MAX).len(), 60);
}

proptest! {
    /// Packets of two hosts arrive in their order, whatever steps are, and over saved states.
    #[test]
    fn orders_steps_and_saved_states(
        actions in proptest::collection::vec((0_u64..900, 0_u32..8, 1_u16..9, 38_usize..2000), 1..120),
        restores in any::<bool>(),
    ) {
        let (mut at_once, mut in_steps) = (fat_tree(Routing::Adaptive), fat_tree(Routing::Adaptive));
        let (mut now, mut stepped, mut sent) = (Time::ZERO, Vec::new(), 0);
        for (sequence, (wait, host, to, bytes)) in (0..).zip(actions) {
            now += Span::from_ns(wait);
            let hop = in_steps.cable;
            stepped.extend(in_steps.advance(now + hop));
            if restores {
                let state = in_steps.save();
                in_steps = fat_tree(Routing::Adaptive);
                in_steps.restore(state).unwrap();
            }
            let packet = packet(to, host as u16 + 1, bytes);
            sent += usize::from(u32::from(to) != host + 1);
            in_steps.send(now + DELAYS.before, host, sequence, packet.clone());
            at_once.send(now + DELAYS.before, host, sequence, packet);
        }
        stepped.extend(in_steps.advance(Time::MAX));
        let mut whole = at_once.advance(Time::MAX);
        prop_assert_eq!(whole.len(), sent);
        let key = |arrival: &Arrival| (arrival.time, arrival.host);
        stepped.sort_by_key(key);
        whole.sort_by_key(key);
        prop_assert_eq!(stepped, whole);
        prop_assert_eq!(in_steps.save(), at_once.save());
        prop_assert_eq!(at_once.circle(), None);
    }
}
