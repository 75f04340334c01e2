//! Other orders of a job's messages: all are found, forced by delays, and repeated to the byte.

/// A node that loses power and starts again.
mod restart;

use std::path::Path;

use belljar_tests::Dir;
use serde_json::{Value, json};

use crate::mpirun::compiled;

const WORKERS: &str = include_str!("explore/workers.c");
const WAITANY: &str = include_str!("explore/waitany.c");
/// A program that handles the errors of MPI itself.
const SURVIVOR: &str = include_str!("explore/survivor.c");
/// The example of docs/howto-race.md.
const PHASES: &str = include_str!("explore/phases.c");

/// Two threads with a data race, or with a lock.
const COUNTER: &str = include_str!("explore/counter.c");

/// Explores a program of `ranks` ranks on as many nodes; `None` without a compiler.
fn explored(dir: &Dir, name: &str, source: &str, ranks: &str, more: &[&str]) -> Option<Value> {
    if !compiled(dir, "mpicc.mpich", name, source, &["-g"]) {
        return None;
    }
    Some(explored_program(dir, name, &[ranks, "-ppn", "1"], more))
}

/// The same for a compiled program; `ranks` are their number and further options of the run.
fn explored_program(dir: &Dir, name: &str, ranks: &[&str], more: &[&str]) -> Value {
    let words = ["explore", "--json", "--out", "out"];
    let program = format!("./{name}");
    let end = ["--limit", "10s", &program];
    let (text, error, code) = dir.call(&[&words[..], more, &["-np"], ranks, &end].concat());
    let found: Value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}{error}"));
    let failed = found["failed"].as_u64() > Some(0);
    assert_eq!(code, Some(i32::from(failed)), "{error}");
    found
}

/// The distinct orders in the table, each as the ranks whose messages rank 0 got.
fn orders(dir: &Dir) -> Vec<String> {
    let table = std::fs::read_to_string(dir.path("out/orders.csv")).expect("there is a table");
    let cells = table.lines().skip(1).map(|line| line.split("\",\"").nth(4));
    let mut orders: Vec<String> = cells
        .map(|cell| cell.expect("an order").to_owned())
        .collect();
    orders.sort();
    orders.dedup();
    orders
}

#[test]
fn three_workers_have_six_orders_in_six_runs() {
    let Some(dir) = Dir::new() else { return };
    let Some(found) = explored(&dir, "workers", WORKERS, "4", &[]) else {
        return;
    };
    assert_eq!(
        (&found["orders"], &found["runs"]),
        (&json!(6), &json!(6)),
        "{found}"
    );
    assert_eq!(
        (&found["extent"], &found["all_orders"]),
        (&json!("exhausted"), &json!(true))
    );
    let wanted = [
        "0<1.1 0<2.1 0<3.1",
        "0<1.1 0<3.1 0<2.1",
        "0<2.1 0<1.1 0<3.1",
        "0<2.1 0<3.1 0<1.1",
        "0<3.1 0<1.1 0<2.1",
        "0<3.1 0<2.1 0<1.1",
    ];
    assert_eq!(orders(&dir), wanted);
}

#[test]
fn a_budget_that_ends_is_reported_and_no_claim_of_all_orders_is_made() {
    let Some(dir) = Dir::new() else { return };
    let Some(found) = explored(&dir, "workers", WORKERS, "4", &["--budget", "3"]) else {
        return;
    };
    assert_eq!(
        (&found["runs"], &found["all_orders"]),
        (&json!(3), &json!(false)),
        "{found}"
    );
    assert_eq!(found["extent"], "cut");
    assert!(found["left"].as_u64() > Some(0), "{found}");
}

#[test]
fn a_result_that_depends_on_the_order_of_waitany_is_found() {
    let Some(dir) = Dir::new() else { return };
    let more = ["--compare", "stdout", "--search", "random", "--seed", "3"];
    let Some(found) = explored(&dir, "waitany", WAITANY, "3", &more) else {
        return;
    };
    assert_eq!(
        (&found["orders"], &found["runs"]),
        (&json!(2), &json!(2)),
        "{found}"
    );
    let failure = &found["failures"][0];
    assert_eq!(failure["verdict"], "different-result", "{found}");
    let outputs = ["base", "run-1"]
        .map(|run| std::fs::read_to_string(dir.path(&format!("out/{run}/stdout"))).ok());
    let mut outputs = outputs.map(|text| text.expect("both runs are there"));
    outputs.sort();
    assert_eq!(outputs, ["sum 2.0\n", "sum 2.5\n"]);
}

/// Runs a scenario on three threads into the folder `again`; the workload ends with `wanted`.
fn run_again(dir: &Dir, scenario: &str, wanted: i32) {
    let words = ["run", "--quiet", "--threads", "3", "--out", "again"];
    let (_, error, code) = dir.call(&[&words[..], &[scenario]].concat());
    assert_eq!(code, Some(wanted), "{error}");
}

/// The bytes of a file of a run.
fn bytes(run: &Path, name: &str) -> Vec<u8> {
    std::fs::read(run.join(name))
        .unwrap_or_else(|error| panic!("{}/{name}: {error}", run.display()))
}

#[test]
fn a_message_of_the_next_phase_is_found_minimised_and_repeated_to_the_byte() {
    let Some(dir) = Dir::new() else { return };
    let Some(found) = explored(&dir, "phases", PHASES, "3", &[]) else {
        return;
    };
    assert_eq!(
        (&found["orders"], &found["failed"]),
        (&json!(3), &json!(1)),
        "{found}"
    );
    let failure = &found["failures"][0];
    assert_eq!(
        (&failure["verdict"], &failure["detail"]),
        (
            &json!("exit-code"),
            &json!("the workload ended with exit code 3")
        )
    );
    assert_eq!(
        failure["delays"].as_array().map(Vec::len),
        Some(1),
        "{failure}"
    );
    assert_eq!(
        failure["decision"], "wildcard receive 2 of rank 0",
        "{failure}"
    );
    // The debugger begins there, at the first instruction of the receive.
    let at = failure["decision_ps"].as_u64().expect("a time");
    let text = std::fs::read_to_string(dir.path("out/failure-2/decision")).expect("a file");
    assert_eq!(text, format!("{at} ps\n"));
    if Path::new("/usr/bin/gdb").exists() {
        dir.write("commands.gdb", "monitor hash\nwhere-ranks\n");
        let words = ["debug", "out/failure-2", "--commands", "commands.gdb"];
        let (output, error, code) = dir.call(&words);
        assert_eq!(code, Some(0), "{output}{error}");
        assert!(output.contains("in PMPI_Recv ()"), "{output}{error}");
        assert!(error.contains("rank 0, node 0, phases"), "{output}{error}");
    }
    // The report of the failing run has the explanation.
    let run = failure["directory"].as_str().expect("a path");
    let (_, error, code) = dir.call(&["report", run, "--out", "page.html"]);
    assert_eq!(code, Some(0), "{error}");
    if let Some(page) = crate::trace::report::shown(&dir, "page.html") {
        assert!(page.contains("<summary>explanation.txt"), "{page}");
    }
    let text = std::fs::read_to_string(dir.path(run).join("explanation.txt")).expect("a file");
    assert!(
        text.contains("* wildcard receive 2 of rank 0  message 1 of rank 2  message 2 of rank 1"),
        "{text}"
    );
    // The scenario gives the same run from the boot, with another number of threads.
    let scenario = failure["scenario"].as_str().expect("a path");
    run_again(&dir, scenario, 3);
    let first = dir.path(failure["directory"].as_str().expect("a path"));
    for name in [
        "trace.bjt",
        "stdout",
        "stderr",
        "wire.csv",
        "summary.json",
        "console/node2.log",
    ] {
        assert!(
            bytes(&first, name) == bytes(&dir.path("again"), name),
            "{name} differs"
        );
    }
}

#[test]
fn the_page_on_message_races_shows_what_the_command_prints() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "phases", PHASES, &["-g"]) {
        return;
    }
    let page = include_str!("../../../docs/howto-race.md");
    let command = "$ belljar explore ";
    let (_, session) = page.split_once(command).expect("the page has the command");
    let (words, session) = session.split_once('\n').expect("the command is a line");
    let (output, _) = session.split_once("```").expect("the session ends");
    let words: Vec<&str> = ["explore"].into_iter().chain(words.split(' ')).collect();
    let (text, error, code) = dir.call(&words);
    assert_eq!(code, Some(1), "{error}");
    // The processor's seconds differ.
    let lines = |text: &str| {
        let lines = text.trim().lines();
        let lines = lines.filter(|line| !line.starts_with("processor seconds"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&text), lines(output));
}

#[test]
fn a_node_pauses_or_dies_at_its_time_on_any_number_of_threads() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "workers", WORKERS, &["-g"]) {
        return;
    }
    let run = |out: &str, fail: &str, threads: &str| {
        let set = format!("nodes.fail=[{fail}]");
        let words = ["mpirun", "--out", out, "--threads", threads, "--set", &set];
        let end = ["-np", "3", "-ppn", "1", "--limit", "2.7s", "./workers"];
        dir.call(&[&words[..], &end].concat())
    };
    let end_of = |out: &str| {
        let text = bytes(&dir.path(out), "summary.json");
        let summary: Value = serde_json::from_slice(&text).expect("this is JSON");
        summary["virtual_time_ps"].as_u64().expect("a time") / 1_000_000
    };
    let pause = r#"{ node = 0, at = "2.585 s", kind = "pause", for = "5 ms" }"#;
    for (out, fail, threads) in [
        ("plain", "", "1"),
        ("one", pause, "1"),
        ("three", pause, "3"),
    ] {
        let (_, error, code) = run(out, fail, threads);
        assert_eq!(code, Some(0), "{error}");
    }
    for name in [
        "trace.bjt",
        "stdout",
        "wire.csv",
        "summary.json",
        "console/node0.log",
    ] {
        assert!(
            bytes(&dir.path("one"), name) == bytes(&dir.path("three"), name),
            "{name} differs"
        );
    }
    // All ranks wait for node 0, whose launcher ends the run, too.
    let later = end_of("one") - end_of("plain");
    assert!((4000..6500).contains(&later), "{later} us");
    let dead = r#"{ node = 1, at = "2.585 s" }"#;
    let (_, error, code) = run("dead", dead, "1");
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("the limit of virtual time was reached"),
        "{error}"
    );
    let (_, error, code) = run("none", r#"{ node = 3, at = "2 s" }"#, "1");
    assert_eq!(code, Some(1));
    assert!(error.contains("nodes.fail.node is 3"), "{error}");
}

/// The time in seconds at which a rank entered its last call.
fn last_entry(dir: &Dir, run: &str, rank: u64) -> f64 {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", run]);
    assert_eq!(code, Some(0), "{error}");
    let calls = dump
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let own = calls.filter(|call| call["rank"] == rank);
    let entries = own.map(|call| call["entry_ps"].as_f64().expect("a time") / 1e12);
    entries.fold(0.0, f64::max)
}

#[test]
fn killed_ranks_end_the_job_and_paused_ones_do_not() {
    let Some(dir) = Dir::new() else { return };
    let words = "--faults kill,pause --fault-ranks 1 --fault-times 2 --keep --compare stdout";
    let more: Vec<&str> = words.split(' ').collect();
    let Some(found) = explored(&dir, "survivor", SURVIVOR, "3", &more) else {
        return;
    };
    let injected = &found["injected"];
    assert_eq!(
        (&injected["runs"], &injected["verdicts"]),
        (&json!(4), &json!({ "noticed": 2, "passed": 2 })),
        "{found}"
    );
    let table = std::fs::read_to_string(dir.path("out/faults.csv")).expect("there is a table");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .map(|line| line.trim_matches('"').split("\",\"").collect())
        .collect();
    let kinds: Vec<[&str; 4]> = rows
        .iter()
        .map(|row| [row[1], row[2], row[3], row[6]])
        .collect();
    let [kill, pause] =
        [("kill", "noticed"), ("pause", "passed")].map(|(kind, verdict)| [kind, "1", "1", verdict]);
    assert_eq!(kinds, [kill, kill, pause, pause]);
    // The rank ends within 2 ms of the given time: it begins no call later.
    let at: f64 = rows[1][4].parse().expect("a time");
    let last = last_entry(&dir, "out/fault-2", 1);
    assert!(last < at + 2e-3 && last > at - 1e-3, "{last} {at}");
    // The scenario gives the same run from the boot.
    let scenario = "out/fault-2/scenario.toml";
    run_again(&dir, scenario, 255);
    for name in ["trace.bjt", "stdout", "stderr", "summary.json"] {
        assert!(
            bytes(&dir.path("out/fault-2"), name) == bytes(&dir.path("again"), name),
            "{name} differs"
        );
    }
}

#[test]
fn a_job_passes_when_a_frame_of_its_message_is_lost() {
    let Some(dir) = Dir::new() else { return };
    let words = "--faults loss --fault-ranks 1 --fault-times 2 --keep --compare stdout";
    let more: Vec<&str> = words.split(' ').collect();
    let Some(found) = explored(&dir, "survivor", SURVIVOR, "3", &more) else {
        return;
    };
    let injected = &found["injected"];
    assert_eq!(
        (&injected["runs"], &injected["verdicts"]),
        (&json!(2), &json!({ "passed": 2 })),
        "{found}"
    );
    let base = summary(&dir, "out/base")["virtual_time_ps"].as_u64();
    for run in ["out/fault-1", "out/fault-2"] {
        let summary = summary(&dir, run);
        let loss = &summary["chosen_losses"][0];
        assert_eq!((&loss["from"], &loss["lost"]), (&json!(1), &json!(1)));
        assert!(loss["first_ps"].as_u64() >= loss["at_ps"].as_u64());
        let lost = |link: &Value| link["up"]["lost"].as_u64().expect("a number");
        let links = summary["links"].as_array().expect("links");
        assert_eq!(links.iter().map(lost).sum::<u64>(), 1, "{summary}");
        assert_eq!(summary["warnings"], json!([]));
        // The data was sent again.
        assert!(summary["virtual_time_ps"].as_u64() > base, "{run}");
    }
    // From the boot, on another number of threads and on two hosts.
    for more in [
        &["--threads", "1"][..],
        &["--launch", "local", "--hosts", "a,b"],
    ] {
        let words = ["run", "--quiet", "--out", "again"];
        let words = [&words[..], more, &["out/fault-1/scenario.toml"]].concat();
        let (_, error, code) = dir.call(&words);
        assert_eq!(code, Some(0), "{error}");
        for name in ["trace.bjt", "stdout", "wire.csv", "summary.json"] {
            assert!(
                bytes(&dir.path("out/fault-1"), name) == bytes(&dir.path("again"), name),
                "{name} differs"
            );
        }
        std::fs::remove_dir_all(dir.path("again")).expect("removed");
    }
}

/// The summary of a run.
fn summary(dir: &Dir, run: &str) -> Value {
    serde_json::from_slice(&bytes(&dir.path(run), "summary.json")).expect("this is JSON")
}

#[test]
fn failures_that_meet_nothing_are_reported() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "workers", WORKERS, &["-g"]) {
        return;
    }
    let losses = r#"network.lose=[{ from = 1, to = 0, at = "9 s" }, { from = 0, to = 1, frame = 12, frames = 2 }, { from = 0, to = 1, frame = 1000000 }]"#;
    let kills = r#"nodes.fail=[{ node = 1, at = "2.58 s", kind = "kill", rank = 7 }, { node = 0, at = "9 s", kind = "kill" }, { node = 2, at = "8 s", kind = "pause", for = "1 ms" }]"#;
    let words = [
        "mpirun", "--quiet", "--out", "run", "--set", losses, "--set", kills,
    ];
    let end = ["-np", "3", "-ppn", "1", "--limit", "10s", "./workers"];
    let (_, error, code) = dir.call(&[&words[..], &end].concat());
    assert_eq!(code, Some(0), "{error}");
    let summary = summary(&dir, "run");
    let lost = |at: usize| summary["chosen_losses"][at]["lost"].as_u64();
    assert_eq!(
        [lost(0), lost(1), lost(2)],
        [Some(2), Some(0), Some(0)],
        "{summary}"
    );
    let missed = |node: usize| &summary["nodes"][node]["missed_kills"][0];
    assert_eq!(missed(1)["rank"], json!(7));
    assert_eq!(missed(0)["is_late"], json!(true));
    let warnings = summary["warnings"].as_array().expect("warnings");
    for words in [
        "loss of 1 frame from node 1 to node 0, from 9.000 s on: this is after the end",
        "network.lose: loss of 1 frame from node 0 to node 1, from number 1000000 on: only 0 came",
        "no process of rank 7 was between MPI_Init and its end",
        "node 0: ranks (all) are killed at 9.000 s: this is after the end",
        "node 2: Pause from 8.000 s to 8.001 s: this is after the end",
    ] {
        let mut all = warnings.iter().filter_map(Value::as_str);
        assert!(
            all.any(|warning| warning.contains(words)),
            "{words}: {warnings:?}"
        );
    }
    assert_eq!(warnings.len(), 5, "{warnings:?}");
}

#[test]
fn a_data_race_between_threads_is_found_by_detours_and_a_lock_passes() {
    let Some(dir) = Dir::new() else { return };
    let words = "--detours 12 --compare stdout";
    let options: Vec<&str> = words.split(' ').collect();
    for (name, flags) in [
        ("counter", &["-pthread"][..]),
        ("locked", &["-pthread", "-DLOCK"]),
    ] {
        if !compiled(&dir, "mpicc.mpich", name, COUNTER, flags) {
            return;
        }
        let found = explored_program(&dir, name, &["1", "--vcpus", "2"], &options);
        assert_eq!(
            (&found["runs"], &found["detours"]["runs"]),
            (&json!(13), &json!(12))
        );
        let last = found["not_explored"][2].as_str();
        assert!(
            last.is_some_and(|text| text.contains("no random detour")),
            "{found}"
        );
        if name == "locked" {
            assert_eq!(found["verdicts"], json!({ "passed": 13 }), "{found}");
            continue;
        }
        let failure = &found["failures"][0];
        assert_eq!(failure["verdict"], "different-result", "{found}");
        assert_eq!(
            failure["delays"].as_array().map(Vec::len),
            Some(1),
            "{failure}"
        );
        let scenario = failure["scenario"].as_str().expect("a path");
        run_again(&dir, scenario, 0);
        assert_eq!(bytes(&dir.path("out/base"), "stdout"), b"2\n");
        assert_eq!(bytes(&dir.path("again"), "stdout"), b"1\n");
        std::fs::rename(dir.path("out"), dir.path("first")).expect("renamed");
    }
}

#[test]
fn bad_options_are_refused_by_name() {
    let Some(dir) = Dir::new() else { return };
    for (options, words) in [
        (["--budget", "0"], "--budget is 0"),
        (["--budget", "x"], "--budget x"),
        (["--patience", "5 parsecs"], "--patience 5 parsecs"),
        (["--tolerance", "2"], "--tolerance is 2"),
        (
            ["--faults=kill", "--fault-length=0s"],
            "--fault-length is 0",
        ),
    ] {
        let (_, error, code) =
            dir.call(&["explore", options[0], options[1], "--out", "out", "a.toml"]);
        assert_eq!(code, Some(1));
        assert!(error.contains(words), "{error}");
    }
    let (_, error, code) = dir.call(&["explore", "--out", "out", "missing.toml"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("the base run did not start") && error.contains("missing.toml"),
        "{error}"
    );
    std::fs::create_dir_all(dir.path("there")).expect("a folder");
    let (_, error, _) = dir.call(&["explore", "--out", "there", "a.toml"]);
    assert!(error.contains("exists already"), "{error}");
}
