//! Receives from any source without a status: the trace has the messages that the program prints.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::Duration;

use belljar_tests::{Dir, Outcome, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Receives in many ways, and prints sender, tag and bytes of each message.
const PROGRAM: &str = include_str!("wildcards.c");

/// Sender, tag and bytes.
type Match = (u64, i64, u64);

/// Compiles the program with the library's compiler; false without that compiler.
fn compile(dir: &Dir, library: &str) -> bool {
    let compiler = format!("mpicc.{library}");
    let flags = ["-O1", "-w"];
    compiled(dir, &compiler, "wildcards", PROGRAM, &flags)
}

fn scenario(library: &str, processes: u32, nodes: u32) -> Scenario {
    let launcher = match library {
        "mpich" => "mpiexec.hydra",
        _ => "mpirun --oversubscribe",
    };
    let command = format!("{launcher} -n {processes} ./wildcards");
    Scenario::new(nodes, &command)
        .on(&format!("bookworm-{library}"))
        .working("files = { wildcards = \"wildcards\" }")
}

/// The messages that rank 0 printed, in order.
fn printed(run: &Outcome) -> Vec<Match> {
    let console = run.console(0);
    let lines = console.lines().filter_map(|line| {
        let words: Vec<&str> = line.strip_prefix("GOT ")?.split(' ').collect();
        let [from, tag, bytes] = words[..] else {
            return None;
        };
        Some((from.parse().ok()?, tag.parse().ok()?, bytes.parse().ok()?))
    });
    lines.collect()
}

fn observed(status: &Value) -> Match {
    assert_eq!(status["observed"], true, "{status}");
    let from = status["source"].as_str().and_then(|from| from.parse().ok());
    (
        from.expect("a rank"),
        status["tag"].as_i64().expect("a tag"),
        status["bytes"].as_u64().expect("bytes"),
    )
}

/// The messages that rank 0 received by the trace, in the order of the calls that completed the receives.
fn recorded(dir: &Dir, out: &str) -> Vec<Match> {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", "--rank", "0", out]);
    assert_eq!(code, Some(0), "{error}");
    let mut all = Vec::new();
    for line in dump.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let list = |key: &str| event[key].as_array().cloned().unwrap_or_default();
        for transfer in list("transfers") {
            if transfer["direction"] == "Receive" && transfer["phase"] == "Done" {
                let one = observed(&event["status"]);
                assert_eq!(transfer["peer"], one.0.to_string(), "{event}");
                assert_eq!(transfer["peer_world_rank"], one.0, "{event}");
                assert_eq!(transfer["tag"], one.1, "{event}");
                all.push(one);
            }
        }
        let completed = list("completed");
        all.extend(completed.iter().map(|one| observed(&one["status"])));
    }
    all
}

/// Runs `scenario`: its trace agrees with the program's output, and recording changes nothing.
fn agree(dir: &Dir, scenario: &Scenario, out: &str) -> Vec<Match> {
    let run = dir.run(scenario, out, &[]).success();
    let printed = printed(&run);
    assert!(printed.len() > 20, "{}", run.console(0));
    assert_eq!(recorded(dir, out), printed, "{out}");
    printed
}

/// A process on each node, recorded by probes and by the library; the run by probes also with an interruption.
fn agree_across_nodes(library: &str) {
    let Some(dir) = Dir::new() else { return };
    if !compile(&dir, library) {
        return;
    }
    let scenario = scenario(library, 4, 4);
    agree(
        &dir,
        &scenario.clone().with("[trace]\nlibrary = true"),
        "library",
    );
    let scenario = scenario.with("[checkpoint]\nevery = \"5 ms\"");
    let expected = agree(&dir, &scenario, "whole");
    let run = dir.start(&scenario, "broken");
    if kill_amid_messages(&dir, run, "broken") {
        dir.resume("broken", &["--threads", "1"]);
    }
    assert_eq!(recorded(&dir, "broken"), expected);
    dir.outcome("whole").assert_same(&dir.outcome("broken"));
}

/// Processes that share nodes, recorded by probes and unrecorded.
fn agree_on_shared_nodes(library: &str) {
    let Some(dir) = Dir::new() else { return };
    if !compile(&dir, library) {
        return;
    }
    let scenario = scenario(library, 5, 2);
    let by_probes = agree(&dir, &scenario, "probes");
    let quiet = scenario.with("[trace]\nenabled = false");
    let untraced = dir.run(&quiet, "untraced", &[]).success();
    assert_eq!(printed(&untraced), by_probes);
    let time = |out: &str| dir.outcome(out).summary()["virtual_time_ps"].clone();
    assert_eq!(time("probes"), time("untraced"));
}

#[test]
fn mpich_and_the_trace_agree_on_matches() {
    agree_across_nodes("mpich");
}

#[test]
fn mpich_and_the_trace_agree_where_processes_share_nodes() {
    agree_on_shared_nodes("mpich");
}

#[test]
fn open_mpi_and_the_trace_agree_on_matches() {
    agree_across_nodes("openmpi");
}

#[test]
fn open_mpi_and_the_trace_agree_where_processes_share_nodes() {
    agree_on_shared_nodes("openmpi");
}

#[test]
fn matches_are_observed_on_several_processors() {
    let Some(dir) = Dir::new() else { return };
    if !compile(&dir, "mpich") {
        return;
    }
    let scenario = scenario("mpich", 5, 2).vcpus(3);
    agree(&dir, &scenario, "out");
}

/// Kills the run in the folder `out` once rank 0 has printed a message; returns true if it was unfinished
/// then.
fn kill_amid_messages(dir: &Dir, mut run: Child, out: &str) -> bool {
    let folder = dir.path(&format!("{out}.incomplete"));
    let stdout = || fs::read_to_string(folder.join("stdout")).unwrap_or_default();
    while run.try_wait().expect("a child").is_none() && !stdout().contains("GOT ") {
        thread::sleep(Duration::from_millis(5));
    }
    // A complete run cannot be killed.
    let _ = run.kill();
    run.wait().expect("a child");
    folder.exists()
}
