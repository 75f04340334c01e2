use belljar_fabric::{Impairment, LinkSpec, Routing, SwitchSpec};

use super::*;
use crate::message::MessageId;
use crate::shapes::two_levels;

fn star(queue_bytes: u64) -> Topology {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let latency = Span::from_ns(300);
    let switch = SwitchSpec {
        latency,
        queue_bytes,
    };
    Topology::star(3, link, switch).unwrap()
}

fn message(id: MessageId, from: u32, bytes: u64) -> Message {
    Message {
        id,
        from,
        to: 2,
        bytes,
        stream: 0,
    }
}

fn arrivals(network: &mut PacketNetwork) -> Vec<(MessageId, u64)> {
    let mut arrived = Vec::new();
    while network.next_time().is_some() {
        network.advance(&mut arrived);
    }
    let mut all: Vec<_> = arrived
        .iter()
        .map(|arrival| (arrival.id, arrival.time.as_ps()))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn a_message_takes_what_its_frames_take() {
    let mut network =
        PacketNetwork::new(star(1 << 20), &Settings::default(), Paces::default()).unwrap();
    network.send(Time::ZERO, message(1, 0, 2 * 1448));
    // Two links and a switch; the second frame is one transmission later.
    let expected = 3 * 1_230_400 + 2 * 1_000_000 + 300_000;
    assert_eq!(arrivals(&mut network), [(1, expected)]);
}

#[test]
fn two_senders_share_the_way_to_one_receiver() {
    let mut network =
        PacketNetwork::new(star(1 << 20), &Settings::default(), Paces::default()).unwrap();
    network.send(Time::ZERO, message(1, 0, 100 * 1448));
    network.send(Time::ZERO, message(2, 1, 100 * 1448));
    let all = arrivals(&mut network);
    let last = all.iter().map(|(_, at)| *at).max().unwrap();
    assert_eq!(last, 201 * 1_230_400 + 2 * 1_000_000 + 300_000);
}

#[test]
fn what_is_lost_is_sent_again() {
    let lossy = Impairment {
        loss: 0.2,
        ..Impairment::default()
    };
    let settings = Settings {
        impairments: vec![(2, lossy)],
        ..Settings::default()
    };
    let mut network = PacketNetwork::new(star(1 << 20), &settings, Paces::default()).unwrap();
    for id in 0..20 {
        network.send(
            Time::from_ps(u64::from(id) * 1_000_000_000),
            message(id, 0, 50 * 1448),
        );
    }
    let all = arrivals(&mut network);
    assert_eq!(all.len(), 20);
    let lost: u64 = network.loads().iter().map(|load| load.dropped).sum();
    assert!(lost > 100, "{lost}");
}

#[test]
fn a_queue_that_is_full_drops() {
    let mut network =
        PacketNetwork::new(star(20_000), &Settings::default(), Paces::default()).unwrap();
    network.send(Time::ZERO, message(1, 0, 100 * 1448));
    network.send(Time::ZERO, message(2, 1, 100 * 1448));
    assert_eq!(arrivals(&mut network).len(), 2);
    let lost: u64 = network.loads().iter().map(|load| load.dropped).sum();
    assert!(lost > 0);
}

#[test]
fn adaptive_frames_that_overtake_one_another_are_not_sent_twice() {
    let carried = |routing| {
        let settings = Settings {
            routing,
            ..Settings::default()
        };
        let topology = two_levels(&star(1 << 20));
        let mut network = PacketNetwork::new(topology, &settings, Paces::default()).unwrap();
        for host in 0..4 {
            let whole = Message {
                to: host + 4,
                ..message(host, host, 200 * 1448)
            };
            network.send(Time::ZERO, whole);
        }
        assert_eq!(arrivals(&mut network).len(), 4);
        let loads = network.loads();
        loads.iter().map(|load| load.bytes).sum::<u64>()
    };
    let (ordered, adaptive) = (carried(Routing::SModK), carried(Routing::Adaptive));
    assert!(adaptive < ordered + ordered / 100, "{adaptive} {ordered}");
}
