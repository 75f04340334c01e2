//! Stand-ins for real programs, learned from small runs and generated at another size, with a comparison message by message.

/// Programs whose partners follow from bits and halves.
mod exchanges;
/// Programs whose processes are a grid.
mod grids;
/// One process of a program.
mod process;

use std::path::Path;

use crate::programs::{learned, written};
use belljar_archive::TraceReader;
use belljar_collectives::Tables;
use belljar_model::{MOST_CALLS, Model, generate};
use belljar_program::{Algorithms, extract};
use belljar_trace::{Event, Peer};

/// A call without times: its function, and each message's and collective operation's peer, tag and bytes.
type Done = (&'static str, Vec<(Option<Peer>, Option<i32>, u64)>);

/// A program's calls: of a rank, out of a number of ranks, with or without call sites.
type Application = fn(u32, u32, bool) -> Vec<Event>;

/// Returns the calls of each rank.
fn done(trace: &Path, ranks: u32) -> Vec<Vec<Done>> {
    let mut all = vec![Vec::new(); ranks as usize];
    for event in TraceReader::open(trace).unwrap() {
        let transfers = event.transfers.iter();
        let transfers = transfers.map(|it| (Some(it.peer), it.tag, it.bytes));
        let collectives = event.collectives.iter();
        let collectives = collectives.map(|it| (it.root, None, it.sent.bytes.unwrap_or(0)));
        let moved = transfers.chain(collectives).collect();
        all[event.rank as usize].push((event.name(), moved));
    }
    all
}

/// Returns the warnings of the trace of this size, generated from runs of `sizes`, or the error; the trace must equal the program's
/// own.
fn made(of: Application, sites: bool, sizes: &[u32], ranks: u32) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().unwrap();
    let program = |rank, ranks| of(rank, ranks, sites);
    let model = learned(folder.path(), program, sizes).map_err(|it| it.to_string())?;
    let model = Model::load(&model.save().unwrap()).unwrap();
    let made = generate(&model, ranks, 1.0, MOST_CALLS).map_err(|it| it.to_string())?;
    let warnings = made.warnings.clone();
    let path = folder.path().join("made.bjt");
    made.write(&path).unwrap();
    let should = written(folder.path(), program, ranks);
    let (is, should) = (done(&path, ranks), done(&should, ranks));
    for (rank, (is, should)) in is.iter().zip(&should).enumerate() {
        for (call, (is, should)) in is.iter().zip(should).enumerate() {
            assert_eq!(is, should, "rank {rank}, call {call}: {warnings:?}");
        }
        assert_eq!(is.len(), should.len(), "rank {rank}: {warnings:?}");
    }
    let (program, _) = extract(&path, Algorithms::By(&Tables::open_mpi())).unwrap();
    assert_eq!(program.unknown, Default::default());
    Ok(warnings)
}

/// Compares a program's trace of this size with the model's, with and without call sites.
fn is_known(of: Application, sizes: &[u32], ranks: u32) {
    for sites in [true, false] {
        let warnings = made(of, sites, sizes, ranks);
        let warnings = warnings.unwrap_or_else(|error| panic!("with sites {sites}: {error}"));
        let said = |words: &str| warnings.iter().any(|it| it.contains(words));
        assert!(said("beyond the runs"), "{warnings:?}");
        assert!(!said("its own run"), "{warnings:?}");
    }
}

#[test]
fn wavefronts_of_lu_in_grids_that_are_no_squares() {
    is_known(grids::lu, &[4, 8, 16], 32);
    is_known(grids::lu, &[4, 8, 16, 32], 64);
}

#[test]
fn points_that_no_grid_divides_evenly() {
    is_known(grids::lu_uneven, &[8, 16, 32], 64);
}

#[test]
fn multi_partitions_of_bt_and_sp_in_squares() {
    is_known(grids::bt, &[4, 9], 16);
    is_known(grids::bt, &[4, 9, 16], 25);
    is_known(grids::sp, &[4, 9, 16, 25], 36);
}

#[test]
fn halves_and_transposes_of_cg() {
    is_known(exchanges::cg, &[4, 8, 16], 32);
}

#[test]
fn levels_of_mg_in_tori() {
    is_known(exchanges::mg, &[8, 16, 32, 64], 128);
}

#[test]
fn faces_edges_and_corners_of_lulesh() {
    is_known(grids::lulesh, &[8, 27], 64);
}

#[test]
fn octants_of_sweep3d() {
    is_known(grids::sweep3d, &[4, 8, 16], 32);
}

#[test]
fn transposes_of_ft() {
    is_known(exchanges::ft, &[4, 8, 16], 32);
}

#[test]
fn a_master_with_workers_is_refused_by_name() {
    for sites in [true, false] {
        let error = made(exchanges::master, sites, &[4, 8, 16], 32).unwrap_err();
        assert!(error.contains("a master with workers"), "{error}");
    }
}

#[test]
fn ranks_that_no_run_has_are_refused() {
    // A grid of two columns has no inner rank.
    let error = made(grids::lu, true, &[4, 8], 16).unwrap_err();
    assert!(error.contains("have no rank like rank"), "{error}");
}

#[test]
fn lengths_of_a_grid_that_no_run_varies_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = |rank, ranks| grids::lu(rank, ranks, false);
    let model = learned(folder.path(), program, &[16, 32]).unwrap();
    for (ranks, expected) in [(32.0, false), (64.0, true)] {
        let doubts = model.doubts(ranks, 1.0);
        let said = doubts
            .iter()
            .any(|it| it.contains("4 ranks in all runs and 8 here"));
        assert_eq!(said, expected, "{ranks}: {doubts:?}");
    }
}

/// The runs of two programs, in separate files.
fn mixed(rank: u32, ranks: u32) -> Vec<Event> {
    match ranks {
        4 => grids::lu(rank, ranks, true),
        _ => process::in_file(exchanges::ft(rank, ranks, true), "another"),
    }
}

#[test]
fn runs_of_different_programs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = learned(folder.path(), mixed, &[4, 8])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("runs of different programs, program and another")
            && error.contains("8.bjt alone calls MPI_Alltoall, MPI_Reduce"),
        "{error}"
    );
    // Builds of one program that call the same functions count as one program, with a warning.
    let builds = |rank, ranks| match ranks {
        4 => exchanges::ft(rank, ranks, true),
        _ => process::in_file(exchanges::ft(rank, ranks, true), "another"),
    };
    let model = learned(folder.path(), builds, &[4, 8]).unwrap();
    let said = |it: &String| it.contains("they are taken for builds of one program");
    assert!(model.warnings.iter().any(said), "{:?}", model.warnings);
}

/// A ring with message lengths that follow no rule of ranks.
fn irregular(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    let length = |rank: u32| u64::from((rank * rank * 37 + ranks * 11 + rank * 5) % 97 + 1);
    let mut own = process::Process::new(sites);
    let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    for _ in 0..3 {
        own.irecv(1, Some(last), 1, 200);
        own.send(2, Some(next), 1, length(rank));
        own.wait(3);
    }
    own.done()
}

#[test]
fn values_that_follow_no_rule_are_said_with_their_run() {
    for sites in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let program = |rank, ranks| irregular(rank, ranks, sites);
        let model = learned(folder.path(), program, &[4, 8, 16]).unwrap();
        for ranks in [4, 8, 16] {
            let words = format!("its own run of {ranks} ranks again: bytes of MPI_Send differ in");
            let said = model.warnings.iter().any(|it| it.contains(&words));
            assert!(said, "{ranks}: {:?}", model.warnings);
        }
        // Each answer repeats it.
        let doubts = model.doubts(8.0, 1.0);
        assert!(
            doubts.iter().any(|it| it.contains("its own run")),
            "{doubts:?}"
        );
    }
}
