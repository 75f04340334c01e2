//! Programs with communicators of groups and graphs, learned from small runs and made again at other sizes.

use std::fs::File;
use std::path::{Path, PathBuf};

use belljar_archive::{Contents, TraceWriter};
use belljar_collectives::Tables;
use belljar_job::communicators;
use belljar_model::{LearnError, MOST_CALLS, Model, Traced, generate, learn};
use belljar_program::{Algorithms, extract};
use belljar_replay::Calibration;
use belljar_sim::Frequency;
use belljar_trace::{
    Amount, Collective, Event, Fact, GroupMembers, Implementation, Launch, Making, NewCommunicator,
    Phase, TraceHeader, TraceSummary, WORLD,
};

/// The group of all, the one that a communicator is made of, and that communicator, by the process's own numbers.
const ALL: u32 = 5;
const SOME: u32 = 6;
const NEW: u32 = 2;

/// A program: a rank's calls, of so many.
type Program = fn(u32, u32) -> Vec<Event>;

/// A call without anything.
fn call(name: &str) -> Event {
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

fn allreduce(communicator: u32) -> Event {
    let whole = || Amount::whole(Some(8));
    Event {
        communicator: Some(communicator),
        collectives: vec![Collective {
            operation: Some(belljar_mpi::Operation::Allreduce),
            phase: Phase::Done,
            communicator: Some(communicator),
            root: None,
            sent: whole(),
            received: whole(),
        }],
        ..call("MPI_Allreduce")
    }
}

fn with(name: &str, fact: Fact) -> Event {
    Event {
        fact: Some(fact),
        ..call(name)
    }
}

fn group(number: u32, members: GroupMembers) -> Fact {
    Fact::Group { number, members }
}

fn made(how: Making, is_member: bool) -> Fact {
    Fact::Communicator(NewCommunicator {
        number: is_member.then_some(NEW),
        parent: Some(WORLD),
        sequence: 0,
        how,
    })
}

/// All make a group of these ranks.
fn groups(members: Vec<u32>) -> [Event; 2] {
    [
        with("MPI_Comm_group", group(ALL, GroupMembers::Of(WORLD))),
        with(
            "MPI_Group_incl",
            group(SOME, GroupMembers::Include(Some(ALL), members)),
        ),
    ]
}

/// One in four makes a communicator with its like, as programs do whose nodes have four ranks; `MPI_Comm_create` is called by all.
fn leaders(rank: u32, ranks: u32) -> Vec<Event> {
    let is_member = rank.is_multiple_of(4);
    let mut all = groups((0..ranks).step_by(4).collect()).to_vec();
    let how = Making::Create { group: Some(SOME) };
    all.push(with("MPI_Comm_create", made(how, is_member)));
    if is_member {
        all.extend([allreduce(NEW), allreduce(NEW)]);
    }
    all.push(allreduce(WORLD));
    all
}

/// Each half makes a communicator of its own, which only its members call.
fn halves(rank: u32, ranks: u32) -> Vec<Event> {
    let half = ranks / 2;
    let from = rank / half * half;
    let mut all = groups((from..from + half).collect()).to_vec();
    let group = Some(SOME);
    let how = Making::CreateGroup { group, tag: 7 };
    all.push(with("MPI_Comm_create_group", made(how, true)));
    all.push(allreduce(NEW));
    all
}

/// All have the neighbours of a ring.
fn graph(_rank: u32, _ranks: u32) -> Vec<Event> {
    let how = Making::DistGraphAdjacent {
        sources: 1,
        destinations: 2,
    };
    vec![
        with("MPI_Dist_graph_create_adjacent", made(how, true)),
        allreduce(NEW),
    ]
}

/// A group of ranks that are no function of anything.
fn arbitrary(rank: u32, ranks: u32) -> Vec<Event> {
    let is_member = |it: &u32| it * it % 7 == 2 || it * 5 % ranks < ranks / 3;
    let members: Vec<u32> = (0..ranks).filter(is_member).collect();
    let mut all = groups(members).to_vec();
    let how = Making::Create { group: Some(SOME) };
    all.push(with("MPI_Comm_create", made(how, is_member(&rank))));
    all
}

/// The trace of a program of so many ranks.
fn written(folder: &Path, program: Program, ranks: u32) -> PathBuf {
    let path = folder.join(format!("{ranks}.bjt"));
    let file = File::create(&path).unwrap();
    let clock = Frequency::from_hz(1_000_000_000).unwrap();
    let header = TraceHeader::new("groups", &vec![clock; ranks as usize]);
    let contents = Contents {
        accounted: false,
        frames: 0,
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

fn learned(folder: &Path, program: Program, sizes: &[u32]) -> Result<Model, LearnError> {
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

/// By rank, the members of the new communicator, in their order.
fn members(trace: &Path, ranks: u32) -> Vec<Option<Vec<u32>>> {
    let known = communicators(trace).unwrap();
    let of = |rank| {
        let members = known.members((rank, 0), NEW)?;
        Some(members.iter().map(|member| member.rank).collect())
    };
    (0..ranks).map(of).collect()
}

#[test]
fn members_that_are_functions_of_rank_and_size_are_those_of_other_sizes() {
    let programs: [(Program, &[u32], u32); 3] = [
        (leaders, &[8, 16, 24], 48),
        (halves, &[4, 8, 16], 26),
        (graph, &[4, 8, 16], 26),
    ];
    for (program, sizes, ranks) in programs {
        let folder = tempfile::tempdir().unwrap();
        let model = learned(folder.path(), program, sizes).unwrap();
        let model = Model::load(&model.save().unwrap()).unwrap();
        let made = generate(&model, ranks, 1.0, MOST_CALLS).unwrap();
        let path = folder.path().join("made.bjt");
        made.write(&path).unwrap();
        let should = written(folder.path(), program, ranks);
        let (is, should) = (members(&path, ranks), members(&should, ranks));
        assert!(should.iter().any(Option::is_some));
        assert_eq!(is, should);
        // Nothing of what is done on it is unknown.
        let (program, _) = extract(&path, Algorithms::By(&Tables::open_mpi())).unwrap();
        assert_eq!(program.unknown, Default::default());
    }
}

#[test]
fn members_that_follow_no_rule_are_an_error_that_names_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let model = learned(folder.path(), arbitrary, &[9, 13, 17]);
    let told = model.unwrap_err().to_string();
    assert!(
        told.contains("MPI_Comm_create without getting one"),
        "{told}"
    );
}
