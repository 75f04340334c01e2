//! Tests of other projects: programs that test or measure MPI end on traced nodes as they end on the host. The
//! trace has the calls and bytes that a profiling layer in the program counted (`images/programs/peers`), by rank
//! and function.
//!
//! Every `cargo xtask test` runs a few programs; the rest run if [`LONG`] is set, as by `cargo xtask test peers`.
//! Those are compared in small batches, and a line reports each result, so that an interrupted run shows its
//! comparisons.

mod applications;
mod counts;
mod interface;
mod jobs;
mod native;
mod roads;
mod suite;

use std::collections::BTreeSet;

use belljar_tests::{Dir, Outcome};

use counts::{Table, counted, differences, traced};
use jobs::{Job, Mpi, Needs, scenario, script};
use native::Native;

/// Enables the long tests: 1 for all of their jobs, or a list of parts of the jobs' command lines, separated by
/// commas, for these jobs alone.
const LONG: &str = "BELLJAR_PEERS";
/// Jobs of a batch: enough to take longer than the nodes' boot.
const TOGETHER: usize = 8;
const IMAGE: &str = "bookworm-peers";
/// The image with the few programs, which other tests need, too.
const SOME: &str = "bookworm-bindings";

/// True if the long tests run; otherwise prints a message.
fn long() -> bool {
    let asked = std::env::var_os(LONG).is_some();
    if !asked {
        eprintln!("SKIPPED: takes long; run it with: cargo xtask test peers");
    }
    asked
}

/// The `jobs` that [`LONG`] selects.
fn chosen(jobs: Vec<Job>) -> Vec<Job> {
    let asked = std::env::var(LONG).unwrap_or_default();
    let wanted = asked_for(&asked, jobs);
    if wanted.is_empty() {
        eprintln!("SKIPPED: {LONG} asks for none of these programs: {asked}");
    }
    wanted
}

/// The `jobs` whose command lines contain one of the names in `asked`; all if it has no names.
fn asked_for(asked: &str, jobs: Vec<Job>) -> Vec<Job> {
    let names: Vec<&str> = asked.split(',').filter(|name| !name.is_empty()).collect();
    if matches!(names[..], [] | ["1"]) {
        return jobs;
    }
    let wanted = |job: &Job| {
        let line = job.line();
        names.iter().any(|name| line.contains(name))
    };
    jobs.into_iter().filter(wanted).collect()
}

#[test]
fn some_jobs_can_be_asked_for() {
    let found = |asked| {
        let jobs = asked_for(asked, suite::quick());
        jobs.iter().map(Job::line).collect::<Vec<_>>()
    };
    assert_eq!(found("1").len(), suite::quick().len());
    assert_eq!(
        found("rma/get,topo/cartmap1"),
        ["rma/getgroup", "topo/cartmap1"]
    );
    assert!(found("none").is_empty());
}

/// The result of each job, in the order of their numbers, from the printed text.
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

/// The nodes' consoles, one after another.
fn consoles(outcome: &Outcome, nodes: u32) -> String {
    (0..nodes).map(|node| outcome.console(node)).collect()
}

/// The results of jobs natively and on traced nodes.
struct Both {
    /// The native output.
    own: String,
    /// The output of node 0.
    theirs: String,
    counted: Table,
    traced: Table,
}

/// The two places of jobs: natively, and on traced nodes.
struct Place<'a> {
    dir: &'a Dir,
    native: Native,
    image: &'static str,
    mpi: Mpi,
    nodes: u32,
}

impl Place<'_> {
    /// Runs `jobs` on both sides.
    fn run(&self, jobs: &[Job], needs: &Needs<'_>) -> Both {
        let native = script(self.mpi, jobs, native::PLACE, needs);
        let own = self.native.run(&native, needs.file);
        let scenario = scenario(self.mpi, self.nodes, self.image, jobs, needs);
        let outcome = self.dir.run(&scenario, "out", &[]).success();
        let both = Both {
            own,
            theirs: outcome.console(0),
            counted: counted(&consoles(&outcome, self.nodes)),
            traced: traced(self.dir, "out"),
        };
        std::fs::remove_dir_all(outcome.folder()).expect("the run directory can be removed");
        both
    }

    /// Runs `jobs` of the suite, and returns the differences of runs and of counts.
    fn compare(&self, jobs: &[Job]) -> Vec<String> {
        let both = self.run(jobs, &Needs::default());
        let (own, theirs) = (verdicts(&both.own, jobs), verdicts(&both.theirs, jobs));
        let mut wrong = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            let (own, theirs) = (&own[number], &theirs[number]);
            let mut differ = both.differences(number, job);
            if own != theirs {
                differ.push(format!("natively {own}, on nodes {theirs}"));
            }
            eprintln!(
                "{}",
                told(job, own, counts::calls(&both.traced, number), &differ)
            );
            wrong.extend(differ.iter().map(|line| format!("{}: {line}", job.line())));
        }
        wrong
    }
}

/// The line about a job's result.
fn told(job: &Job, verdict: &str, calls: u64, differ: &[String]) -> String {
    let found = match differ.len() {
        0 => "equal".to_owned(),
        number => format!("{number} differences:\n  {}", differ.join("\n  ")),
    };
    format!(
        "{} with {} ranks: natively {verdict}; {calls} calls; {found}",
        job.line(),
        job.ranks
    )
}

impl Both {
    /// The differences between the counts of a job.
    fn differences(&self, number: usize, job: &Job) -> Vec<String> {
        let mut differ = differences(&self.counted, &self.traced, number, &job.program);
        let ranks: BTreeSet<u64> = counts::ranks(&self.counted, number);
        if ranks.len() != job.ranks as usize {
            differ.push(format!("only ranks {ranks:?} told their counts"));
        }
        differ
    }
}

/// Asserts that there are no differences.
fn assert_alike(jobs: usize, wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} differences in {jobs} jobs:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn some_programs_of_mpich_are_counted_alike() {
    let Some(dir) = Dir::new() else { return };
    let Some(native) = Native::new(&dir, SOME) else {
        return;
    };
    let place = Place {
        dir: &dir,
        native,
        image: SOME,
        mpi: Mpi::Mpich,
        nodes: 4,
    };
    let jobs = suite::quick();
    assert_alike(jobs.len(), &place.compare(&jobs));
}

/// All programs of one of the suite's folders that can run here.
fn part(mpi: Mpi, nodes: u32, part: &str) {
    if !long() {
        return;
    }
    let Some(dir) = Dir::new() else { return };
    let Some(native) = Native::new(&dir, IMAGE) else {
        return;
    };
    let jobs = suite::of(&native, mpi, part);
    assert!(!jobs.is_empty(), "the image has no programs of {part}");
    let place = Place {
        dir: &dir,
        native,
        image: IMAGE,
        mpi,
        nodes,
    };
    let jobs = chosen(jobs);
    let wrong: Vec<String> = jobs
        .chunks(TOGETHER)
        .flat_map(|jobs| place.compare(jobs))
        .collect();
    assert_alike(jobs.len(), &wrong);
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
