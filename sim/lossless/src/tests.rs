use super::*;
use belljar_fabric::{LinkSpec, SwitchSpec};
use belljar_verbs::{Opcode, Operation, Packet, Service, With};
use proptest::prelude::*;

/// Links that switches choose.
mod adaptive;
/// Credits, turns and circles.
mod congestion;
/// Congestion control.
mod control;

const DELAYS: CardDelays = CardDelays {
    before: Span::from_ns(60),
    after: Span::from_ns(220),
    // A byte takes 10 ps.
    bus: 800_000_000_000,
};

const FLOW: Flow = Flow {
    buffer: 1 << 16,
    lanes: 1,
    gap: Span::ZERO,
};

/// The transmission of 1,002 bytes at 100 Gb/s, in picoseconds.
const BUSY: u64 = 80_160;

/// The time in which a card writes the 1,000 bytes of such a packet.
const WRITTEN: u64 = 10_000;

/// 100 Gb/s, 10 ns of cable, 90 ns of switch.
fn star(hosts: u32) -> Lossless {
    let link = LinkSpec {
        bandwidth: 100_000_000_000,
        latency: Span::from_ns(10),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(90),
        queue_bytes: 1 << 16,
    };
    let topology = Topology::star(hosts, link, switch).unwrap();
    Lossless::new(topology, &Routes::default(), DELAYS, FLOW).unwrap()
}

fn tree() -> Lossless {
    tree_with(FLOW)
}

fn tree_with(flow: Flow) -> Lossless {
    let link = |gigabits: u64| LinkSpec {
        bandwidth: gigabits * 1_000_000_000,
        latency: Span::from_ns(10),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(90),
        queue_bytes: 1 << 16,
    };
    let topology = Topology::tree(4, 2, link(50), link(100), switch).unwrap();
    Lossless::new(topology, &Routes::default(), DELAYS, flow).unwrap()
}

/// A datagram with this many bytes on the wire, at least 34, or up to three more.
fn packet(to: u16, from: u16, bytes: usize) -> Vec<u8> {
    Packet {
        to,
        from,
        opcode: Opcode {
            service: Service::Datagram,
            operation: Operation::Send {
                first: true,
                last: true,
                with: With::Nothing,
            },
        },
        payload: vec![0; bytes - 34],
        ..Packet::default()
    }
    .to_bytes()
}

fn times(arrivals: &[Arrival]) -> Vec<(u64, u32)> {
    let of = |arrival: &Arrival| (arrival.time.as_ps(), arrival.host);
    arrivals.iter().map(of).collect()
}

#[test]
fn a_packet_takes_two_cables_a_switch_and_one_transmission() {
    let mut fabric = star(3);
    // 1,002 bytes at 100 Gb/s take 80.16 ns.
    fabric.send(Time::from_ps(5_000), 0, 0, packet(2, 1, 1_002));
    let arrivals = fabric.advance(Time::MAX);
    let expected = 5_000 + 10_000 + 90_000 + BUSY + 10_000 + 220_000 + WRITTEN;
    assert_eq!(times(&arrivals), [(expected, 1)]);
    assert_eq!(fabric.figures()[0][0].bytes, 1_002);
}

#[test]
fn two_senders_share_an_output_in_the_order_of_their_heads() {
    let mut fabric = star(3);
    fabric.send(Time::from_ps(1_000), 2, 0, packet(1, 3, 1_002));
    fabric.send(Time::ZERO, 1, 0, packet(1, 2, 1_002));
    let first = 10_000 + 90_000 + BUSY + 10_000 + 220_000 + WRITTEN;
    let arrivals = fabric.advance(Time::MAX);
    assert_eq!(times(&arrivals), [(first, 0), (first + BUSY, 0)]);
    assert_eq!(arrivals[0].packet, packet(1, 2, 1_002));
    let down = fabric.figures()[fabric.topology().link_of(0) as usize][1];
    assert_eq!((down.packets, down.wait_ps), (2, BUSY - 1_000));
}

#[test]
fn a_faster_link_waits_for_a_slower_one() {
    let mut fabric = tree();
    // From host 0 over the root to host 3: 160.32 ns at 50 Gb/s, 80.16 ns at 100 Gb/s.
    fabric.send(Time::ZERO, 0, 0, packet(4, 1, 1_002));
    let three_switches = 3 * 90_000 + 4 * 10_000;
    // The middle links begin 80.16 ns later than they could, and the last one takes 160.32 ns.
    let expected = three_switches + BUSY + 2 * BUSY + 220_000 + WRITTEN;
    assert_eq!(times(&fabric.advance(Time::MAX)), [(expected, 3)]);
}

#[test]
fn groups_reach_all_others_and_unknown_identifiers_nobody() {
    let mut fabric = star(3);
    fabric.send(Time::ZERO, 1, 0, packet(0xc001, 2, 100));
    fabric.send(Time::ZERO, 1, 1, packet(9, 2, 100));
    fabric.send(Time::ZERO, 1, 2, packet(0, 2, 100));
    let hosts: Vec<u32> = fabric.advance(Time::MAX).iter().map(|it| it.host).collect();
    assert_eq!(hosts, [0, 2]);
    assert_eq!(fabric.unroutable(), 2);
}

#[test]
fn nothing_arrives_before_the_distance_and_the_tail() {
    let mut fabric = tree();
    let distances = fabric.distances();
    for (from, to) in [(0, 1), (0, 3), (2, 0)] {
        let acted = Time::from_ps(1_000_000);
        let packet = packet(to as u16 + 1, from as u16 + 1, 38);
        fabric.send(acted + DELAYS.before, from, u64::from(to), packet);
        let next = fabric.next_time().unwrap();
        let arrival = fabric.advance(Time::MAX).remove(0);
        let least = distances.least(from, to);
        assert!(acted + least <= arrival.time);
        assert!(next + distances.tail(to) <= arrival.time);
        // Only the payload of the smallest datagram is more than the smallest packet.
        assert!(arrival.time.since(acted + least) < Span::from_ns(180));
    }
}

proptest! {
    /// Hosts that act in order of time, with packets that become ready later, in any order.
    #[test]
    fn steps_and_saved_states_do_not_matter(
        actions in proptest::collection::vec((0_u64..400, 0_u32..4, 1_u16..5, 38_usize..2000, 0_u64..300), 1..60),
        restores in any::<bool>(),
        buffer in 2_100_u64..9_000,
        lanes in 1_u8..3,
    ) {
        let flow = Flow { buffer, lanes, gap: Span::ZERO };
        let mut at_once = tree_with(flow);
        let mut in_steps = tree_with(flow);
        let (mut now, mut stepped) = (Time::ZERO, Vec::new());
        for (sequence, (wait, host, to, bytes, late)) in (0..).zip(actions) {
            now += Span::from_ns(wait);
            let hop = in_steps.cable;
            stepped.extend(in_steps.advance(now + hop));
            if restores {
                let state = in_steps.save();
                in_steps = tree_with(flow);
                in_steps.restore(state).unwrap();
            }
            let ready = now + DELAYS.before + Span::from_ns(late);
            let packet = packet(to, host as u16 + 1, bytes);
            in_steps.send(ready, host, sequence, packet.clone());
            at_once.send(ready, host, sequence, packet);
        }
        stepped.extend(in_steps.advance(Time::MAX));
        let mut whole = at_once.advance(Time::MAX);
        let key = |arrival: &Arrival| (arrival.time, arrival.host);
        stepped.sort_by_key(key);
        whole.sort_by_key(key);
        prop_assert_eq!(stepped, whole);
        prop_assert_eq!(in_steps.save(), at_once.save());
        prop_assert_eq!(at_once.circle(), None);
    }
}
