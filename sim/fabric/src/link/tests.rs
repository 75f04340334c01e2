//! Queues, jitter and failures of one direction of a link, compared with calculated values.
use super::*;
use crate::impairment::Outage;

const TEN_GIGABIT: LinkSpec = LinkSpec {
    bandwidth: 10_000_000_000,
    latency: Span::from_us(1),
};
/// Time of a frame of 1514 bytes: 1538 bytes on the wire at 0.8 ns each.
const WIRE: Span = Span::from_ps(1_230_400);

fn port(capacity: u64, impairment: Option<Impairment>) -> Port {
    let spec = PortSpec {
        link: TEN_GIGABIT,
        capacity,
        number: 0,
        seed: Seed(1),
        impairment: impairment.map(Arc::new),
    };
    Port::new(spec, PortState::default())
}

#[test]
fn frames_queue_behind_each_other() {
    let mut port = port(10_000, None);
    let first = port.send(Time::ZERO, 1514).unwrap();
    let second = port.send(Time::ZERO, 1514).unwrap();
    let arrival = Time::ZERO + WIRE + Span::from_us(1);
    assert_eq!(first.exit, Exit::Arrives(arrival));
    assert_eq!(second.start, Time::ZERO + WIRE);
    assert_eq!(second.exit, Exit::Arrives(arrival + WIRE));
    assert_eq!((first.queued, second.queued), (1514, 3028));
}

#[test]
fn a_full_queue_drops_and_drains() {
    let mut port = port(3_028, None);
    assert!(port.send(Time::ZERO, 1514).is_ok());
    assert!(port.send(Time::ZERO, 1514).is_ok());
    assert_eq!(port.send(Time::ZERO, 1514), Err(Refusal::Full));
    assert!(port.send(Time::ZERO + WIRE, 1514).is_ok());
    assert_eq!(port.state.statistics.drops, 1);
}

#[test]
fn jitter_delays_and_keeps_the_order() {
    let jitter = Span::from_us(20);
    let mut plain = port(1 << 30, None);
    let mut late = port(
        1 << 30,
        Some(Impairment {
            jitter,
            ..Impairment::default()
        }),
    );
    let mut last = Time::ZERO;
    let mut delayed = 0;
    for number in 0..1000 {
        let now = Time::from_ps(number * 3_000_000);
        let arrival = |port: &mut Port| match port.send(now, 1514).unwrap().exit {
            Exit::Arrives(arrival) => arrival,
            other => panic!("{other:?}"),
        };
        let (least, actual) = (arrival(&mut plain), arrival(&mut late));
        assert!(actual >= least && actual <= least + jitter);
        assert!(actual.since(last) >= WIRE, "faster than the wire");
        delayed += u64::from(actual > least);
        last = actual;
    }
    assert!(delayed > 900, "{delayed}");
}

#[test]
fn a_failing_link_loses_what_waits_and_what_is_on_the_wire() {
    let failure = Time::ZERO + WIRE + WIRE;
    let repair = failure + Span::from_us(10);
    let outages = vec![Outage {
        from: failure,
        until: repair,
    }];
    let mut port = port(
        1 << 20,
        Some(Impairment {
            outages,
            ..Impairment::default()
        }),
    );
    let exits: Vec<Exit> = (0..4)
        .map(|_| port.send(Time::ZERO, 1514).unwrap().exit)
        .collect();
    // The first frame arrives in time: 1 us after its last bit. The second frame's last bit is in
    // transit, the third frame waits.
    assert_eq!(
        exits[0],
        Exit::Arrives(Time::ZERO + WIRE + Span::from_us(1))
    );
    assert_eq!(exits[1..], [Exit::Failed; 3]);
    assert_eq!(port.send(failure, 60), Err(Refusal::Down));
    // The queue is empty at that time.
    let next = port.send(repair, 1514).unwrap();
    assert_eq!((next.start, next.queued), (repair, 1514));
    assert_eq!(port.state.statistics.failed, 4);
    assert_eq!(port.state.statistics.frames, 2);
    assert_eq!(port.state.statistics.busy_ps, 3 * WIRE.as_ps());
}

#[test]
fn lost_frames_take_their_time_on_the_wire() {
    let mut port = port(
        1 << 20,
        Some(Impairment {
            loss: 1.0,
            ..Impairment::default()
        }),
    );
    assert_eq!(port.send(Time::ZERO, 1514).unwrap().exit, Exit::Lost);
    let second = port.send(Time::ZERO, 1514).unwrap();
    assert_eq!(second.start, Time::ZERO + WIRE);
    assert_eq!(port.state.statistics.lost, 2);
}
