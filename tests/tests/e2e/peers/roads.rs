//! Probes and the preloaded library must record the same calls.
//!
//! Each rank's calls, arguments, results and statuses are compared one by one. Addresses and times differ between runs, and the
//! number of polls depends on times.

use std::collections::BTreeMap;

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use super::jobs::{Job, Mpi, Needs, scenario};
use super::{SOME, suite};

/// Programs whose calls do not depend on time.
const PROGRAMS: [&str; 6] = [
    "attr/attrt",
    "coll/neighb_alltoallw",
    "comm/cmsplit",
    "errhan/commcall",
    "group/groupcreate",
    "pt2pt/sendall",
];

/// Functions that programs poll.
const POLLS: [&str; 4] = ["MPI_Iprobe", "MPI_Improbe", "MPI_Test", "MPI_Wtime"];

/// A thread of a rank of a job.
type Caller = (u64, u64, u64);

/// The calls of each thread, in order.
fn calls(dir: &Dir, out: &str) -> BTreeMap<Caller, Vec<String>> {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", out]);
    assert_eq!(code, Some(0), "{error}");
    let mut calls: BTreeMap<Caller, Vec<String>> = BTreeMap::new();
    let mut waits: BTreeMap<Caller, Vec<Value>> = BTreeMap::new();
    for line in dump.lines() {
        let mut event: Value = serde_json::from_str(line).expect("JSON");
        let function = event["function"].as_str().expect("a name").to_owned();
        assert!(!event["exit"].is_null(), "{out}: did not return: {line}");
        if POLLS.iter().any(|poll| function.starts_with(poll)) {
            continue;
        }
        let number = |key: &str| event[key].as_u64().unwrap_or(u64::MAX);
        let caller = (number("job"), number("rank"), number("thread"));
        let calls = calls.entry(caller).or_default();
        if function.starts_with("MPI_Wait") {
            // The time at which a request completes determines which of consecutive waits reports it.
            let completed = event["completed"].take();
            let waits = waits.entry(caller).or_default();
            waits.extend(completed.as_array().into_iter().flatten().cloned());
        } else if let Some(waits) = waits.remove(&caller) {
            calls.push(completions(&waits));
        }
        calls.push(words(&event));
    }
    for (caller, waits) in waits {
        calls.entry(caller).or_default().push(completions(&waits));
    }
    for calls in calls.values_mut() {
        // Polls determine the sources of the receives after them: their order depends on time.
        let receives = |call: &String| call.starts_with("\"MPI_Recv\"");
        for run in calls.chunk_by_mut(|one, other| receives(one) && receives(other)) {
            run.sort_unstable();
        }
    }
    calls
}

/// The requests that consecutive waits complete. The order and the status of each depend on the wait that completes it.
fn completions(completed: &[Value]) -> String {
    let parts =
        |request: &Value| ["request", "ending", "exact"].map(|key| request[key].to_string());
    let mut parts: Vec<[String; 3]> = completed.iter().map(parts).collect();
    parts.sort_unstable();
    format!("completed by waits: {parts:?}")
}

/// The parts of a call that both methods record equally.
fn words(event: &Value) -> String {
    let mut arguments = event["arguments"].clone();
    if let Some(arguments) = arguments.as_object_mut() {
        arguments.retain(|_, word| !word.as_str().is_some_and(|word| word.starts_with("0x")));
    }
    let keys = [
        "function",
        "result",
        "depth",
        "transfers",
        "collectives",
        "started",
        "completed",
        "status",
    ];
    let told = keys.map(|key| event[key].to_string());
    // The launcher's name of a job is in the first call, or where probes find it in the library's data.
    let made = Some(&event["made"]).filter(|made| made.get("job_size").is_none());
    let made = made.unwrap_or(&Value::Null);
    format!("{} {made} {arguments}", told.join(" "))
}

/// Compares both methods on `scenario`; returns the number of calls.
fn agree(dir: &Dir, scenario: &Scenario) -> usize {
    let [probes, library] = ["probes", "library"].map(|by| {
        let scenario = scenario.clone().with(&format!("[trace]\nby = {by:?}"));
        let run = dir.run(&scenario, by, &[]).success();
        assert_eq!(run.summary()["traced_by"], by);
        calls(dir, by)
    });
    assert_eq!(
        probes.keys().collect::<Vec<_>>(),
        library.keys().collect::<Vec<_>>()
    );
    for (caller, by_probes) in &probes {
        let by_library = &library[caller];
        let parted = by_probes.iter().zip(by_library).find(|(a, b)| a != b);
        assert_eq!(parted, None, "{caller:?}");
        assert_eq!(by_probes.len(), by_library.len(), "{caller:?}");
    }
    probes.values().map(Vec::len).sum()
}

#[test]
fn probes_and_the_library_record_the_same_calls_of_peers() {
    let Some(dir) = Dir::new() else { return };
    let wanted = |job: &Job| PROGRAMS.contains(&job.program.as_str());
    let jobs: Vec<Job> = suite::quick().into_iter().filter(wanted).collect();
    assert_eq!(jobs.len(), PROGRAMS.len());
    let scenario = scenario(Mpi::Mpich, 4, SOME, &jobs, &Needs::default());
    let calls = agree(&dir, &scenario);
    assert!(calls > 500, "only {calls} calls");
}

#[test]
fn probes_and_the_library_record_the_same_calls_of_all_functions() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(3, "mpiexec.hydra -n 3 counters");
    let calls = agree(&dir, &scenario);
    assert!(calls > 200, "only {calls} calls");
}
