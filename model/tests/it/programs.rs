//! Programs made of events, written as traces and learned.

use std::fs::File;
use std::path::{Path, PathBuf};

use belljar_archive::{Contents, TraceWriter};
use belljar_collectives::Tables;
use belljar_model::{LearnError, Model, Traced, learn};
use belljar_program::{Algorithms, extract};
use belljar_replay::Calibration;
use belljar_sim::Frequency;
use belljar_trace::{Event, Fact, Implementation, Launch, TraceHeader, TraceSummary, WORLD};

/// Creates an empty call.
pub(crate) fn call(name: &str) -> Event {
    let function = belljar_mpi::FUNCTIONS.iter().position(|of| of.name == name);
    Event {
        node: 0,
        vcpu: 0,
        process: 0,
        thread: 0,
        rank: 0,
        implementation: Implementation::Mpich,
        function: function.expect("a function of MPI") as u16,
        entry: 0,
        exit: None,
        result: Some(0),
        depth: 0,
        selected: true,
        bad: None,
        arguments: Vec::new(),
        texts: Vec::new(),
        communicator: Some(WORLD),
        transfers: Vec::new(),
        collectives: Vec::new(),
        started: Vec::new(),
        completed: Vec::new(),
        status: None,
        fact: None,
        accounts: Default::default(),
        site: Default::default(),
        details: Default::default(),
        folded: Default::default(),
        given_up: Default::default(),
    }
}

/// Creates a call with a fact about an object.
pub(crate) fn with(name: &str, fact: Fact) -> Event {
    Event {
        fact: Some(fact),
        ..call(name)
    }
}

/// Writes the trace of a program with this number of ranks.
pub(crate) fn written(
    folder: &Path,
    program: impl Fn(u32, u32) -> Vec<Event>,
    ranks: u32,
) -> PathBuf {
    let path = folder.join(format!("{ranks}.bjt"));
    let file = File::create(&path).unwrap();
    let clock = Frequency::from_hz(1_000_000_000).unwrap();
    let header = TraceHeader::new("program", &vec![clock; ranks as usize]);
    let contents = Contents {
        accounted: false,
        frames: 1,
    };
    let mut writer = TraceWriter::over(file, &path, &header, contents).unwrap();
    let launch = Fact::Launch(Launch {
        name: Some("groups".to_owned()),
        size: Some(ranks),
    });
    let mut events = Vec::new();
    for rank in 0..ranks {
        let begin = with("MPI_Init", launch.clone());
        let own = program(rank, ranks);
        let all = [begin].into_iter().chain(own).chain([call("MPI_Finalize")]);
        events.extend((1..).zip(all).map(|(at, event)| Event {
            node: rank,
            rank,
            entry: at * 1000,
            exit: Some(at * 1000 + 200),
            ..event
        }));
    }
    events.sort_by_key(|event| (event.exit, event.node));
    for event in events {
        writer.push(event).unwrap();
    }
    let summary = TraceSummary {
        nodes: Vec::new(),
        ending: "well".to_owned(),
    };
    writer.finish(&summary).unwrap();
    path
}

/// Learns the model of runs with these numbers of ranks.
pub(crate) fn learned(
    folder: &Path,
    program: impl Fn(u32, u32) -> Vec<Event> + Copy,
    sizes: &[u32],
) -> Result<Model, LearnError> {
    let tables = Tables::open_mpi();
    let runs = sizes.iter().map(|ranks| {
        let trace = written(folder, program, *ranks);
        let (program, _) = extract(&trace, Algorithms::By(&tables)).unwrap();
        let calibration = Calibration::own(&program);
        (trace, program, calibration)
    });
    let runs: Vec<_> = runs.collect();
    let traced: Vec<Traced<'_>> = runs
        .iter()
        .map(|(trace, program, calibration)| Traced {
            trace,
            program,
            calibration,
            size: 1.0,
        })
        .collect();
    learn(&traced, None)
}
