use belljar_fabric::{Impairment, LinkSpec, Routing, SwitchSpec};
use belljar_sim::{Random, Seed};

use super::*;
use crate::message::MessageId;
use crate::pace::Pace;
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
    let lost: u64 = network
        .loads(Time::MAX)
        .iter()
        .map(|load| load.dropped)
        .sum();
    assert!(lost > 100, "{lost}");
}

#[test]
fn a_queue_that_is_full_drops() {
    let mut network =
        PacketNetwork::new(star(20_000), &Settings::default(), Paces::default()).unwrap();
    network.send(Time::ZERO, message(1, 0, 100 * 1448));
    network.send(Time::ZERO, message(2, 1, 100 * 1448));
    assert_eq!(arrivals(&mut network).len(), 2);
    let lost: u64 = network
        .loads(Time::MAX)
        .iter()
        .map(|load| load.dropped)
        .sum();
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
        let loads = network.loads(Time::MAX);
        loads.iter().map(|load| load.bytes).sum::<u64>()
    };
    let (ordered, adaptive) = (carried(Routing::SModK), carried(Routing::Adaptive));
    assert!(adaptive < ordered + ordered / 100, "{adaptive} {ordered}");
}

/// A network whose links have an impairment without effect, so that its frames pass the fabric.
fn unfixed(settings: &Settings) -> Settings {
    Settings {
        impairments: vec![(0, Impairment::default())],
        ..settings.clone()
    }
}

#[test]
fn fixed_routes_carry_frames_as_the_fabric_does() {
    let pace = Pace {
        sends: Span::from_ns(300),
        receives: Span::from_ns(450),
        ..Pace::default()
    };
    for (seed, queue_bytes) in [(1, 1 << 20), (2, 9_000), (3, 40_000), (4, 70_000)] {
        for routing in [Routing::DModK, Routing::Ecmp, Routing::Shortest] {
            let settings = Settings {
                routing,
                ..Settings::default()
            };
            let network = |settings: &Settings| {
                PacketNetwork::new(two_levels(&star(queue_bytes)), settings, pace).unwrap()
            };
            let mut both = [network(&settings), network(&unfixed(&settings))];
            let mut random = Random::new(Seed(seed), "messages", 0);
            let mut arrived = [Vec::new(), Vec::new()];
            let mut now = Time::ZERO;
            for id in 0..300 {
                now += Span::from_ps(random.next_u64() % 4_000_000);
                let from = (random.next_u64() % 8) as u32;
                let whole = Message {
                    id,
                    from,
                    to: (from + 1 + (random.next_u64() % 7) as u32) % 8,
                    bytes: random.next_u64() % [100, 9_000, 200_000][id as usize % 3],
                    stream: random.next_u64() % 2,
                };
                for (network, arrived) in both.iter_mut().zip(&mut arrived) {
                    while network.next_time().is_some_and(|next| next <= now) {
                        network.advance(arrived);
                    }
                    network.send(now, whole);
                }
                assert_eq!(both[0].loads(now), both[1].loads(now), "{seed} {routing:?}");
            }
            assert_eq!(arrived[0], arrived[1], "{seed} {routing:?}");
            let [fixed, fabric] = both.each_mut().map(arrivals);
            assert_eq!(fixed, fabric, "{seed} {routing:?}");
            assert_eq!(both[0].loads(Time::MAX), both[1].loads(Time::MAX));
            let lost: u64 = both[0].loads(Time::MAX).iter().map(|it| it.dropped).sum();
            assert_eq!(lost > 0, queue_bytes < 1 << 20, "{lost}");
        }
    }
}
