//! Properties of every network: all hosts reach each other, there are no loops, and runs are
//! reproducible.

use crate::net::{
    any_graph, any_topology, broadcast, datagram, distances, links_between, number_of,
};
use belljar_fabric::{
    Captured, Delivery, Fabric, FabricState, FrameLoss, Hold, Impairment, LinkRecord,
    LinkStatistics, LossStart, Outage, Routing, Settings, Topology,
};
use belljar_sim::{Span, Time, decode, encode};
use proptest::prelude::*;

const MILLISECOND: Span = Span::from_ms(1);

fn outage(from: Span, until: Span) -> Outage {
    Outage {
        from: Time::ZERO + from,
        until: Time::ZERO + until,
    }
}

/// All kinds of impairments on every third link.
fn troubled(topology: &Topology, seed: u64) -> Settings {
    let links = (0..topology.links().len() as u32).step_by(3);
    let impairment = |link: u32| Impairment {
        loss: 0.05,
        jitter: Span::from_us(3),
        outages: if link.is_multiple_of(2) {
            vec![
                outage(Span::from_us(100), Span::from_us(300)),
                outage(Span::from_us(600), MILLISECOND),
            ]
        } else {
            vec![]
        },
    };
    let hold = |from| Hold {
        from,
        to: 0,
        at: Time::ZERO + Span::from_us(20),
        until: Time::ZERO + Span::from_us(150),
    };
    let routings = [
        Routing::Ecmp,
        Routing::Valiant,
        Routing::Adaptive,
        Routing::Ugal,
        Routing::Random,
    ];
    Settings {
        routing: routings[seed as usize % routings.len()],
        tables: None,
        seed,
        impairments: links.map(|link| (link, impairment(link))).collect(),
        holds: (1..topology.hosts()).map(hold).collect(),
        losses: chosen_losses(topology.hosts()),
        statistics: Some(Span::from_us(50)),
    }
}

/// Some frames between neighbours, by time and by number.
fn chosen_losses(hosts: u32) -> Vec<FrameLoss> {
    let loss = |from: u32, start, frames| FrameLoss {
        from,
        to: (from + 1) % hosts,
        start,
        frames,
    };
    let at = LossStart::At(Time::ZERO + Span::from_us(40));
    let of = |host| [loss(host, at, 1), loss(host, LossStart::Frame(2), 2)];
    (0..hosts).flat_map(of).collect()
}

/// Frames of a run: time, source host, the sender's count, and the frame.
type Traffic = Vec<(Time, u32, u64, belljar_fabric::Frame)>;

/// Bursts from every host to every other one, and broadcasts between them.
fn traffic(hosts: u32, frames: u32) -> Traffic {
    let mut all = Vec::new();
    for number in 0..frames {
        for host in 0..hosts {
            let to = (host + 1 + number % hosts.max(2)) % hosts;
            let time = Time::from_ps(u64::from(number / 4) * 12_345_678 + u64::from(host) * 7);
            let frame = match number % 16 {
                5 => broadcast(host),
                _ => datagram(host, to, number % 3, number),
            };
            all.push((time, host, u64::from(number), frame));
        }
    }
    all
}

type Outcome = (
    Vec<Delivery>,
    Vec<Captured>,
    Vec<[LinkStatistics; 2]>,
    Vec<LinkRecord>,
);

/// Runs `traffic` in steps, like rounds: hosts' frames become known one step late.
fn run(fabric: &mut Fabric, traffic: &Traffic, step: Span, end: Time) -> Outcome {
    let mut outcome = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut now = Time::ZERO;
    while now < end {
        go_on(fabric, traffic, now, now + step, &mut outcome);
        now += step;
    }
    conclude(fabric, &mut outcome);
    outcome
}

fn go_on(fabric: &mut Fabric, traffic: &Traffic, now: Time, end: Time, outcome: &mut Outcome) {
    outcome.0.extend(fabric.advance(now + fabric.hop()));
    outcome.1.extend(fabric.take_captured());
    outcome.3.extend(fabric.take_records(now));
    for (time, host, sequence, frame) in traffic {
        if (now..end).contains(time) {
            fabric.send(*time, *host, *sequence, frame.clone());
        }
    }
}

fn conclude(fabric: &mut Fabric, outcome: &mut Outcome) {
    outcome.0.extend(fabric.advance(Time::MAX));
    outcome
        .0
        .sort_by_key(|delivery| (delivery.host, delivery.time));
    outcome.1.extend(fabric.take_captured());
    outcome
        .1
        .sort_by_key(|captured| (captured.link, captured.direction, captured.time));
    outcome.2 = fabric.statistics();
    outcome.3.extend(fabric.take_records(Time::MAX));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_host_reaches_every_other_one_over_as_few_links_as_there_are(
        topology in any_graph(), ecmp in any::<bool>(),
    ) {
        let expected = distances(&topology, |_| true);
        let routing = if ecmp { Routing::Ecmp } else { Routing::Shortest };
        let settings = Settings { routing, seed: 3, ..Settings::default() };
        let hosts = topology.hosts();
        let mut fabric = Fabric::with_settings(topology, &settings).unwrap();
        let mut time = Time::ZERO;
        for from in 0..hosts {
            for to in (0..hosts).filter(|&to| to != from) {
                let links = links_between(&mut fabric, time, from, to);
                prop_assert_eq!(links, expected[from as usize][to as usize]);
                time += MILLISECOND;
            }
        }
    }

    #[test]
    fn broadcasts_reach_everybody_else_once(topology in any_topology(), from in any::<u32>()) {
        let hosts = topology.hosts();
        let from = from % hosts;
        let mut fabric = Fabric::new(topology);
        fabric.send(Time::ZERO, from, 0, broadcast(from));
        let mut heard: Vec<u32> = fabric.advance(Time::MAX).map(|delivery| delivery.host).collect();
        heard.sort_unstable();
        prop_assert_eq!(heard, (0..hosts).filter(|&host| host != from).collect::<Vec<_>>());
    }

    #[test]
    fn routes_avoid_links_that_failed(topology in any_graph(), down in any::<u32>()) {
        let down = down % topology.links().len() as u32;
        let outages = vec![outage(Span::from_ms(100), Span::from_ms(1000))];
        let settings = Settings {
            impairments: vec![(down, Impairment { outages, ..Impairment::default() })],
            ..Settings::default()
        };
        let before = distances(&topology, |_| true);
        let during = distances(&topology, |link| link != down);
        let hosts = topology.hosts();
        let mut fabric = Fabric::with_settings(topology, &settings).unwrap();
        let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
        let pairs: Vec<(u32, u32)> = pairs.filter(|(from, to)| from != to).collect();
        let mut undelivered = 0;
        for (expected, first) in [(&before, 0), (&during, 200), (&before, 1001)] {
            let mut time = Time::ZERO + Span::from_ms(first);
            for &(from, to) in &pairs {
                let links = links_between(&mut fabric, time, from, to);
                prop_assert_eq!(links, expected[from as usize][to as usize]);
                undelivered += u64::from(links.is_none());
                time += Span::from_us(100);
            }
        }
        let refused: u64 = fabric.statistics().iter().flatten().map(|way| way.failed).sum();
        prop_assert_eq!(fabric.unroutable() + refused, undelivered);
    }

    #[test]
    fn flows_keep_their_order_and_nothing_is_early(
        topology in any_topology(), seed in any::<u64>(), ecmp in any::<bool>(),
    ) {
        let hosts = topology.hosts();
        let settings = Settings {
            routing: if ecmp { Routing::Ecmp } else { Routing::Shortest },
            seed,
            impairments: (0..topology.links().len() as u32)
                .map(|link| (link, Impairment {
                    loss: 0.02, jitter: Span::from_us(20), outages: vec![],
                }))
                .collect(),
            ..Settings::default()
        };
        let mut fabric = Fabric::with_settings(topology, &settings).unwrap();
        let least = fabric.lookahead();
        let mut sent = Vec::new();
        for number in 0..400_u32 {
            let (from, to) = (number % hosts, (number / hosts) % hosts);
            let time = Time::from_ps(u64::from(number / hosts) * 900_000);
            sent.push(time);
            fabric.send(time, from, u64::from(number), datagram(from, to, 0, number));
        }
        let mut last = std::collections::BTreeMap::new();
        let mut arrived: Vec<Delivery> = fabric.advance(Time::MAX).collect();
        arrived.sort_by_key(|delivery| (delivery.host, delivery.time));
        for delivery in arrived {
            let number = number_of(&delivery.frame);
            prop_assert!(delivery.time >= sent[number as usize] + least);
            let before = last.insert((number % hosts, delivery.host), number);
            prop_assert!(before.is_none_or(|before| before < number));
        }
    }

    #[test]
    fn how_time_is_cut_changes_nothing_in_trouble(
        topology in any_topology(), seed in any::<u64>(), step in 200_000_u64..2_000_000,
    ) {
        let traffic = traffic(topology.hosts(), 200);
        let end = Time::ZERO + MILLISECOND;
        let settings = troubled(&topology, seed);
        let outcome = |step| {
            let mut fabric = Fabric::with_settings(topology.clone(), &settings).unwrap();
            fabric.watch(0);
            run(&mut fabric, &traffic, step, end)
        };
        let least = topology.hop();
        let finely = outcome(Span::from_ps(step).min(least));
        let coarsely = outcome(least);
        prop_assert_eq!(&finely.0, &coarsely.0);
        prop_assert_eq!(&finely.1, &coarsely.1);
        prop_assert_eq!(&finely.2, &coarsely.2);
        prop_assert_eq!(&finely.3, &coarsely.3);
    }

    #[test]
    fn a_saved_network_goes_on_as_if_nothing_had_been(
        topology in any_topology(), seed in any::<u64>(), cut in 0..700_u64,
    ) {
        let traffic = traffic(topology.hosts(), 200);
        let settings = troubled(&topology, seed);
        let make = || {
            let mut fabric = Fabric::with_settings(topology.clone(), &settings).unwrap();
            fabric.watch(0);
            fabric
        };
        let step = topology.hop();
        let end = Time::ZERO + MILLISECOND;
        let expected = run(&mut make(), &traffic, step, end);

        let mut outcome: Outcome = Default::default();
        let mut fabric = make();
        let mut now = Time::ZERO;
        let mut rounds = 0;
        while now < end {
            if rounds == cut {
                let bytes = encode(&fabric.save()).unwrap();
                let state: FabricState = decode(&bytes).unwrap();
                fabric = make();
                fabric.restore(state.clone()).unwrap();
                prop_assert_eq!(fabric.save(), state);
            }
            go_on(&mut fabric, &traffic, now, now + step, &mut outcome);
            now += step;
            rounds += 1;
        }
        conclude(&mut fabric, &mut outcome);
        prop_assert_eq!(outcome, expected);
    }
}

#[test]
fn records_add_up_to_the_totals() {
    let topology = Topology::star(
        9,
        crate::net::LINK,
        belljar_fabric::SwitchSpec {
            queue_bytes: 400,
            ..crate::net::SWITCH
        },
    );
    let topology = topology.unwrap();
    let settings = Settings {
        seed: 4,
        impairments: vec![(
            2,
            Impairment {
                loss: 0.5,
                ..Impairment::default()
            },
        )],
        statistics: Some(Span::from_us(7)),
        ..Settings::default()
    };
    let mut fabric = Fabric::with_settings(topology, &settings).unwrap();
    let outcome = run(
        &mut fabric,
        &traffic(9, 200),
        Span::from_us(1),
        Time::ZERO + MILLISECOND,
    );
    let (totals, records) = (&outcome.2, &outcome.3);
    assert!(records.is_sorted_by_key(|record| (record.start, record.port)));
    let mut sums = vec![LinkStatistics::default(); totals.len() * 2];
    for LinkRecord { port, window, .. } in records {
        let sum = &mut sums[*port as usize];
        sum.frames += window.frames;
        sum.bytes += window.bytes;
        sum.drops += window.drops;
        sum.lost += window.lost;
        sum.failed += window.failed;
        sum.busy_ps += window.busy_ps;
        sum.longest_queue = sum.longest_queue.max(window.longest_queue);
        assert!(window.busy_ps <= 7_000_000 && window.queue <= window.longest_queue);
    }
    assert_eq!(sums, totals.as_flattened());
    let all = |count: fn(&LinkStatistics) -> u64| sums.iter().map(count).sum::<u64>();
    assert!(all(|way| way.drops) > 0 && all(|way| way.lost) > 0);
}

#[test]
fn a_state_of_another_network_is_refused() {
    let star = |hosts| Topology::star(hosts, crate::net::LINK, crate::net::SWITCH).unwrap();
    let state = Fabric::new(star(3)).save();
    let refused = Fabric::new(star(4)).restore(state.clone()).unwrap_err();
    assert!(
        refused.to_string().contains("3 links and the network 4"),
        "{refused}"
    );
    let watching = Settings {
        statistics: Some(MILLISECOND),
        ..Settings::default()
    };
    let mut other = Fabric::with_settings(star(3), &watching).unwrap();
    assert!(other.restore(state).is_err());
}

#[test]
fn damaged_states_are_refused() {
    let make = || {
        let settings = Settings {
            statistics: Some(MILLISECOND),
            ..Settings::default()
        };
        let star = Topology::star(3, crate::net::LINK, crate::net::SWITCH).unwrap();
        Fabric::with_settings(star, &settings).unwrap()
    };
    let mut fabric = make();
    for host in 0..3 {
        fabric.send(Time::ZERO, host, 0, datagram(host, (host + 1) % 3, 0, 0));
    }
    fabric.advance(Time::ZERO + Span::from_us(1)).for_each(drop);
    // Fixed-length integers, so that a word of ones covers whole fields.
    let config = bincode::config::standard().with_fixed_int_encoding();
    let sound = bincode::by_serde::encode_to_vec(fabric.save(), config).unwrap();
    let mut refused = 0;
    // A word of ones anywhere: a length, a count, a time, a host's number.
    for at in 0..sound.len() - 8 {
        let mut damaged = sound.clone();
        damaged[at..at + 8].fill(0xff);
        let limited = config.with_limit::<{ 1 << 20 }>();
        let Ok((state, _)) =
            bincode::by_serde::decode_from_slice::<FabricState, _>(&damaged, limited)
        else {
            continue;
        };
        let mut fabric = make();
        match fabric.restore(state) {
            Ok(()) => fabric.advance(Time::ZERO + MILLISECOND).for_each(drop),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100, "{refused}");
}
