use belljar_fabric::{LinkSpec, Routing, SwitchSpec};

use super::*;
use crate::shapes::two_levels;

const GIGABIT: u64 = 1_000_000_000;

fn star(hosts: u32) -> Topology {
    let link = LinkSpec {
        bandwidth: 8 * GIGABIT,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    Topology::star(hosts, link, switch).unwrap()
}

fn network(hosts: u32, pace: Pace) -> FlowNetwork {
    FlowNetwork::new(star(hosts), &Routes::default(), pace).unwrap()
}

fn message(id: u32, from: u32, to: u32, frames: u64) -> Message {
    Message {
        id,
        from,
        to,
        bytes: frames * SEGMENT,
        stream: 0,
    }
}

/// Returns the arrival of each message, in nanoseconds, by its number.
fn arrivals(network: &mut FlowNetwork) -> Vec<(u32, u64)> {
    let mut arrived = Vec::new();
    while network.next_time().is_some() {
        network.advance(&mut arrived);
    }
    let mut all: Vec<_> = arrived
        .iter()
        .map(|arrival| (arrival.id, arrival.time.as_ps() / 1000))
        .collect();
    all.sort_unstable();
    all
}

/// A frame's transmission time on a link, in nanoseconds.
const FRAME: u64 = 1538;
/// Latencies, and the reception of a frame at the switch.
const WAY: u64 = 2 * 1000 + 300 + FRAME;

#[test]
fn a_message_alone_has_the_whole_link() {
    let mut network = network(2, Pace::default());
    assert_eq!(network.send(Time::ZERO, message(1, 0, 1, 100)), None);
    assert_eq!(arrivals(&mut network), [(1, 100 * FRAME + WAY)]);
    let loads = network.loads(Time::MAX);
    assert_eq!(loads.len(), 2);
    assert_eq!(loads[0].bytes, 100 * FRAME);
}

#[test]
fn messages_of_a_stream_go_one_after_the_other() {
    let mut network = network(2, Pace::default());
    for id in 1..=3 {
        assert_eq!(network.send(Time::ZERO, message(id, 0, 1, 100)), None);
    }
    // Another stream of the same hosts shares the link until it ends.
    let other = Message {
        stream: 7,
        ..message(4, 0, 1, 50)
    };
    assert_eq!(network.send(Time::ZERO, other), None);
    let state = network.save();
    let mut again = super::tests::network(2, Pace::default());
    assert!(again.restore(state.clone()));
    let expected = [(1, 150), (2, 250), (3, 350), (4, 100)];
    let expected = expected.map(|(id, frames)| (id, frames * FRAME + WAY));
    assert_eq!(arrivals(&mut network), expected);
    assert_eq!(arrivals(&mut again), expected);
    let mut small = super::tests::network(1, Pace::default());
    assert!(!small.restore(state));
}

#[test]
fn messages_to_one_host_share_its_link() {
    let mut network = network(3, Pace::default());
    network.send(Time::ZERO, message(1, 0, 2, 100));
    network.send(Time::ZERO, message(2, 1, 2, 200));
    // Both at half the rate; then the rest of the second at the full rate.
    let expected = [(1, 200 * FRAME + WAY), (2, 300 * FRAME + WAY)];
    assert_eq!(arrivals(&mut network), expected);
}

#[test]
fn rates_are_max_min_fair() {
    let mut network = network(4, Pace::default());
    // Host 0 sends two, one of them to the same host as host 1: all three have half a link.
    network.send(Time::ZERO, message(1, 0, 2, 100));
    network.send(Time::ZERO, message(2, 0, 3, 100));
    network.send(Time::ZERO, message(3, 1, 3, 100));
    let both = 200 * FRAME + WAY;
    assert_eq!(arrivals(&mut network), [(1, both), (2, both), (3, both)]);
}

#[test]
fn hosts_bound_the_rate_of_all_that_they_receive() {
    let pace = Pace {
        receives: Span::from_ns(4 * FRAME),
        ..Pace::default()
    };
    let mut network = network(3, pace);
    network.send(Time::ZERO, message(1, 0, 2, 100));
    network.send(Time::ZERO, message(2, 1, 2, 100));
    let both = 800 * FRAME + WAY;
    assert_eq!(arrivals(&mut network), [(1, both), (2, both)]);
}

#[test]
fn small_messages_arrive_at_once() {
    let mut network = network(2, Pace::default());
    let arrival = network.send(Time::ZERO, message(1, 0, 1, 0));
    assert_eq!(
        arrival,
        Some(Time::from_ps((2 * 1000 + 300 + 2 * 90) * 1000))
    );
}

fn routed(routing: Routing) -> FlowNetwork {
    let routes = Routes {
        routing,
        ..Routes::default()
    };
    let topology = two_levels(&star(1));
    FlowNetwork::new(topology, &routes, Pace::default()).unwrap()
}

#[test]
fn adaptive_messages_take_links_that_carry_no_others() {
    let last = |routing| {
        let mut network = routed(routing);
        for host in 0..4 {
            network.send(Time::ZERO, message(host, host, host + 4, 100));
        }
        let all = arrivals(&mut network);
        all.into_iter().map(|(_, time)| time).max().unwrap()
    };
    assert!(last(Routing::Shortest) > 400 * FRAME);
    assert!(last(Routing::Adaptive) < 110 * FRAME);
    assert!(last(Routing::Ugal) < 210 * FRAME);
}
