//! Calls and bytes by job, rank and function: counted by the programs' layer, and from the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use belljar_tests::Dir;
use serde_json::Value;

/// The counts of one function in one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Count {
    /// Calls that the program made.
    calls: u64,
    /// Calls made within other calls, by callbacks.
    nested: u64,
    sent: u64,
    received: u64,
}

impl Count {
    /// Keeps only calls.
    pub(crate) fn forget_bytes(&mut self) {
        (self.sent, self.received) = (0, 0);
    }
}

/// All bytes sent.
pub(crate) fn sent(table: &Table) -> u64 {
    table.values().map(|count| count.sent).sum()
}

/// By job, rank and function.
pub(crate) type Table = BTreeMap<(usize, u64, String), Count>;

/// The lines of the layer.
pub(crate) fn counted(consoles: &str) -> Table {
    let line = |line: &str| {
        let words: Vec<&str> = line.strip_prefix("COUNT ")?.split(' ').collect();
        let [job, rank, function, calls, nested, sent, received] = words[..] else {
            return None;
        };
        let count = Count {
            calls: calls.parse().ok()?,
            nested: nested.parse().ok()?,
            sent: sent.parse().ok()?,
            received: received.parse().ok()?,
        };
        Some((
            (job.parse().ok()?, rank.parse().ok()?, function.to_owned()),
            count,
        ))
    };
    consoles.lines().filter_map(line).collect()
}

/// The ranks of a job that printed their counts.
pub(crate) fn ranks(table: &Table, job: usize) -> BTreeSet<u64> {
    let own = table.keys().filter(|(of, _, _)| *of == job);
    own.map(|(_, rank, _)| *rank).collect()
}

/// All calls of a job.
pub(crate) fn calls(table: &Table, job: usize) -> u64 {
    let own = table.iter().filter(|((of, _, _), _)| *of == job);
    own.map(|(_, count)| count.calls + count.nested).sum()
}

/// The same from `belljar trace dump --json`. The layer's call of `MPI_Pcontrol` identifies the job, whose
/// number in the trace may differ.
pub(crate) fn traced(dir: &Dir, out: &str) -> Table {
    let mut dump = dir
        .command(&["trace", "dump", "--json", out])
        .stdout(Stdio::piped())
        .spawn()
        .expect("belljar starts");
    let lines = BufReader::new(dump.stdout.take().expect("it is piped"));
    let mut table: BTreeMap<(u64, u64, String), Count> = BTreeMap::new();
    let mut names: BTreeMap<u64, usize> = BTreeMap::new();
    for line in lines.lines() {
        let line = line.expect("a dump is text");
        let event: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let job = event["job"].as_u64().unwrap_or(u64::MAX);
        let function = event["function"].as_str().expect("a function");
        if function == "MPI_Pcontrol"
            && let Some(level) = event["arguments"]["level"].as_str()
        {
            names
                .entry(job)
                .or_insert_with(|| level.parse().expect("the job's number"));
        }
        let rank = event["rank"].as_u64().expect("a rank");
        let count = table.entry((job, rank, function.to_owned())).or_default();
        take(count, &event);
    }
    assert!(
        dump.wait().expect("belljar ends").success(),
        "trace dump failed"
    );
    let marked: BTreeSet<usize> = names.values().copied().collect();
    // A job without calls through the layer has no mark: its number follows from the order.
    let in_turn = |job: u64| {
        usize::try_from(job)
            .ok()
            .filter(|turn| !marked.contains(turn))
    };
    let named = table
        .into_iter()
        .filter_map(|((job, rank, function), count)| {
            let name = names.get(&job).copied().or_else(|| in_turn(job))?;
            Some(((name, rank, function), count))
        });
    named.collect()
}

/// Adds an event to a count, by the rules of `belljar trace stat`.
fn take(count: &mut Count, event: &Value) {
    let several = event["calls"].as_u64().unwrap_or(1);
    if event["depth"].as_u64() == Some(0) {
        count.calls += several;
    } else {
        count.nested += several;
    }
    if event["exit"].is_null() {
        return;
    }
    let list = |name: &str| event[name].as_array().cloned().unwrap_or_default();
    for transfer in list("transfers") {
        let bytes = transfer["bytes"].as_u64().unwrap_or(0);
        let (way, phase) = (transfer["direction"].as_str(), transfer["phase"].as_str());
        match (way, phase) {
            (Some("Send"), Some("Done" | "Begun")) => count.sent += bytes,
            (Some("Receive"), Some("Done")) => count.received += bytes,
            _ => {}
        }
    }
    for collective in list("collectives") {
        if collective["phase"].as_str() != Some("Prepared") {
            count.sent += collective["sent"].as_u64().unwrap_or(0);
            count.received += collective["received"].as_u64().unwrap_or(0);
        }
    }
}

/// The differences between the two counts of a job, except for [`LEFT_OPEN`].
pub(crate) fn differences(
    counted: &Table,
    traced: &Table,
    job: usize,
    program: &str,
) -> Vec<String> {
    let keys: BTreeSet<&(usize, u64, String)> = counted
        .keys()
        .chain(traced.keys())
        .filter(|key| key.0 == job)
        .collect();
    let mut lines = Vec::new();
    for key in keys {
        let (_, rank, function) = key;
        let open = |(of, end, _): &&(&str, &str, &str)| {
            (*of == program || of.is_empty()) && function.ends_with(end)
        };
        let mut own = counted.get(key).copied().unwrap_or_default();
        let mut seen = traced.get(key).copied().unwrap_or_default();
        if has_no_rule(function) {
            own.forget_bytes();
            seen.forget_bytes();
        }
        if own != seen && LEFT_OPEN.iter().find(open).is_none() {
            lines.push(format!(
                "rank {rank}: {function}: counted {own:?}, traced {seen:?}"
            ));
        }
    }
    lines
}

/// True if the layer counts only calls of a function: functions of MPI 4.0, with large counts or with a
/// request for a combined send and receive.
fn has_no_rule(function: &str) -> bool {
    function.ends_with("_c") || function.starts_with("MPI_Isendrecv")
}

/// Permitted differences: the program (any if empty), the function or its suffix, and the reason.
const LEFT_OPEN: &[(&str, &str, &str)] = &[
    ("/usr/bin/python3", "_c2f", UNWRAPPED),
    ("/usr/bin/python3", "_f2c", UNWRAPPED),
];
const UNWRAPPED: &str = "the layer has no wrapper, and mpi4py's tests call it";

#[test]
fn what_may_differ_may_for_its_program_alone() {
    let seen = Count {
        calls: 1,
        ..Count::default()
    };
    let of = |function: &str| Table::from([((0, 0, function.to_owned()), seen)]);
    let found = |program, function| differences(&Table::new(), &of(function), 0, program).len();
    assert_eq!(found("/usr/bin/python3", "MPI_Comm_c2f"), 0);
    assert_eq!(found("/usr/bin/python3", "MPI_Comm_dup"), 1);
    assert_eq!(found("bin/gradient-mpifh", "MPI_Comm_c2f"), 1);
}

#[test]
fn bytes_are_compared_where_the_layer_has_a_rule() {
    let of = |function: &str, sent| {
        let count = Count {
            calls: 1,
            sent,
            ..Count::default()
        };
        Table::from([((0, 0, function.to_owned()), count)])
    };
    let found = |function| differences(&of(function, 0), &of(function, 8), 0, "any").len();
    assert_eq!(found("MPI_Send"), 1);
    assert_eq!(found("MPI_Send_c"), 0);
    assert_eq!(found("MPI_Isendrecv_replace"), 0);
}
