//! Times of messages against sums of the cards' and the network's delays.

use super::*;
use belljar_fabric::{LinkSpec, SwitchSpec};

/// A switch with links of 100 Gb/s and the cards of EDR.
fn model(hosts: u32) -> InfinibandModel {
    let link = LinkSpec {
        bandwidth: 100_000_000_000,
        latency: Span::from_ns(10),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(90),
        queue_bytes: 0,
    };
    InfinibandModel {
        topology: Topology::star(hosts, link, switch).expect("a star"),
        routing: Routing::Shortest,
        seed: 1,
        flow: Flow {
            buffer: 1 << 16,
            lanes: 1,
            gap: Span::ZERO,
        },
        cards: Cards {
            send: Span::from_ns(270),
            receive: Span::from_ns(260),
            answer: Span::from_ns(60),
            fetch: Span::from_ns(540),
            bus: 114_400_000_000,
            mtu: 2_048,
            inline: 80,
        },
    }
}

fn message(id: u32, from: u32, to: u32, bytes: u64) -> Message {
    Message {
        id,
        from,
        to,
        bytes,
        stream: u64::from(from) << 32 | u64::from(to),
    }
}

/// Arrivals of messages that are sent at time zero, by number, in nanoseconds.
fn arrivals(network: &mut InfinibandNetwork, messages: &[Message]) -> Vec<u64> {
    for message in messages {
        assert_eq!(network.send(Time::ZERO, *message), None);
    }
    let mut arrived = Vec::new();
    while network.next_time().is_some() {
        network.advance(&mut arrived);
    }
    arrived.sort_by_key(|arrival| arrival.id);
    let times = arrived.iter().map(|arrival| arrival.time.as_ps() / 1_000);
    times.collect()
}

#[test]
fn a_short_message_takes_the_delays_and_its_transmission() {
    let mut network = InfinibandNetwork::new(&model(2), crate::Pace::default()).unwrap();
    // 34 bytes on the link are 2.7 ns, 32 to memory 2.2 ns.
    let expected = 270 + 10 + 90 + 10 + 260 + 2 + 2;
    let times = arrivals(&mut network, &[message(0, 0, 1, 8)]);
    assert!(times[0].abs_diff(expected) <= 1, "{times:?}");
}

#[test]
fn a_long_message_takes_its_bytes_over_the_links_rate() {
    let mut network = InfinibandNetwork::new(&model(2), crate::Pace::default()).unwrap();
    let times = arrivals(&mut network, &[message(0, 0, 1, 4 << 20)]);
    // 2,048 packets of 2,074 bytes.
    let wire = 2_048 * 2_074 * 8 / 100;
    assert!(
        (wire + 1_100..wire + 1_500).contains(&times[0]),
        "{times:?} {wire}"
    );
    let answer = message(0, 0, 1, 4 << 20);
    let mut network = InfinibandNetwork::new(&model(2), crate::Pace::default()).unwrap();
    assert_eq!(network.answer(Time::ZERO, answer), None);
    let again = arrivals(&mut network, &[]);
    assert!(
        (wire + 900..wire + 1_500).contains(&again[0]),
        "{again:?} {wire}"
    );
}

#[test]
fn two_senders_share_a_link_and_steps_do_not_matter() {
    let messages = [message(0, 1, 0, 1 << 20), message(1, 2, 0, 1 << 20)];
    let mut network = InfinibandNetwork::new(&model(3), crate::Pace::default()).unwrap();
    let times = arrivals(&mut network, &messages);
    let wire = 2 * 512 * 2_074 * 8 / 100;
    for time in &times {
        assert!((wire..wire + 2_000).contains(time), "{times:?} {wire}");
    }
    let mut network = InfinibandNetwork::new(&model(3), crate::Pace::default()).unwrap();
    for message in messages {
        network.send(Time::ZERO, message);
    }
    let mut arrived = Vec::new();
    let mut limit = Time::ZERO;
    while network.next_time().is_some() {
        limit += Span::from_ns(777);
        let mut some = Vec::new();
        while network.next_time().is_some_and(|next| next <= limit) {
            network.advance_to(limit, &mut some);
            arrived.append(&mut some);
        }
    }
    arrived.sort_by_key(|arrival| arrival.id);
    let stepped: Vec<u64> = arrived.iter().map(|it| it.time.as_ps() / 1_000).collect();
    assert_eq!(stepped, times);
    let loads = network.loads(limit);
    assert!(
        loads
            .iter()
            .any(|load| load.name == "host0-switch0 down" && load.bytes > 2 << 20)
    );
}
