//! Polls without success are combined, and no other record changes.

use std::collections::BTreeMap;

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

/// The exact figures of each function, for any recording of polls.
fn functions(dir: &Dir, out: &str) -> BTreeMap<String, Vec<u64>> {
    let (stat, error, code) = dir.call(&["trace", "stat", "--json", out]);
    assert_eq!(code, Some(0), "{error}");
    let stat: Value = serde_json::from_str(&stat).expect("statistics are JSON");
    let functions = stat["functions"].as_array().expect("a list of functions");
    let figures = functions.iter().map(|function| {
        let figures = ["calls", "returned", "min_ps", "max_ps", "total_ps", "sent"];
        let figures = figures.map(|key| function[key].as_u64().expect("a number"));
        let name = function["function"].as_str().expect("a name");
        (name.to_owned(), figures.to_vec())
    });
    figures.collect()
}

#[test]
fn folded_polls_are_the_calls_that_they_stand_for() {
    let Some(dir) = Dir::new() else { return };
    // Far apart, so that ranks poll thousands of times.
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 counters 2");
    let scenario = scenario.with("[network]\nlatency = \"2 ms\"");
    let folded = dir.run(&scenario, "folded", &["--set", "trace.polls=folded"]);
    let folded = folded.success();
    let each = dir.run(&scenario, "each", &["--set", "trace.polls=each"]);
    let each = each.success();
    // The program's behaviour is exactly the same: consoles, packets, times, calls.
    folded.assert_same_but(&each, &["trace.bjt", "scenario.toml", "plan.txt"]);
    let [found, expected] = ["folded", "each"].map(|out| functions(&dir, out));
    assert!(expected["MPI_Test"][0] > 1000, "{expected:?}");
    assert_eq!(found, expected);
    let [small, large] = [&folded, &each].map(|run| run.bytes("trace.bjt").len());
    assert!(
        small < large,
        "{small} bytes folded, {large} each by itself"
    );
    let (diff, error, code) = dir.call(&["trace", "diff", "--json", "folded", "each"]);
    let diff: Value = serde_json::from_str(&diff).unwrap_or_else(|_| panic!("{error}"));
    assert_eq!(
        (&diff["equal"], code),
        (&Value::Bool(true), Some(0)),
        "{diff:#}"
    );
}
