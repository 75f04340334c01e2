use belljar_fabric::{LinkSpec, Settings, SwitchSpec};

use super::*;

fn message(bytes: u64) -> Message {
    Message {
        id: 1,
        from: 0,
        to: 2,
        bytes,
    }
}

#[test]
fn a_frame_that_is_overtaken_is_not_lost_where_frames_may_overtake() {
    let mut transit = Transit {
        message: message(10 * 1448),
        sent: 10,
        known: 0,
        missing: BTreeMap::new(),
        heard: Time::ZERO,
        patience: TIMEOUT,
    };
    let mut lost = |index, overtaken| transit.take(index, overtaken);
    // 1 and 2 come after 3 and 4.
    assert!(lost(0, 3).is_empty() && lost(3, 3).is_empty() && lost(4, 3).is_empty());
    assert!(lost(1, 3).is_empty());
    assert_eq!(lost(5, 3), [2]);
    assert!(lost(6, 3).is_empty());
    // In order, the next one tells.
    assert_eq!(lost(8, 1), [7]);
}

#[test]
fn states_that_no_hosts_get_into_are_refused() {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    let topology = Topology::star(3, link, switch).unwrap();
    let routes = Settings::default().routes();
    let mut transport = Transport::new(topology, &routes, Paces::default()).unwrap();
    transport.send(Time::ZERO, message(5_000));
    transport.advance(Time::ZERO);
    let state = transport.save();
    assert!(state.is_sound(3) && !state.is_sound(2));
    let strange = |change: &dyn Fn(&mut TransportState)| {
        let mut state = state.clone();
        change(&mut state);
        !state.is_sound(3)
    };
    assert!(strange(&|it| it.senders[0].turns.push_back((0, 3..9))));
    assert!(strange(&|it| it.senders[0].turns.push_back((0, 3..3))));
    assert!(strange(&|it| {
        it.happenings.push((Time::ZERO, Happening::Makes(3), 0));
    }));
    assert!(strange(&|it| {
        it.happenings
            .push((Time::ZERO, Happening::Told((0, 3), 1), 0));
    }));
    assert!(strange(&|it| {
        it.transits.get_mut(0).unwrap().known = 5;
    }));
}
