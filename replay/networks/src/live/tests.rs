use belljar_fabric::{Fabric, LinkSpec, Settings, SwitchSpec, TrafficClass};
use belljar_sim::Span;

use super::*;

fn star() -> Topology {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 30_000,
    };
    Topology::star(4, link, switch).unwrap()
}

fn live() -> LiveNetwork {
    LiveNetwork::new(star(), &Settings::default().routes(), Paces::default()).unwrap()
}

/// Three hosts send much to one at the same time, so that frames are lost. The fabric advances in steps that are shorter than a frame's time on its last link; between
/// two steps the state is saved and restored if `saves`.
fn arrivals(step: u64, saves: bool) -> Vec<(u32, u64)> {
    let (mut network, mut fabric) = (live(), Fabric::new(star()));
    for from in 0..3 {
        let message = Message {
            id: from,
            from,
            to: 3,
            bytes: 200_000,
            stream: 0,
        };
        assert_eq!(network.send(Time::from_ps(from.into()), message), None);
    }
    let mut arrived = Vec::new();
    let mut now = 0;
    while arrived.len() < 3 {
        now += step;
        let end = Time::from_ps(now);
        while network.next_time().is_some_and(|time| time < end) {
            network.advance(&mut arrived);
        }
        for sent in network.sent() {
            fabric.send_background(sent.time, sent.host, sent.sequence, sent.frame);
        }
        assert_eq!(fabric.next_for_nodes(), None);
        for delivery in fabric.advance(end) {
            assert_eq!(delivery.traffic, TrafficClass::Background);
            network.hand_in(delivery.time, delivery.host, delivery.frame);
        }
        if saves {
            let (state, frames) = (network.save(), fabric.save());
            network = live();
            assert!(network.restore(state));
            fabric = Fabric::new(star());
            fabric.restore(frames).unwrap();
        }
    }
    let drops = fabric.statistics().into_iter().flatten();
    assert!(drops.map(|it| it.drops).sum::<u64>() > 0);
    let mut all: Vec<_> = arrived.iter().map(|it| (it.id, it.time.as_ps())).collect();
    all.sort_unstable();
    all
}

#[test]
fn how_far_the_network_runs_at_once_shows_nowhere_nor_does_a_restored_state() {
    let once = arrivals(130_000, false);
    assert_eq!(arrivals(1_000_000, false), once);
    assert_eq!(arrivals(777_777, false), once);
    assert_eq!(arrivals(1_000_000, true), once);
}

#[test]
fn states_of_other_hosts_are_refused() {
    let mut network = live();
    network.send(
        Time::ZERO,
        Message {
            id: 1,
            from: 0,
            to: 3,
            bytes: 5_000,
            stream: 0,
        },
    );
    network.advance(&mut Vec::new());
    let state = network.save();
    assert!(live().restore(state.clone()));
    let link = LinkSpec {
        bandwidth: 1,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1,
    };
    let two = Topology::star(2, link, switch).unwrap();
    let routes = Settings::default().routes();
    let mut other = LiveNetwork::new(two, &routes, Paces::default()).unwrap();
    assert!(!other.restore(state.clone()));
    let mut strange = state;
    strange.inbox.push((Time::ZERO, 4, 0, vec![].into()));
    assert!(!live().restore(strange));
}
