//! Different nodes in one run, by `[[nodes.group]]`.

use std::collections::BTreeMap;

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Each rank computes the same amount five times, and then exchanges a message with the other half of the ranks.
const HALVES: &str = "#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, token = 0;
    volatile unsigned sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int other = (rank + size / 2) % size;
    for (int round = 0; round < 5; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 2000000; i++)
            sum += i;
        if (rank < other) {
            MPI_Send(&token, 1, MPI_INT, other, round, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_INT, other, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&token, 1, MPI_INT, other, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&token, 1, MPI_INT, other, round, MPI_COMM_WORLD);
        }
    }
    printf(\"rank %d took %.6f s\\n\", rank, MPI_Wtime());
    MPI_Finalize();
    return 0;
}
";

/// Two nodes at 3 GHz and two at 1 GHz.
const CLOCKS: [&str; 2] = [
    "--set",
    "nodes.group=[{ name = \"new\", count = 2, clock = \"3 GHz\" }, { name = \"old\", count = 2, clock = \"1 GHz\" }]",
];

/// Two hosts, simulated by processes.
const LOCAL: [&str; 6] = ["--launch", "local", "--hosts", "a,b", "--threads", "1"];

fn halves() -> Option<(Dir, Scenario)> {
    let dir = Dir::new()?;
    if !compiled(&dir, "mpicc.mpich", "halves", HALVES, &["-O1"]) {
        return None;
    }
    let scenario = Scenario::new(4, "mpiexec.hydra -n 4 ./halves");
    let scenario = scenario.working("files = { halves = \"halves\" }");
    Some((dir, scenario.with("[checkpoint]\nevery = \"40 ms\"")))
}

/// A call: its rank, its function, and its start and end in picoseconds.
#[derive(Debug)]
struct Call {
    rank: u64,
    function: String,
    entry: u64,
    exit: u64,
}

fn calls(dir: &Dir, out: &str) -> Vec<Call> {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", out]);
    assert_eq!(code, Some(0), "{error}");
    let call = |line: &str| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let number = |key: &str| {
            event[key]
                .as_u64()
                .unwrap_or_else(|| panic!("{key}: {line}"))
        };
        let entry = number("entry_ps");
        Call {
            rank: number("rank"),
            function: event["function"].as_str().expect("a name").to_owned(),
            entry,
            exit: entry + number("duration_ps"),
        }
    };
    dump.lines().map(call).collect()
}

/// The time that each rank computed between barriers and its next calls, in picoseconds.
fn computing(calls: &[Call]) -> BTreeMap<u64, u64> {
    let (mut left, mut sums) = (BTreeMap::new(), BTreeMap::new());
    for call in calls {
        if let Some(left) = left.remove(&call.rank) {
            *sums.entry(call.rank).or_insert(0) += call.entry - left;
        }
        if call.function == "MPI_Barrier" {
            left.insert(call.rank, call.exit);
        }
    }
    sums
}

#[test]
fn a_slower_clock_takes_longer_and_messages_still_come_after_they_were_sent() {
    let Some((dir, scenario)) = halves() else {
        return;
    };
    let run = dir.run(&scenario, "out", &CLOCKS).success();
    let calls = calls(&dir, "out");
    let sums = computing(&calls);
    assert_eq!(sums.len(), 4, "{sums:?}");
    for rank in [0, 1] {
        let ratio = sums[&(rank + 2)] as f64 / sums[&rank] as f64;
        assert!((2.97..3.03).contains(&ratio), "{sums:?}");
    }
    // Calls are in the order of time, not of cycles; polls such as MPI_Wtime precede their threads' next calls.
    let in_order = calls.iter().filter(|call| call.function != "MPI_Wtime");
    assert!(in_order.is_sorted_by_key(|call| call.exit));
    let of = |rank: u64, function: &str| {
        let those = calls
            .iter()
            .filter(|call| call.rank == rank && call.function == function);
        those.collect::<Vec<_>>()
    };
    for (from, to) in [(0, 2), (2, 0), (1, 3), (3, 1)] {
        let (sent, received) = (of(from, "MPI_Send"), of(to, "MPI_Recv"));
        assert_eq!((sent.len(), received.len()), (5, 5));
        for (sent, received) in sent.iter().zip(received) {
            // Twice the links' latency and once the switch's.
            assert!(
                received.exit > sent.entry + 2_300_000,
                "{sent:?} {received:?}"
            );
        }
    }
    let summary = run.summary();
    let groups = summary["nodes"].as_array().expect("nodes").iter();
    let groups: Vec<_> = groups.map(|node| node["group"].as_str()).collect();
    assert_eq!(groups, [Some("new"), Some("new"), Some("old"), Some("old")]);
    let (told, error, code) = dir.call(&["trace", "stat", "out"]);
    assert_eq!(code, Some(0), "{error}");
    let groups = "\nGroups\n  new: nodes 0 to 1 at 3 GHz\n  old: nodes 2 to 3 at 1 GHz\n";
    assert!(told.ends_with(groups), "{told}");
    let (told, error, code) = dir.call(&["trace", "stat", "--json", "out"]);
    assert_eq!(code, Some(0), "{error}");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let old = serde_json::json!({ "name": "old", "first_node": 2, "nodes": 2, "clock_hz": 1_000_000_000 });
    assert_eq!(told["groups"][1], old);
    assert_eq!(told["ranks"].as_array().map(Vec::len), Some(4), "{told}");
    let (told, error, code) = dir.call(&["trace", "path", "out"]);
    assert_eq!(code, Some(0), "{told}{error}");
}

#[test]
fn threads_hosts_and_resuming_change_no_byte() {
    let Some((dir, scenario)) = halves() else {
        return;
    };
    let with = |more: &[&'static str]| [&CLOCKS[..], more].concat();
    let one = dir.run(&scenario, "one", &with(&["--threads", "1"]));
    let one = one.success();
    // Each host has nodes of both groups.
    let crossed = ["--place", "a=0,2", "--place", "b=1,3"];
    dir.run_to_checkpoint(&scenario, "two", 2, &with(&["--threads", "2"]));
    one.assert_same(&dir.resume("two", &[&LOCAL[..], &crossed].concat()));
}

#[test]
fn groups_have_their_own_memory_processors_and_slots() {
    let Some(dir) = Dir::new() else { return };
    let say = r"echo \$(hostname) has \$(nproc) of \$(grep MemTotal /proc/meminfo)";
    let command = format!("cat /run/belljar/hosts; mpiexec.hydra -n 4 sh -c \"{say}\"");
    let scenario = Scenario::new(3, &command).on("bookworm-smp");
    let groups = "nodes.group=[{ count = 1, vcpus = 2, memory = \"512 MiB\" }, { count = 2 }]";
    let run = dir.run(&scenario, "out", &["--set", groups]).success();
    let told = run.text("stdout");
    assert!(told.starts_with("node0:2\nnode1:1\nnode2:1\n"), "{told}");
    let lines = |start: &str| {
        let found = told.lines().filter(|line| line.starts_with(start));
        let last = |line: &str| line.split_whitespace().nth_back(1).map(str::to_owned);
        found
            .filter_map(last)
            .map(|kib| kib.parse::<u64>().expect("KiB"))
            .collect::<Vec<_>>()
    };
    let [large, one, other] = ["node0 has 2 of", "node1 has 1 of", "node2 has 1 of"].map(lines);
    assert_eq!([large.len(), one.len(), other.len()], [2, 1, 1], "{told}");
    assert!(large[0] > 400 << 10 && one[0] < 256 << 10, "{told}");
    let again = dir.run(&scenario, "again", &["--set", groups, "--threads", "2"]);
    run.assert_same(&again.success());
}

/// Two nodes, and two with another image.
const IMAGES: [&str; 2] = [
    "--set",
    "nodes.group=[{ count = 2 }, { name = \"tested\", count = 2, image = { recipe = \"bookworm-smp\" } }]",
];

#[test]
fn groups_boot_their_own_images_and_one_program_runs_on_all() {
    let Some((dir, scenario)) = images() else {
        return;
    };
    let one = dir.run(&scenario, "one", &IMAGES).success();
    let told = one.text("stdout");
    for (node, found) in [(0, 1), (1, 1), (2, 0), (3, 0)] {
        let line = format!("node{node}: {found}\n");
        assert!(told.contains(&line), "{told}");
    }
    let ranks = |told: &str| told.matches("took").count();
    assert_eq!(ranks(&told), 4, "{told}");
    // Probes in files of both images have names.
    let (sites, error, code) = dir.call(&["trace", "sites", "--json", "one"]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{sites}");
    let sites: Value = serde_json::from_str(&sites).expect("JSON");
    let text = sites.to_string();
    assert!(text.contains("\"main\""), "{text}");
    dir.run_to_checkpoint(&scenario, "two", 2, &IMAGES);
    one.assert_same(&dir.resume("two", &LOCAL));
    let (told, error, code) = dir.call(&["check", "one/scenario.toml"]);
    assert_eq!(code, Some(0), "{error}");
    let said = "group tested: image bookworm-smp: 2 x";
    assert!(told.contains(said), "{told}");
}

fn images() -> Option<(Dir, Scenario)> {
    let dir = Dir::new()?;
    if !compiled(&dir, "mpicc.mpich", "halves", HALVES, &["-O1", "-g"]) {
        return None;
    }
    let look = "test -e /usr/bin/hackbench; echo \"$(hostname): $?\"";
    let command = format!("mpiexec.hydra -n 4 sh -c '{look}'; mpiexec.hydra -n 4 ./halves");
    let scenario = Scenario::new(4, &command);
    let scenario = scenario.working("files = { halves = \"halves\" }");
    let scenario = scenario.with("[checkpoint]\nevery = \"40 ms\"\n[trace]\nframes = 2");
    Some((dir, scenario))
}

#[test]
fn an_image_that_is_not_there_is_told_with_its_group() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(3, "true");
    let groups = "nodes.group=[{ count = 1 }, { name = \"other\", count = 2, image = { recipe = \"no.toml\" } }]";
    let refused = dir.run(&scenario, "out", &["--set", groups]).stderr;
    assert!(refused.contains("[[nodes.group]] other: "), "{refused}");
    assert!(refused.contains("no.toml"), "{refused}");
}

#[test]
fn counts_that_do_not_add_up_are_refused_before_anything_runs() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(3, "true");
    let refused = dir.run(&scenario, "out", &CLOCKS).stderr;
    let said = "nodes.count is 3; it must be the sum of the groups' counts, which is 4";
    assert!(refused.contains(said), "{refused}");
}
