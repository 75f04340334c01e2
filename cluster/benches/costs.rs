//! Costs of other hosts for one host of a run, measured alone: per node of the run, per frame
//! of any node, and per message. `cargo xtask bench hosts` reads its output, lines of `NAME
//! VALUE UNIT`; `docs/scaling.md` explains their use.
//!
//! The benchmark measures host time.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs
)]

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use belljar_cluster::run::bounds::{Bounds, InTransit};
use belljar_fabric::{
    Distances, Endpoint, Fabric, FatTree, Frame, LinkSpec, Mac, PartSpecs, Routes, Routing,
    SwitchSpec, Topology,
};
use belljar_lossless::{CardDelays, Flow, Lossless};
use belljar_peers::{Incoming, Listener, Mesh, RunKey, Settings};
use belljar_sim::{Random, Seed, Span, Time, decode, encode};
use serde_bytes::ByteBuf;

/// Nodes of the run that the figures are for, and hosts that run them.
const NODES: u32 = 10_000;
const HOSTS: u32 = 64;
/// Bytes of an Ethernet frame of full length.
const FRAME: usize = 1514;

fn main() {
    bookkeeping();
    told();
    frame_heard();
    frames("star", Topology::star(NODES, link(), switch()).unwrap());
    let tree = FatTree::for_hosts(NODES).unwrap();
    let parts = PartSpecs {
        link: link(),
        uplink: link(),
        switch: switch(),
    };
    frames("fat-tree", tree.build(NODES, &parts).unwrap());
    packets("star", Topology::star(36, link(), switch()).unwrap());
    let tree = FatTree::for_hosts(1_000).unwrap();
    packets("fat-tree", tree.build(1_000, &parts).unwrap());
    messages();
}

fn link() -> LinkSpec {
    LinkSpec {
        bandwidth: 100_000_000_000,
        latency: Span::from_us(1),
    }
}

fn switch() -> SwitchSpec {
    SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    }
}

fn tell(name: &str, value: f64, unit: &str) {
    println!("{name} {value:.3} {unit}");
}

/// A round's computation of bounds, with all nodes busy, per node of the run.
fn bookkeeping() {
    const ROUNDS: u64 = 2_000;
    let topology = Topology::star(NODES, link(), switch()).unwrap();
    let distances = Distances::new(&topology);
    let lookahead = distances.nearest(0);
    let mut bounds = Bounds::new(distances, NODES);
    for node in NODES / HOSTS..NODES {
        bounds.leave(node);
    }
    let mut turns = Vec::new();
    let mut taken = 0;
    let start = Instant::now();
    for round in 0..ROUNDS {
        let now = Time::ZERO + Span::from_ps(lookahead.as_ps() * round);
        bounds.set((round % u64::from(NODES)) as u32, now);
        // As a run's round does: before the network advances, for the turns, and after them.
        black_box(bounds.settled(InTransit::default()));
        bounds.turns(InTransit::default(), Time::MAX, false, &mut turns);
        black_box(bounds.first());
        taken += turns.len();
    }
    let each = nanoseconds(start) / ROUNDS as f64 / f64::from(NODES);
    assert!(taken > 0, "nobody ever had a turn");
    tell("node-round", each, "ns for each node and round");
}

/// Takes in the progress of another host's node, as in `hosts/message.rs`.
fn told() {
    const TIMES: u64 = 500;
    let share = NODES / HOSTS;
    let mut heard = vec![Time::ZERO; NODES as usize];
    let mut spent = 0.0;
    for round in 1..=TIMES {
        let time = Time::from_ps(round * 1_000_000_007);
        let nodes: Vec<(u32, Time, u64)> = (0..share).map(|node| (node, time, round)).collect();
        let message = encode(&nodes).unwrap();
        let start = Instant::now();
        let nodes: Vec<(u32, Time, u64)> = decode(&message).unwrap();
        for (node, next, _) in nodes {
            heard[node as usize] = next;
        }
        spent += nanoseconds(start);
    }
    assert!(heard[0] > Time::ZERO);
    let each = spent / (TIMES * u64::from(share)) as f64;
    tell("node-told", each, "ns for each node told of");
}

/// Takes in a frame of another host's node.
fn frame_heard() {
    const MESSAGES: u64 = 200;
    const FRAMES: u64 = 100;
    let mut spent = 0.0;
    for message in 0..MESSAGES {
        let frame = |sequence| {
            (
                Time::from_ps(message),
                7_u32,
                sequence,
                ByteBuf::from(vec![0xa5_u8; FRAME]),
            )
        };
        let sends: Vec<_> = (0..FRAMES).map(frame).collect();
        let bytes = encode(&sends).unwrap();
        let start = Instant::now();
        let heard: Vec<(Time, u32, u64, ByteBuf)> = decode(&bytes).unwrap();
        for (_, _, _, frame) in heard {
            black_box(Frame::from(frame.into_vec()));
        }
        spent += nanoseconds(start);
    }
    let each = spent / (MESSAGES * FRAMES) as f64;
    tell("frame-heard", each, "ns for each frame told of");
}

/// Full-length frames between random nodes, through the whole network with known routes.
fn frames(name: &str, topology: Topology) {
    const FRAMES: u64 = 200_000;
    let settings = belljar_fabric::Settings {
        routing: Routing::Ecmp,
        ..Default::default()
    };
    let mut fabric = Fabric::with_settings(topology, &settings).unwrap();
    let mut random = Random::new(Seed(1), "costs", 0);
    let mut node = || (random.next_u64() % u64::from(NODES)) as u32;
    let frames: Vec<(u32, Frame)> = (0..FRAMES)
        .map(|_| {
            let (from, to) = (node(), node());
            let mut bytes = vec![0; FRAME];
            bytes[..6].copy_from_slice(&Mac::of_host(to).0);
            bytes[6..12].copy_from_slice(&Mac::of_host(from).0);
            (from, bytes.into())
        })
        .collect();
    let mut pass = |first: u64| {
        let start = Instant::now();
        let mut arrived = 0;
        for (sequence, (from, frame)) in (first..).zip(&frames) {
            // Some thousand are in flight at once.
            let time = Time::ZERO + Span::from_ns(sequence);
            fabric.send(time, *from, sequence, frame.clone());
            arrived += fabric.advance(time).count() as u64;
        }
        (arrived, nanoseconds(start) / FRAMES as f64)
    };
    pass(0);
    let (arrived, each) = pass(FRAMES);
    assert!(arrived > FRAMES * 9 / 10, "{arrived} frames arrived");
    tell(&format!("frame-{name}"), each, "ns for each frame");
}

/// Packets of InfiniBand with 2 KiB of data between random nodes, through each of their switches.
fn packets(name: &str, topology: Topology) {
    const PACKETS: u64 = 200_000;
    const BYTES: usize = 2_074;
    let hosts = topology.hosts();
    let delays = CardDelays {
        before: Span::from_ns(60),
        after: Span::from_ns(260),
        bus: 114_000_000_000,
    };
    let flow = Flow {
        buffer: 1 << 16,
        lanes: 1,
        gap: Span::ZERO,
    };
    let routes = Routes {
        routing: Routing::DModK,
        ..Routes::default()
    };
    let mut fabric = Lossless::new(topology, &routes, delays, flow).unwrap();
    let mut random = Random::new(Seed(1), "costs", 1);
    let mut node = || (random.next_u64() % u64::from(hosts)) as u16;
    let packets: Vec<(u16, Vec<u8>)> = (0..PACKETS)
        .map(|_| {
            let (from, to) = (node(), node());
            let mut bytes = vec![0; BYTES];
            bytes[2..4].copy_from_slice(&(to + 1).to_be_bytes());
            bytes[6..8].copy_from_slice(&(from + 1).to_be_bytes());
            (from, bytes)
        })
        .collect();
    let pass = |fabric: &mut Lossless, begin: Time| {
        let start = Instant::now();
        for (sequence, (from, packet)) in (0..).zip(&packets) {
            // Half of what the nodes' links carry.
            let time = begin + Span::from_ns(332 * sequence / u64::from(hosts));
            fabric.send(time, u32::from(*from), sequence, packet.clone());
            black_box(fabric.advance(time));
        }
        black_box(fabric.advance(begin + Span::from_ms(100)));
        nanoseconds(start)
    };
    pass(&mut fabric, Time::ZERO);
    let before = hops(&fabric);
    let took = pass(&mut fabric, Time::ZERO + Span::from_ms(100));
    let switches = hops(&fabric) - before;
    let each = took / switches as f64;
    tell(
        &format!("packet-{name}"),
        each,
        "ns for each packet and switch",
    );
}

/// Packets that switches have sent.
fn hops(fabric: &Lossless) -> u64 {
    let links = fabric.topology().links().iter().zip(fabric.figures());
    let of_switch = links.flat_map(|(link, figures)| {
        let ends = link.ends.into_iter().zip(figures);
        ends.filter(|(end, _)| matches!(end, Endpoint::Switch(_)))
    });
    of_switch.map(|(_, port)| port.packets).sum()
}

/// The round trip of a message between two hosts on one machine, over its loopback: its
/// duration and its processor time. For a large message, both per byte.
fn messages() {
    const LAPS: u32 = 20_000;
    let (here, there) = pair();
    let echo = thread::spawn(move || {
        // Ends with the other host.
        while let Some(message) = hear(&there) {
            there.send(0, message).unwrap();
        }
    });
    let laps = |length: usize, laps: u32| {
        let mut sending = Duration::ZERO;
        let (busy, start) = (processor_time(), Instant::now());
        for _ in 0..laps {
            let message = vec![0; length];
            let sent = Instant::now();
            here.send(1, message).unwrap();
            sending += sent.elapsed();
            hear(&here).expect("the echo is there");
        }
        let of = |spent: Duration| spent.as_secs_f64() * 1e6 / f64::from(laps) / 2.0;
        [start.elapsed(), processor_time() - busy, sending * 2].map(of)
    };
    let [way, busy, sent] = laps(100, LAPS);
    tell("message-sent", sent, "us of the run's own thread");
    tell("message-way", way, "us from one host to the other");
    tell(
        "message",
        busy,
        "us of processor time for each message, both ends",
    );
    const LARGE: usize = 1 << 20;
    let [_, large, _] = laps(LARGE, LAPS / 100);
    let byte = (large - busy) * 1e3 / LARGE as f64;
    tell(
        "byte",
        byte,
        "ns of processor time for each byte sent, both ends",
    );
    drop(here);
    echo.join().unwrap();
}

/// The next message; `None` if the other host has ended.
fn hear(mesh: &Mesh) -> Option<Vec<u8>> {
    loop {
        match mesh.receive(Duration::from_secs(1)) {
            Some((_, Incoming::Message(message))) => return Some(message),
            Some((_, Incoming::Lost(_))) => return None,
            None => {}
        }
    }
}

fn pair() -> (Mesh, Mesh) {
    let key = RunKey::generate().unwrap();
    let listener = Listener::open().unwrap();
    let address = format!("localhost:{}", listener.port().unwrap());
    let addresses = [String::new(), address];
    let settings = Settings {
        gathering: Duration::from_secs(10),
        patience: Duration::from_secs(30),
    };
    let never = AtomicBool::new(false);
    let connect = |own, listener| Mesh::connect(own, &key, listener, &addresses, settings, &never);
    thread::scope(|scope| {
        let there = scope.spawn(|| connect(1, Some(listener)));
        (connect(0, None).unwrap(), there.join().unwrap().unwrap())
    })
}

/// Processor time of this process so far (proc_pid_stat(5), fields 14 and 15).
fn processor_time() -> Duration {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name may contain any characters; it ends at the last parenthesis.
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

fn nanoseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e9
}
