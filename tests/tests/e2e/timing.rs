//! The time model, and its figures in the trace.

use std::collections::BTreeMap;

use belljar_tests::{Dir, Outcome, Scenario};
use serde_json::Value;

const COSTS: &str = "nodes.timing.costs={}";
const CACHES: &str = "nodes.timing.caches={ l1d = { size = \"32 KiB\", ways = 8 }, \
                      l2 = { size = \"1 MiB\", ways = 16, latency = 14 }, memory-latency = 200 }";

/// `belljar trace stat --cpi --json` of a run: one value for each job and rank.
fn cpi(dir: &Dir, out: &str) -> BTreeMap<(u64, u64), Value> {
    let (text, error, code) = dir.call(&["trace", "stat", "--cpi", "--json", out]);
    assert_eq!(code, Some(0), "{error}");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    let ranks = all["ranks"].as_array().expect("ranks");
    let key = |stat: &Value| Some((stat["job"].as_u64()?, stat["rank"].as_u64()?));
    ranks
        .iter()
        .map(|stat| (key(stat).expect("a job and a rank"), stat.clone()))
        .collect()
}

fn cycles(stat: &Value, part: &str) -> u64 {
    let cycles = stat[part]["cycles"].as_u64();
    cycles.unwrap_or_else(|| panic!("{part} in {stat}"))
}

fn per_instruction(stat: &Value, part: &str) -> f64 {
    stat[part]["per_instruction"].as_f64().expect("a number")
}

/// From the entry of each process's first call to the exit of its last, in cycles at
/// 2 GHz: by node and process.
fn lengths(dir: &Dir, out: &str) -> Vec<u64> {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", out]);
    assert_eq!(code, Some(0), "{error}");
    let mut spans: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    for line in dump.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let number = |key: &str| {
            event[key]
                .as_u64()
                .unwrap_or_else(|| panic!("{key}: {line}"))
        };
        if number("depth") > 0 {
            continue;
        }
        let (entry, exit) = (
            number("entry_ps"),
            number("entry_ps") + number("duration_ps"),
        );
        let span = spans
            .entry((number("node"), number("process")))
            .or_insert((entry, exit));
        *span = (span.0.min(entry), span.1.max(exit));
    }
    let mut lengths: Vec<u64> = spans
        .values()
        .map(|(first, last)| (last - first) / 500)
        .collect();
    lengths.sort_unstable();
    lengths
}

fn run(dir: &Dir, scenario: &Scenario, out: &str) -> Outcome {
    let more = ["--set", COSTS, "--set", CACHES];
    dir.run(scenario, out, &more).success()
}

#[test]
fn parts_add_up_and_grow_with_what_no_cache_holds() {
    let Some(dir) = Dir::new() else { return };
    let command = "for kib in 8 256 4096; do mpiexec.hydra -n 2 sweep $kib 300000; done";
    let scenario = Scenario::new(2, command);
    let one = run(&dir, &scenario, "one");
    let found = cpi(&dir, "one");
    assert_eq!(found.len(), 6, "{found:?}");
    let mut totals: Vec<u64> = Vec::new();
    for stat in found.values() {
        let parts = ["core", "caches", "memory", "idle", "mpi"];
        let sum: u64 = parts.iter().map(|part| cycles(stat, part)).sum();
        assert_eq!(sum, cycles(stat, "total"), "{stat}");
        totals.push(sum);
    }
    totals.sort_unstable();
    assert_eq!(totals, lengths(&dir, "one"));
    for rank in 0..2 {
        let [small, middle, large] = [0, 1, 2].map(|job| &found[&(job, rank)]);
        // Each read that misses its level costs 14 or 200 cycles, spread over the few
        // instructions of a round.
        assert!(per_instruction(small, "caches") < 0.5, "{small}");
        assert!(per_instruction(middle, "caches") > 1.0, "{middle}");
        assert!(per_instruction(middle, "memory") < 3.0, "{middle}");
        assert!(per_instruction(large, "memory") > 8.0, "{large}");
    }
    let time = &one.summary()["nodes"][0]["time"];
    assert!(time["memory"].as_u64() > Some(0), "{time}");
}

/// A program's calls, with their times.
fn calls(dir: &Dir, out: &str) -> String {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", out]);
    assert_eq!(code, Some(0), "{error}");
    assert!(!dump.is_empty());
    dump
}

#[test]
fn a_model_in_which_everything_costs_a_cycle_changes_nothing() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 pingpong 2; date +%N");
    let without = dir.run(&scenario, "without", &[]).success();
    let model = ["--set", "nodes.timing={}"];
    let with = dir.run(&scenario, "with", &model).success();
    assert_eq!(without.console(0), with.console(0));
    assert_eq!(calls(&dir, "without"), calls(&dir, "with"));
    let node = &with.summary()["nodes"][0];
    assert_eq!(node["time"]["core"], node["instructions"]);
}

#[test]
fn looking_at_states_changes_nothing_under_a_time_model() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(1, "sweep 64 10000");
    let model = ["--set", COSTS, "--set", CACHES];
    let plain = dir.run(&scenario, "plain", &model).success();
    let more = [&model[..], &["--state-hash", "9000001"]].concat();
    let looked = dir.run(&scenario, "looked", &more).success();
    assert_eq!(plain.bytes("summary.json"), looked.bytes("summary.json"));
    assert_eq!(plain.bytes("trace.bjt"), looked.bytes("trace.bjt"));
    let states = String::from_utf8(looked.bytes("state/node0.txt")).expect("text");
    let stops = states
        .lines()
        .filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
    assert!(
        stops
            .filter(|at| *at > 0 && at.is_multiple_of(9_000_001))
            .count()
            > 5,
        "{states}"
    );
}

#[test]
fn tracing_and_threads_move_no_cycle_under_a_time_model() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 pingpong 2; date +%N");
    let run = |out, enabled, threads| {
        let model = ["--set", COSTS, "--set", CACHES];
        let more = ["--set", enabled, "--threads", threads];
        dir.run(&scenario, out, &[model, more].concat()).success()
    };
    let on = run("on", "trace.enabled=true", "1");
    on.assert_same(&run("two", "trace.enabled=true", "2"));
    let off = run("off", "trace.enabled=false", "1");
    assert_eq!(on.console(0), off.console(0));
    assert_eq!(on.summary()["nodes"], off.summary()["nodes"]);
}

#[test]
fn without_a_time_model_the_core_takes_the_ratio() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 sweep 8 1000");
    let ratio = ["--set", "nodes.cycles-per-instruction=1.25"];
    let outcome = dir.run(&scenario, "out", &ratio).success();
    assert!(outcome.summary()["nodes"][0].get("time").is_none());
    for stat in cpi(&dir, "out").values() {
        assert!(
            (per_instruction(stat, "core") - 1.25).abs() < 1e-3,
            "{stat}"
        );
        assert!(
            stat["caches"].is_null() && stat["memory"].is_null(),
            "{stat}"
        );
        assert_eq!(
            cycles(stat, "core") + cycles(stat, "mpi"),
            cycles(stat, "total")
        );
    }
}

/// A modelled processor: the same run on one thread and on two, traced or not by `--state-hash`, and its name in the
/// results.
#[test]
fn a_modelled_processor_repeats_and_is_named() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 sweep 8 20000");
    let modelled = ["--set", "nodes.timing.processor=\"zen5\""];
    let run = |out: &str, threads: &str| {
        let more = [&["--threads", threads][..], &modelled].concat();
        dir.run(&scenario, out, &more).success()
    };
    let one = run("one", "1");
    one.assert_same(&run("two", "2"));
    let summary = std::fs::read_to_string(dir.path("one/summary.json")).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let named = summary["processors"][0].as_str().expect("a processor");
    assert!(named.starts_with("zen5 ("), "{named}");
    for node in summary["nodes"].as_array().expect("nodes") {
        let parts = node["processor_time"].as_object().expect("parts");
        let sum: u64 = parts.values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(sum), node["time"]["cycles"].as_u64(), "{node}");
        for part in ["core", "branch", "tlb", "caches", "memory", "idle"] {
            assert!(parts[part].as_u64() > Some(0), "{part}: {node}");
        }
    }
    for (key, refused) in [
        ("nodes.timing.costs={}", "nodes.timing.costs"),
        (
            "nodes.timing.caches={ l1d = { size = \"4 KiB\", ways = 1 }, memory-latency = 9 }",
            "nodes.timing.caches",
        ),
        ("nodes.timing.processor=\"zen1\"", "`zen1`"),
        ("engine=\"kvm\"", "nodes.timing.processor"),
    ] {
        let more = [&modelled[..], &["--set", key]].concat();
        let failed = dir.run(&scenario, "refused", &more);
        assert_ne!(failed.code, Some(0), "{key}");
        assert!(failed.stderr.contains(refused), "{key}: {}", failed.stderr);
    }
}

/// Processors of a node that share a cache, under a file from documents and a sample of pages: the same run on one thread
/// and on two, with the warnings of both.
#[test]
fn a_processor_from_documents_and_a_sample_of_pages_repeat_and_warn() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 sweep 8 2000");
    let model = "nodes.timing={ processor = \"zen4\", memory-sample = 8 }";
    let run = |out: &str, threads: &str| {
        let more = [
            "--threads",
            threads,
            "--set",
            model,
            "--set",
            "nodes.vcpus=2",
        ];
        dir.run(&scenario, out, &more).success()
    };
    let one = run("one", "1");
    one.assert_same(&run("two", "2"));
    let warnings = one.summary()["warnings"].to_string();
    for expected in [
        "nobody measured the processor file zen4",
        "nodes.timing.memory-sample = 8",
    ] {
        assert!(warnings.contains(expected), "{warnings}");
    }
    let named = one.summary()["processors"][0].to_string();
    assert!(named.contains("), one page of 8"), "{named}");
}
