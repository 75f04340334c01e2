//! Programs with communicators of groups and graphs, learned from small runs and generated at other sizes.

use std::path::Path;

use crate::programs::{call, learned, with, written};
use belljar_collectives::Tables;
use belljar_job::communicators;
use belljar_model::{MOST_CALLS, Model, generate};
use belljar_program::{Algorithms, extract};
use belljar_trace::{
    Amount, Collective, Event, Fact, GroupMembers, Making, NewCommunicator, Phase, WORLD,
};

/// A program: a rank's calls, out of a number of ranks.
type Program = fn(u32, u32) -> Vec<Event>;

/// The group of all, the group of a communicator, and that communicator, by the process's own numbers.
const ALL: u32 = 5;
const SOME: u32 = 6;
const NEW: u32 = 2;

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

/// All ranks create a group of these ranks.
fn groups(members: Vec<u32>) -> [Event; 2] {
    [
        with("MPI_Comm_group", group(ALL, GroupMembers::Of(WORLD))),
        with(
            "MPI_Group_incl",
            group(SOME, GroupMembers::Include(Some(ALL), members)),
        ),
    ]
}

/// One in four creates a communicator with its peers, as in programs with four ranks on each node; all call `MPI_Comm_create`.
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

/// Each half creates a communicator, which only its members call.
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

/// All ranks have the neighbours of a ring.
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

/// A group of arbitrary ranks.
fn arbitrary(rank: u32, ranks: u32) -> Vec<Event> {
    let is_member = |it: &u32| it * it % 7 == 2 || it * 5 % ranks < ranks / 3;
    let members: Vec<u32> = (0..ranks).filter(is_member).collect();
    let mut all = groups(members).to_vec();
    let how = Making::Create { group: Some(SOME) };
    all.push(with("MPI_Comm_create", made(how, is_member(&rank))));
    all
}

/// Returns by rank the members of the new communicator, in their order.
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
        // All operations on it are known.
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
