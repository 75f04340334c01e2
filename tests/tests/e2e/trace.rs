//! The trace against an independent count.

mod check;
mod collect;
mod hang;
mod import;
mod matrix;
mod messages;
mod polls;
mod probes;
mod profile;
mod replay;
pub(crate) mod report;
mod seen;
mod sites;
mod structure;
mod waiting;
mod wildcards;

use std::collections::BTreeMap;
use std::process::{Child, Stdio};

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

/// Calls and bytes by rank and function, as counted by the program.
pub(crate) fn counted(console: &str) -> BTreeMap<(u64, String), (u64, u64)> {
    let lines = console.lines().filter_map(|line| {
        let words: Vec<&str> = line.strip_prefix("COUNT ")?.split(' ').collect();
        let [rank, function, calls, bytes] = words[..] else {
            return None;
        };
        Some((
            (rank.parse().ok()?, function.to_owned()),
            (calls.parse().ok()?, bytes.parse().ok()?),
        ))
    });
    lines.filter(|(_, (calls, _))| *calls > 0).collect()
}

/// The same from `belljar trace dump --json`: outermost calls only.
pub(crate) fn traced(dir: &Dir) -> BTreeMap<(u64, String), u64> {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", "out"]);
    assert_eq!(code, Some(0), "{error}");
    let mut calls = BTreeMap::new();
    for line in dump.lines() {
        let event: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if event["depth"].as_u64() == Some(0) {
            let rank = event["rank"].as_u64().expect("a rank");
            let function = event["function"].as_str().expect("a function").to_owned();
            let several = event["calls"].as_u64().unwrap_or(1);
            *calls.entry((rank, function)).or_insert(0) += several;
        }
    }
    calls
}

/// The count of the trace that the program's rule for a function uses.
#[derive(Clone, Copy)]
enum Side {
    Sent,
    Received,
    Both,
}

const BYTES: [(&str, Side); 14] = [
    ("MPI_Send", Side::Sent),
    ("MPI_Ssend", Side::Sent),
    ("MPI_Isend", Side::Sent),
    ("MPI_Recv", Side::Received),
    ("MPI_Sendrecv", Side::Both),
    ("MPI_Bcast", Side::Both),
    ("MPI_Reduce", Side::Sent),
    ("MPI_Allreduce", Side::Sent),
    ("MPI_Scan", Side::Sent),
    ("MPI_Gather", Side::Sent),
    ("MPI_Gatherv", Side::Sent),
    ("MPI_Scatter", Side::Received),
    ("MPI_Allgather", Side::Sent),
    ("MPI_Alltoall", Side::Sent),
];

/// Bytes of all ranks by function, from `belljar trace stat --json`.
fn traced_bytes(dir: &Dir, function: &str, side: Side) -> u64 {
    let (stat, error, code) = dir.call(&["trace", "stat", "--json", "out"]);
    assert_eq!(code, Some(0), "{error}");
    let stat: Value = serde_json::from_str(&stat).expect("statistics are JSON");
    let functions = stat["functions"].as_array().expect("a list of functions");
    let found = functions.iter().find(|found| found["function"] == function);
    let count = |key: &str| {
        found
            .and_then(|found| found[key].as_u64())
            .expect("the function was called")
    };
    match side {
        Side::Sent => count("sent"),
        Side::Received => count("received"),
        Side::Both => count("sent") + count("received"),
    }
}

#[test]
fn bytes_are_those_that_the_program_counted() {
    let Some(dir) = Dir::new() else { return };
    let run = dir
        .run(&Scenario::new(3, "mpiexec.hydra -n 3 counters"), "out", &[])
        .success();
    let counted = counted(&run.console(0));
    for (function, side) in BYTES {
        let own = counted.iter().filter(|((_, name), _)| name == function);
        let own: u64 = own.map(|(_, (_, bytes))| bytes).sum();
        assert!(own > 0, "{function}");
        assert_eq!(traced_bytes(&dir, function, side), own, "{function}");
    }
}

#[test]
fn every_call_is_recorded_once() {
    let Some(dir) = Dir::new() else { return };
    let run = dir
        .run(&Scenario::new(3, "mpiexec.hydra -n 3 counters"), "out", &[])
        .success();
    let counted: BTreeMap<_, u64> = counted(&run.console(0))
        .into_iter()
        .map(|(key, (calls, _))| (key, calls))
        .collect();
    assert!(counted.len() > 60, "{}", run.console(0));
    assert_eq!(traced(&dir), counted);
}

#[test]
fn results_that_nobody_reads_are_no_failure() {
    let Some(dir) = Dir::new() else { return };
    // As in `belljar run ... | head`, after `head` has ended.
    let unread = |mut child: Child| {
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("belljar ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let calls = "mpiexec.hydra -n 2 counters 2; exit 3";
    let (code, said) = unread(dir.start(&Scenario::new(2, calls), "out"));
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.ends_with(
            "error: the workload ended with exit code 3, see stderr and console/node0.log\n"
        ),
        "{said}"
    );
    assert!(dir.path("out/summary.json").exists());
    for arguments in [
        &["check", "out/scenario.toml"][..],
        &["doctor"],
        &["watch", "out"],
        &["trace", "dump", "out"],
        &["trace", "stat", "out"],
        &["trace", "stat", "--cpi", "out"],
        &["trace", "wait", "out"],
        &["trace", "path", "out"],
    ] {
        let mut command = dir.command(arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (code, said) = unread(command.spawn().expect("belljar starts"));
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
    }
}
