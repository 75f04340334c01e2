//! Nodes of several vCPUs: they boot, synchronise correctly, and behave equally in every
//! run.
//!
//! Nodes of 1, 2, 4 and 32 vCPUs run a suite of 17 properties (`images/programs/threads.c`: locks, waits, atomics, memory order,
//! thread locals, migration, signals, changing mappings and code, forks), `hackbench`, `stress-ng --verify`, and an MPI job with
//! a rank on every vCPU, whose trace is compared with its own counts.

use belljar_tests::{Dir, Outcome, Scenario};
use serde_json::Value;

use crate::trace::{counted, traced};

/// A number in a line of the console that begins with `label`, after it.
fn number(console: &str, label: &str) -> u32 {
    let line = console.lines().find_map(|line| line.strip_prefix(label));
    let number = line.and_then(|rest| rest.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no {label}N in\n{console}"))
}

/// Processors started, interrupted and known to each other as cores of one package.
fn come_up(vcpus: u32) {
    let Some(dir) = Dir::new() else { return };
    let command = "echo processors: $(nproc); \
                   echo cores: $(cat /sys/devices/system/cpu/cpu*/topology/core_id | sort -u | wc -l); \
                   echo packages: $(cat /sys/devices/system/cpu/cpu*/topology/physical_package_id | sort -u | wc -l); \
                   for cpu in $(seq 0 $(($(nproc) - 1))); do taskset $(printf %x $((1 << cpu))) sleep 0.01; done; \
                   grep LOC: /proc/interrupts";
    let scenario = Scenario::new(1, command).vcpus(vcpus);
    let console = dir.run(&scenario, "out", &[]).success().console(0);
    assert_eq!(number(&console, "processors:"), vcpus);
    assert_eq!(number(&console, "cores:"), vcpus);
    assert_eq!(number(&console, "packages:"), 1);
    let line = console.lines().find(|line| line.trim().starts_with("LOC:"));
    let timers = line.expect("timer interrupts").split_whitespace().skip(1);
    let timers: Vec<u32> = timers.map_while(|word| word.parse().ok()).collect();
    assert_eq!(timers.len(), vcpus as usize);
    assert!(timers.iter().all(|&count| count > 0), "{timers:?}");
    assert!(!console.contains("TSC warp"), "{console}");
}

#[test]
fn two_processors_come_up() {
    come_up(2);
}

#[test]
fn thirty_two_processors_come_up() {
    come_up(32);
}

/// Guarantees for threads and processes: the suite in `images/programs/threads.c`,
/// messages between processes, and memory that is written and read back under load.
fn meet(vcpus: u32) {
    let Some(dir) = Dir::new() else { return };
    let command = "threads && hackbench -l 20 -g 2 && \
                   stress-ng --cpu 0 --cpu-ops 20 --vm 2 --vm-bytes 8m --vm-ops 200 --verify";
    let scenario = Scenario::new(1, command).vcpus(vcpus);
    let run = dir.run(&scenario, "out", &[]).success();
    let console = run.console(0);
    let threads = format!(
        "threads: {} threads on {vcpus} processors, 0 tests failed",
        vcpus.max(2)
    );
    assert!(console.contains(&threads), "{console}");
    assert!(console.contains("successful run completed"), "{console}");
    for bad in ["fail:", "BUG:", "WARNING:", "Call Trace"] {
        assert!(!console.contains(bad), "{bad} in\n{console}");
    }
    if vcpus == 2 {
        dir.holds("smp-suite", &run, "bookworm-smp");
    }
}

#[test]
fn one_processor_keeps_its_promises() {
    meet(1);
}

#[test]
fn two_processors_keep_their_promises() {
    meet(2);
}

#[test]
fn four_processors_keep_their_promises() {
    meet(4);
}

#[test]
fn thirty_two_processors_keep_their_promises() {
    meet(32);
}

fn counters(nodes: u32, vcpus: u32) -> Scenario {
    let command = format!("mpiexec.hydra -n {} counters", nodes * vcpus);
    Scenario::new(nodes, &command).vcpus(vcpus)
}

/// Ranks on every processor, over shared memory; the trace has every call that they
/// counted.
fn ranks(vcpus: u32) {
    let Some(dir) = Dir::new() else { return };
    let run = dir.run(&counters(1, vcpus), "out", &[]).success();
    let own = counted(&run.console(0));
    let calls: std::collections::BTreeMap<_, u64> = own
        .into_iter()
        .map(|(key, (calls, _))| (key, calls))
        .collect();
    assert_eq!(traced(&dir), calls);
    let ranks = calls.keys().map(|(rank, _)| rank).max();
    assert_eq!(ranks, Some(&u64::from(vcpus - 1)));
    assert_eq!(run.summary()["nodes"][0]["frames_sent"], 0);
    has_cycles_per_instruction(&dir, vcpus);
}

/// Without a time model an instruction takes a cycle, so CPI is one and the share of MPI, on any processor.
fn has_cycles_per_instruction(dir: &Dir, vcpus: u32) {
    let (text, errors, code) = dir.call(&["trace", "stat", "--cpi", "--json", "out"]);
    assert_eq!(code, Some(0), "{errors}");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(found["processors"], vcpus);
    let ranks = found["ranks"].as_array().expect("ranks");
    assert_eq!(ranks.len(), vcpus as usize);
    for rank in ranks {
        let part = |name: &str| rank[name]["cycles"].as_u64().expect("cycles");
        assert_eq!(rank["instructions"], part("core"));
        assert!(part("mpi") > 0);
        assert_eq!(part("total"), part("core") + part("mpi"));
    }
}

#[test]
fn two_ranks_share_memory() {
    ranks(2);
}

#[test]
fn four_ranks_share_memory() {
    ranks(4);
}

#[test]
fn thirty_two_ranks_share_memory() {
    ranks(32);
}

/// Two nodes of four processors, eight ranks: over shared memory and over the network.
#[test]
fn host_threads_and_repetition_change_no_byte() {
    let Some(dir) = Dir::new() else { return };
    let run = |out, threads| -> Outcome {
        let more = ["--threads", threads, "--pcap", "all"];
        dir.run(&counters(2, 4), out, &more).success()
    };
    let (one, two) = (run("one", "1"), run("two", "2"));
    assert!(one.summary()["mpi_calls"].as_u64() > Some(1000));
    one.assert_same(&two);
}

/// Frequent samples of a node do not change its behaviour, and its states are the same in
/// every run.
#[test]
fn looking_at_several_processors_changes_nothing() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(1, "threads 3 200").vcpus(3);
    let plain = dir.run(&scenario, "plain", &[]).success();
    let run = |out| {
        let more = ["--state-hash", "40000000"];
        dir.run(&scenario, out, &more).success()
    };
    let (one, two) = (run("one"), run("two"));
    one.assert_same(&two);
    assert_eq!(one.console(0), plain.console(0));
    assert_eq!(one.summary(), plain.summary());
    let (same, errors, code) = dir.call(&["bisect", "one", "two"]);
    assert_eq!(code, Some(0), "{same}{errors}");
}

/// Tracing does not affect several processors either.
#[test]
fn tracing_moves_no_cycle_of_several_processors() {
    let Some(dir) = Dir::new() else { return };
    let run = |out, setting| {
        let more = ["--set", setting];
        dir.run(&counters(1, 3), out, &more).success()
    };
    let traced = run("traced", "trace.enabled=true");
    let untraced = run("untraced", "trace.enabled=false");
    assert_eq!(traced.console(0), untraced.console(0));
    for key in ["nodes", "virtual_time_ps"] {
        assert_eq!(traced.summary()[key], untraced.summary()[key]);
    }
}
