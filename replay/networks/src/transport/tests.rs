use std::collections::VecDeque;

use belljar_fabric::{LinkSpec, Settings, SwitchSpec};
use belljar_sim::Span;

use super::host::{Host, MOST_ARRIVING};
use super::*;

fn star(hosts: u32) -> Topology {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    Topology::star(hosts, link, switch).unwrap()
}

fn transport() -> Transport {
    let routes = Settings::default().routes();
    Transport::new(star(3), &routes, Paces::default()).unwrap()
}

fn message(id: u32, bytes: u64) -> Message {
    Message {
        id,
        from: 0,
        to: 2,
        bytes,
        stream: 0,
    }
}

/// Carries frames with a delay of 10 us, and loses the frames for whose global numbers `lost` returns true. Returns the arrivals in their order.
fn carry(transport: &mut Transport, lost: impl Fn(usize) -> bool) -> Vec<Arrival> {
    let (mut arrived, mut wire, mut sent) = (Vec::new(), VecDeque::new(), 0);
    loop {
        let first = wire.front().map(|(time, _): &(Time, Sent)| *time);
        let Some(now) = first.into_iter().chain(transport.next_time()).min() else {
            return arrived;
        };
        match wire.pop_front_if(|(time, _)| *time == now) {
            Some((_, Sent { host, frame, .. })) => {
                transport.came(now, 2 - host, &frame);
            }
            None => transport.advance(now, &mut arrived),
        }
        for frame in transport.outbox.drain(..).map(Outgoing::sent) {
            if !lost(sent) {
                wire.push_back((frame.time + Span::from_us(10), frame));
            }
            sent += 1;
        }
    }
}

#[test]
fn messages_of_a_stream_arrive_in_order() {
    let mut transport = transport();
    transport.send(Time::ZERO, message(7, 100_000));
    transport.send(Time::ZERO, message(8, 10));
    let arrived = carry(&mut transport, |_| false);
    let ids: Vec<u32> = arrived.iter().map(|it| it.id).collect();
    assert_eq!(ids, [7, 8]);
    // Ten segments, then twenty, then forty: 70 in two and a half round trips of 20 us.
    assert_eq!(arrived[0].time, Time::from_ps(50_000_000));
    assert!(transport.is_quiet());
}

#[test]
fn a_lost_segment_is_repeated_after_a_round_trip() {
    let mut transport = transport();
    transport.send(Time::ZERO, message(7, 10 * 1448));
    let arrived = carry(&mut transport, |sent| sent == 3);
    // The three segments after it overtake it: 10 us to the receiver, 10 us back, 10 us to the receiver again.
    assert_eq!(arrived[0].time, Time::from_ps(30_000_000));
}

#[test]
fn the_loss_of_a_tail_is_probed_for() {
    let mut transport = transport();
    transport.send(Time::ZERO, message(7, 10 * 1448));
    let arrived = carry(&mut transport, |sent| sent == 8 || sent == 9);
    // Acknowledged after 20 us, probed for at the second tick of 4 ms after that; the probe overtakes the first of both, which is then lost.
    assert_eq!(arrived[0].time, Time::from_ps(8_030_000_000));
}

#[test]
fn the_loss_of_all_waits_for_the_timeout() {
    let mut transport = transport();
    // A probe follows the first loss, an equal timeout the second, and a doubled one the third. An acknowledgement resets the timeout.
    for (second, (lost, ms)) in (0..).zip([(1, 208), (2, 416), (3, 824), (1, 208)]) {
        let begin = Time::from_ps(second * 1_000_000_000_000);
        transport.send(begin, message(8, 100));
        let arrived = carry(&mut transport, |sent| sent < lost);
        let took = arrived[0].time.since(begin).as_ps() / 1_000_000_000;
        assert_eq!(took, ms, "{lost} lost");
    }
}

#[test]
fn a_card_that_is_full_loses_frames() {
    let mut host = Host::default();
    let came = (0..600).filter_map(|_| host.take_in(Time::ZERO, Span::from_us(1)));
    assert_eq!(came.count(), MOST_ARRIVING);
    assert_eq!(host.dropped, 88);
    assert_eq!(
        host.take_in(Time::from_ps(1_000_000), Span::ZERO)
            .map(Time::as_ps),
        Some(512_000_000)
    );
}

#[test]
fn states_that_no_hosts_get_into_are_refused() {
    let mut transport = transport();
    transport.send(Time::ZERO, message(1, 5_000));
    transport.advance(Time::ZERO, &mut Vec::new());
    let state = transport.save();
    assert!(state.is_sound(3) && !state.is_sound(2));
    let strange = |change: &dyn Fn(&mut TransportState)| {
        let mut state = state.clone();
        change(&mut state);
        !state.is_sound(3)
    };
    assert!(strange(&|it| it.hosts[0].usual.push_back(1)));
    assert!(strange(&|it| it.events.push((Time::ZERO, Event::Leave(3)))));
    assert!(strange(&|it| it
        .events
        .push((Time::ZERO, Event::Expire(1)))));
    let backwards = [2, 1].map(Time::from_ps);
    assert!(strange(&|it| it
        .connections
        .get_mut(0)
        .unwrap()
        .arriving
        .extend(backwards)));
    assert!(strange(&|it| it.connections.get_mut(0).unwrap().to = 3));
    assert!(strange(&|it| it
        .connections
        .get_mut(0)
        .unwrap()
        .receiver
        .expect(3, 9)));
}
