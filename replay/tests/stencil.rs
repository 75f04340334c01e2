//! A generated trace of a stencil, as a program and as a replay.

use belljar_analysis::generated::Stencil;
use belljar_archive::TraceWriter;
use belljar_collectives::Tables;
use belljar_fabric::{LinkSpec, Settings, SwitchSpec, Topology};
use belljar_program::{Algorithms, Operation, Program, Unknown, extract};
use belljar_replay::{Costs, NetworkModel, Setting, calibrate, replay, write_trace};
use belljar_sim::{Frequency, Span};
use belljar_trace::{Implementation, TraceState, TraceSummary};
use tempfile::TempDir;

const STENCIL: Stencil = Stencil {
    width: 4,
    height: 3,
    steps: 7,
    rounds: 2,
    report: 3,
};

/// Writes the trace to a folder.
fn traced() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.bjt");
    let mut writer = TraceWriter::create(&path, &STENCIL.header(), false).unwrap();
    for event in STENCIL.events() {
        writer.push(event).unwrap();
    }
    let summary = TraceSummary {
        nodes: Vec::new(),
        ending: String::new(),
    };
    writer.finish(&summary).unwrap();
    folder
}

/// The program, with Open MPI's rules for collective operations.
fn program(folder: &TempDir) -> Program {
    let path = folder.path().join("trace.bjt");
    let tables = Tables::open_mpi();
    let (program, state) = extract(&path, Algorithms::By(&tables)).unwrap();
    assert_eq!(state, TraceState::Complete);
    program
}

fn setting(latency: Span) -> Setting {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency,
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    let ranks = STENCIL.ranks();
    let topology = Topology::star(ranks, link, switch).unwrap();
    Setting {
        network: NetworkModel::Flow(topology, Settings::default()),
        costs: Costs::of(Implementation::Mpich),
        clocks: vec![Frequency::from_hz(1_000_000_000).unwrap()],
        hosts: (0..ranks).collect(),
        scale: 1.0,
    }
}

#[test]
fn a_program_has_all_that_the_trace_has() {
    let folder = traced();
    let program = program(&folder);
    assert_eq!(program.processes.len(), STENCIL.ranks() as usize);
    assert_eq!(program.calls(), STENCIL.calls());
    let neighbors = |rank| STENCIL.neighbors(rank).len() as u64;
    let halos: u64 = (0..STENCIL.ranks()).map(neighbors).sum();
    assert_eq!(program.messages(), halos * STENCIL.steps);
    assert_eq!(program.unknown, Unknown::default());
    let mut left = vec![0i64; program.channels.len()];
    for operation in program.threads.iter().flat_map(|it| &it.operations) {
        match operation {
            Operation::Send { channel, bytes, .. } => {
                assert_eq!(*bytes, 8192);
                left[*channel as usize] += 1;
            }
            Operation::Receive { channel, .. } => left[*channel as usize] -= 1,
            _ => {}
        }
    }
    assert!(left.iter().all(|left| *left == 0), "{left:?}");
}

#[test]
fn more_latency_takes_longer_and_nothing_is_stuck() {
    let folder = traced();
    let program = program(&folder);
    let near = setting(Span::from_us(1));
    let calibration = calibrate(&program, &near).unwrap();
    let mut before = 0;
    for us in [1, 10, 100, 1000] {
        let wanted = setting(Span::from_us(us));
        let outcome = replay(&program, &calibration, &wanted, || true).unwrap();
        assert!(outcome.stuck.is_empty(), "{:?}", outcome.stuck);
        assert!(outcome.total_ps >= before, "{us} us");
        before = outcome.total_ps;
        // Each step has a halo, and then two reductions.
        let least = STENCIL.steps * 3 * 2 * us * 1_000_000;
        assert!(outcome.total_ps >= least, "{us} us: {}", outcome.total_ps);
    }
}

#[test]
fn a_replay_is_a_trace_of_its_own() {
    let folder = traced();
    let first = program(&folder);
    let near = setting(Span::from_us(1));
    let calibration = calibrate(&first, &near).unwrap();
    let far = setting(Span::from_us(50));
    let outcome = replay(&first, &calibration, &far, || true).unwrap();
    let (from, to) = ("trace.bjt", "replayed.bjt");
    let [from, to] = [from, to].map(|name| folder.path().join(name));
    write_trace(&from, &to, &first, &outcome).unwrap();
    let (again, state) = extract(&to, Algorithms::By(&Tables::open_mpi())).unwrap();
    assert_eq!(state, TraceState::Complete);
    assert_eq!(again.calls(), first.calls());
    for (thread, times) in again.threads.iter().zip(&outcome.times) {
        for (was, is) in thread.traced().zip(times) {
            // Times of a trace are whole cycles, here nanoseconds.
            assert!(was.0.abs_diff(is.0) <= 1000 && was.1.abs_diff(is.1) <= 1000);
        }
    }
}

#[test]
fn what_is_broken_off_is_of_the_calls_before() {
    let folder = traced();
    let program = program(&folder);
    let setting = setting(Span::from_us(2));
    let calibration = calibrate(&program, &setting).unwrap();
    let mut calls = 0;
    let part = replay(&program, &calibration, &setting, || {
        calls += 1;
        calls < 40
    });
    let part = part.unwrap();
    let whole = replay(&program, &calibration, &setting, || true).unwrap();
    assert!(part.broken_off && part.stuck.is_empty());
    let returned: usize = part.times.iter().map(Vec::len).sum();
    assert!(returned > 0 && returned < 40, "{returned}");
    assert!(part.total_ps < whole.total_ps && !whole.broken_off);
    for (part, whole) in part.times.iter().zip(&whole.times) {
        assert_eq!(part, &whole[..part.len()]);
    }
}
