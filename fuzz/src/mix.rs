//! Saved states of simulations of many jobs: of constant flows, and of messages that contend.
//!
//! A state is refused, or the restored simulation ends without a panic. Called by name from `lib.rs`.

use std::sync::Arc;

use belljar_fabric::{LinkSpec, Routes, Routing, Settings, SwitchSpec, Topology};
use belljar_program::Builder;
use belljar_replay::{
    Calibration, Contention, ContentionState, Costs, Joined, NetworkModel, NextEnd, Setting,
};
use belljar_sim::{Frequency, Random, Seed, Span, decode, encode};
use belljar_simulate::{
    Anywhere, AsLong, Block, Easy, Fabric, Job, JobTraffic, Machine, Measures, MixState, Pattern,
    Policies, Simulation, SimulationStep,
};
use belljar_trace::Implementation;

const SECOND: u64 = 1_000_000_000;

/// Limit on calls for a job from a state, where each call handles at most some ten thousand events.
const PATIENCE: u32 = 64;

fn star() -> Topology {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 16,
    };
    Topology::star(4, link, switch).expect("a star of four")
}

/// Five jobs on four hosts.
fn jobs() -> Vec<Job> {
    let job = |(arrival, ranks, lasts, priority): (u64, u32, u64, i64)| Job {
        name: Arc::from("job"),
        arrival: arrival * SECOND,
        ranks,
        duration: lasts * SECOND,
        estimate: lasts * SECOND * 2,
        priority,
        run: None,
        traffic: Arc::new(JobTraffic::of(Pattern::Ring, ranks, 1_000_000_000)),
    };
    [
        (0, 3, 10, 0),
        (1, 4, 4, 1),
        (1, 2, 2, 0),
        (4, 1, 3, 2),
        (9, 1, 9, 0),
    ]
    .map(job)
    .to_vec()
}

fn policies(topology: &Topology) -> Policies {
    let routes = Routes {
        routing: Routing::Adaptive,
        seed: 1,
        tables: None,
    };
    Policies {
        scheduler: Box::new(Easy),
        selection: Box::new(Anywhere(Random::new(Seed(1), "hosts", 0))),
        mapping: Box::new(Block),
        router: Box::new(Fabric::new(topology, &routes).expect("a star has routes")),
    }
}

/// Restores a simulation of constant flows and runs it to its end.
pub(crate) fn matrix(data: &[u8]) {
    let Ok(state) = decode::<MixState>(data) else {
        return;
    };
    let (topology, jobs) = (star(), jobs());
    let mut simulation = simulation(&topology, &jobs);
    if simulation.restore(state).is_err() {
        return;
    }
    let mut progress = AsLong::of(&simulation);
    while simulation.step(&mut progress) != SimulationStep::Over {}
    let measures = Measures::of(&simulation.finish(), &jobs, topology.hosts());
    assert_eq!(measures.left, 0, "a job was forgotten");
}

fn simulation<'a>(topology: &'a Topology, jobs: &'a [Job]) -> Simulation<'a> {
    let machine = Machine {
        topology,
        slots: 1,
        snapshots: &[5 * SECOND],
    };
    Simulation::new(machine, jobs, policies(topology)).expect("all fit")
}

/// States after some steps.
pub(crate) fn matrix_seeds() -> Vec<Vec<u8>> {
    let (topology, jobs) = (star(), jobs());
    let mut simulation = simulation(&topology, &jobs);
    let mut progress = AsLong::of(&simulation);
    let mut seeds = Vec::new();
    for _ in 0..5 {
        seeds.push(encode(&simulation.save()).expect("plain values"));
        simulation.step(&mut progress);
    }
    seeds
}

/// Two jobs of two ranks that send each other messages.
fn contending() -> Joined {
    let mut builder = Builder::new(2);
    for tag in 0..4 {
        for (from, to) in [(0, 1), (1, 0)] {
            let sent = builder.send(from, to, tag, 10 + 20_000 * u64::from(tag.unsigned_abs()));
            let received = builder.receive(from, to, tag);
            builder.wait(from, received);
            builder.wait(from, sent);
            builder.call(from, "MPI_Sendrecv", 1_000_000);
        }
    }
    let program = builder.finish();
    let calibration = Calibration::own(&program);
    let mut joined = Joined::default();
    joined.add(&program, &calibration);
    joined.add(&program, &calibration);
    joined
}

fn setting(frames: bool) -> Setting {
    Setting {
        network: match frames {
            true => NetworkModel::Packet(star(), Settings::default()),
            false => NetworkModel::Flow(star(), Settings::default()),
        },
        costs: Costs::of(Implementation::Mpich),
        clocks: vec![Frequency::from_hz(2_000_000_000).expect("a frequency")],
        hosts: Vec::new(),
        scale: 1.0,
    }
}

/// Restores jobs that contend and replays them; the first byte selects the network.
pub(crate) fn messages(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let Ok(state) = decode::<ContentionState>(data) else {
        return;
    };
    let (joined, setting) = (contending(), setting(kind % 2 == 1));
    let mut contention = Contention::new(&joined, &setting).expect("all fit");
    if contention.restore(state).is_err() {
        return;
    }
    // An untrusted state may have a job that began already.
    contention.begin(1 << 40, 1, &[2, 3]);
    for _ in 0..PATIENCE {
        if contention.next_end(Some(1 << 50)) == NextEnd::Nothing {
            break;
        }
    }
    let _ = contention.links();
    let _ = contention.save();
}

/// States of both networks, at the beginning and in the middle.
pub(crate) fn messages_seeds() -> Vec<Vec<u8>> {
    let joined = contending();
    let mut seeds = Vec::new();
    for frames in [false, true] {
        let setting = setting(frames);
        let mut contention = Contention::new(&joined, &setting).expect("all fit");
        contention.begin(0, 0, &[0, 1]);
        for until in [0, 5_000_000, 10_000_000, 40_000_000, 100_000_000] {
            if contention.next_end(Some(until)) != NextEnd::Nothing {
                break;
            }
            let state = encode(&contention.save().expect("both can be saved"));
            let mut seed = vec![u8::from(frames)];
            seed.extend(state.expect("plain values"));
            seeds.push(seed);
        }
    }
    seeds
}
