//! Peers' own tests as ours: programs of others that test or measure MPI end on traced nodes as they
//! end on the host, and the trace has the calls and bytes that a profiling layer of the program's own
//! counted (`images/programs/peers`), by rank and function.
//!
//! A few programs are run by every `cargo xtask test`; the rest where [`LONG`] is set, as it is by
//! `cargo xtask test peers`.

mod applications;
mod counts;
mod jobs;
mod native;
mod suite;

use std::collections::BTreeSet;

use belljar_tests::{Dir, Outcome};

use counts::{Table, counted, differences, traced};
use jobs::{Job, Mpi, Needs, scenario, script};
use native::Native;

/// Set where the long tests are to run, too.
const LONG: &str = "BELLJAR_PEERS";
const IMAGE: &str = "bookworm-peers";
/// What has the few, and is built for other tests, too.
const SOME: &str = "bookworm-bindings";

/// Whether the long tests run; says so where they do not.
fn long() -> bool {
    let asked = std::env::var_os(LONG).is_some();
    if !asked {
        eprintln!("SKIPPED: takes long; run it with: cargo xtask test peers");
    }
    asked
}

/// How each job ended, in the order of their numbers, by what was printed.
fn verdicts(printed: &str, jobs: &[Job]) -> Vec<String> {
    let verdict = |number: usize| {
        let begin = format!("PEER {number} begins");
        let end = format!("PEER {number} ended ");
        let Some((_, rest)) = printed.split_once(&begin) else {
            return "never begun".to_owned();
        };
        let Some((own, rest)) = rest.split_once(&end) else {
            return "never ended".to_owned();
        };
        let code = rest.lines().next().unwrap_or_default();
        let good = own.contains("No Errors") || own.contains("No errors");
        format!(
            "{} and exit code {code}",
            if good { "No Errors" } else { "errors" }
        )
    };
    (0..jobs.len()).map(verdict).collect()
}

/// What the nodes' consoles say, one after another.
fn consoles(outcome: &Outcome, nodes: u32) -> String {
    (0..nodes).map(|node| outcome.console(node)).collect()
}

/// What came of jobs natively and on traced nodes.
struct Both {
    /// What was printed natively.
    own: String,
    /// What was printed on node 0.
    theirs: String,
    counted: Table,
    traced: Table,
}

/// Runs `jobs` natively, and traced on `nodes` nodes.
fn run_both(
    dir: &Dir,
    image: &str,
    mpi: Mpi,
    nodes: u32,
    jobs: &[Job],
    needs: &Needs<'_>,
) -> Option<Both> {
    let native = Native::new(dir, image)?;
    let own = native.run(&script(mpi, jobs, native::PLACE, needs), needs.file);
    let scenario = scenario(mpi, nodes, image, jobs, needs);
    let outcome = dir.run(&scenario, "out", &[]).success();
    Some(Both {
        own,
        theirs: outcome.console(0),
        counted: counted(&consoles(&outcome, nodes)),
        traced: traced(dir, "out"),
    })
}

/// Runs `jobs` of the suite on `nodes` nodes, traced, and natively, and compares.
fn compare(dir: &Dir, image: &str, mpi: Mpi, nodes: u32, jobs: &[Job]) {
    let Some(both) = run_both(dir, image, mpi, nodes, jobs, &Needs::default()) else {
        return;
    };
    let (own, theirs) = (verdicts(&both.own, jobs), verdicts(&both.theirs, jobs));
    report(jobs, &own, &theirs, &both);
}

/// Fails with all that differs between runs, or between counts.
fn report(jobs: &[Job], own: &[String], theirs: &[String], both: &Both) {
    let (counted, traced) = (&both.counted, &both.traced);
    let mut wrong = Vec::new();
    let mut equal = 0;
    for (number, job) in jobs.iter().enumerate() {
        if own[number] != theirs[number] {
            wrong.push(format!(
                "{}: natively {}, on nodes {}",
                job.program, own[number], theirs[number]
            ));
        }
        let ranks: BTreeSet<u64> = counts::ranks(counted, number);
        let differ = differences(counted, traced, number, &job.program);
        if ranks.len() == job.ranks as usize && differ.is_empty() {
            equal += 1;
        } else if ranks.len() != job.ranks as usize {
            wrong.push(format!(
                "{}: only ranks {ranks:?} told their counts",
                job.program
            ));
        }
        wrong.extend(
            differ
                .into_iter()
                .map(|line| format!("{}: {line}", job.program)),
        );
    }
    let good = own
        .iter()
        .filter(|own| own.starts_with("No Errors"))
        .count();
    eprintln!(
        "{} programs, {good} with No Errors natively, {equal} with equal counts, {} calls",
        jobs.len(),
        counts::calls(traced)
    );
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn some_programs_of_mpich_are_counted_alike() {
    let Some(dir) = Dir::new() else { return };
    compare(&dir, SOME, Mpi::Mpich, 4, &suite::quick());
}

/// All programs of one of the suite's folders that can run here.
fn part(mpi: Mpi, nodes: u32, part: &str) {
    if !long() {
        return;
    }
    let Some(dir) = Dir::new() else { return };
    let listing = dir.path("listing");
    let Some(native) = Native::unpack(&dir, IMAGE, &listing) else {
        return;
    };
    let jobs = suite::of(&native, mpi, part);
    assert!(!jobs.is_empty(), "the image has no programs of {part}");
    compare(&dir, IMAGE, mpi, nodes, &jobs);
}

macro_rules! parts {
    ($($name:ident: $mpi:ident, $nodes:literal, $part:literal;)*) => {$(
        #[test]
        fn $name() {
            part(Mpi::$mpi, $nodes, $part);
        }
    )*};
}

parts! {
    attributes_over_mpich: Mpich, 2, "attr";
    collectives_over_mpich: Mpich, 4, "coll";
    communicators_over_mpich: Mpich, 4, "comm";
    datatypes_over_mpich: Mpich, 2, "datatype";
    errors_over_mpich: Mpich, 2, "errhan";
    groups_over_mpich: Mpich, 4, "group";
    infos_over_mpich: Mpich, 2, "info";
    starts_over_mpich: Mpich, 3, "init";
    partitions_over_mpich: Mpich, 2, "part";
    messages_over_mpich: Mpich, 4, "pt2pt";
    windows_over_mpich: Mpich, 4, "rma";
    topologies_over_mpich: Mpich, 4, "topo";
    attributes_over_open_mpi: OpenMpi, 2, "attr";
    collectives_over_open_mpi: OpenMpi, 4, "coll";
    communicators_over_open_mpi: OpenMpi, 4, "comm";
    datatypes_over_open_mpi: OpenMpi, 2, "datatype";
    groups_over_open_mpi: OpenMpi, 4, "group";
    messages_over_open_mpi: OpenMpi, 4, "pt2pt";
    topologies_over_open_mpi: OpenMpi, 4, "topo";
}
