//! Some iterations of a main loop are kept, and with the sums of the others the statistics are the same.

use std::thread;
use std::time::Duration;

use belljar_tests::{Dir, Outcome, Scenario, newest_checkpoint};
use serde_json::Value;

use crate::mpirun::compiled;

/// Five hundred steps: a ring of messages, an allreduce, and work of varying length; other calls precede and follow them.
const STEPS: &str = r#"#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, data[64] = {0}, sum[64];
    volatile int work;
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Bcast(data, 64, MPI_INT, 0, MPI_COMM_WORLD);
    for (int step = 0; step < 500; step++) {
        int count = 1 + step % 64;
        if (rank == 0 && step == 250) {
            puts("half");
            fflush(stdout);
        }
        MPI_Irecv(sum, 64, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(data, count, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (work = 0; work < 1000 * (step % 7); work++)
            ;
        MPI_Allreduce(data, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Gather(data, 1, MPI_INT, sum, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"#;

/// Options of a run that keeps some iterations.
const KEEP: [&str; 2] = ["--set", "trace.collect=\"10 iterations\""];

/// All of a run's files except its trace.
fn assert_undisturbed(whole: &Outcome, kept: &Outcome) {
    let of_trace = ["trace.bjt", "scenario.toml", "plan.txt", "host.json"];
    let mut others = whole.files();
    others.retain(|name| !of_trace.contains(&name.as_str()));
    assert!(others.len() > 6, "{others:?}");
    for name in others {
        assert!(whole.bytes(&name) == kept.bytes(&name), "{name}");
    }
}

fn scenario(dir: &Dir) -> Option<Scenario> {
    let there = compiled(dir, "mpicc.mpich", "steps", STEPS, &["-O1"]);
    let scenario = Scenario::new(4, "mpiexec.hydra -n 4 ./steps");
    there.then(|| scenario.working("files = { steps = \"steps\" }"))
}

fn stat(dir: &Dir, out: &str, more: &[&str]) -> Value {
    let (text, error, code) = dir.call(&[&["trace", "stat", "--json", out], more].concat());
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&text).expect("statistics are JSON")
}

/// The numbers of `keys` of each row of a table, with the row's name.
fn figures(stat: &Value, table: &str, name: &str, keys: &[&str]) -> Vec<(String, Vec<u64>)> {
    let rows = stat[table].as_array().expect("a table");
    let figures = rows.iter().map(|row| {
        let figures = keys.iter().map(|key| row[*key].as_u64().expect("a number"));
        (row[name].to_string(), figures.collect())
    });
    let mut figures: Vec<_> = figures.collect();
    figures.sort();
    figures
}

/// Sums of rounded picoseconds are off by one for each call, at most.
fn assert_about(kept: &Value, whole: &Value, table: &str, name: &str, keys: &[&str]) {
    let [kept, whole] = [kept, whole].map(|it| figures(it, table, name, keys));
    assert_eq!(kept.len(), whole.len());
    for ((one, found), (other, expected)) in kept.iter().zip(&whole) {
        assert_eq!(one, other);
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                found.abs_diff(*expected) < 5000,
                "{table}: {kept:?} {whole:?}"
            );
        }
    }
}

fn assert_same_statistics(dir: &Dir, kept: &str, whole: &str) {
    let [kept, whole] = [kept, whole].map(|out| stat(dir, out, &[]));
    for (table, name, keys) in [
        (
            "functions",
            "function",
            &["calls", "nested", "seen", "returned", "sent", "received"][..],
        ),
        ("ranks", "rank", &["calls", "sent", "received", "node"]),
    ] {
        let [found, expected] = [&kept, &whole].map(|it| figures(it, table, name, keys));
        assert_eq!(found, expected);
    }
    assert_about(
        &kept,
        &whole,
        "functions",
        "function",
        &["min_ps", "mean_ps", "max_ps", "total_ps"],
    );
    assert_about(&kept, &whole, "ranks", "rank", &["compute_ps", "mpi_ps"]);
    let [found, expected] = [&kept, &whole].map(|it| &it["intervals"]);
    assert_eq!(found["count"], expected["count"]);
    let mean = |it: &Value| it["harmonic_mean_cycles"].as_f64().expect("a number");
    let (found, expected) = (mean(found), mean(expected));
    assert!(
        (found - expected).abs() < 1e-6 * expected,
        "{found} {expected}"
    );
    assert_eq!(
        kept["unresolved_collectives"],
        whole["unresolved_collectives"]
    );
    assert_eq!(kept["inexact_received"], whole["inexact_received"]);
}

#[test]
fn some_iterations_tell_the_statistics_of_all() {
    let Some(dir) = Dir::new() else { return };
    let Some(scenario) = scenario(&dir) else {
        return;
    };
    let whole = dir.run(&scenario, "whole", &[]).success();
    let kept = dir.run(&scenario, "kept", &KEEP).success();
    assert_undisturbed(&whole, &kept);
    assert_same_statistics(&dir, "kept", "whole");
    let said = stat(&dir, "kept", &[]);
    let iterations = said["kept"]["iterations"].as_u64().expect("a number");
    assert!((10..40).contains(&iterations), "{said:#}");
    assert!(
        said["kept"]["dropped_calls"].as_u64() > Some(4 * 5 * 400),
        "{said:#}"
    );

    // The same for the whole trace, later.
    let arguments = [
        "trace",
        "collect",
        "whole",
        "--iterations",
        "10",
        "--out",
        "later",
    ];
    let (told, error, code) = dir.call(&arguments);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        told.contains("iterations of the main loop were kept"),
        "{told}"
    );
    assert!(
        told.contains("MPI_Waitall") && told.contains("MPI_Irecv to MPI_Isend"),
        "{told}"
    );
    for name in ["trace.bjt", "collected.json"] {
        let later = std::fs::read(dir.path("later").join(name)).expect("a file");
        assert!(later == kept.bytes(name), "{name} differs");
    }

    // Commands that need all calls refuse it, and others print a warning.
    let (_, error, code) = dir.call(&["replay", "kept"]);
    assert!(
        code == Some(1) && error.contains("run it without trace.collect"),
        "{error}"
    );
    for command in ["stat", "dump", "graph", "loops", "wait", "path", "matrix"] {
        let (_, error, code) = dir.call(&["trace", command, "kept"]);
        assert_eq!(code, Some(0), "{error}");
        let lines = error
            .lines()
            .filter(|line| line.contains("iterations of the main loop"));
        assert_eq!(lines.count(), 1, "{command}: {error}");
    }
    let (_, error, _) = dir.call(&["trace", "stat", "whole"]);
    assert!(!error.contains("iterations"), "{error}");
    std::fs::write(dir.path("kept/collected.json"), "{}").expect("the folder is writable");
    let (_, error, code) = dir.call(&["trace", "stat", "kept"]);
    assert!(
        code == Some(1) && error.contains("collected.json"),
        "{error}"
    );
}

#[test]
fn threads_hosts_and_checkpoints_keep_the_same_iterations() {
    let Some(dir) = Dir::new() else { return };
    let Some(scenario) = scenario(&dir) else {
        return;
    };
    let scenario = scenario.with("[checkpoint]\nevery = \"20 ms\"");
    let one = dir.run(&scenario, "one", &KEEP).success();
    let by_two = [&KEEP[..], &["--threads", "2"]].concat();
    // Interrupted at a checkpoint within the loop, or some time after it.
    let folder = dir.path("broken.incomplete");
    let mut child = dir.start_with(&scenario, "broken", &by_two);
    let mut wait_for = |what: &dyn Fn() -> bool| {
        while !what() && child.try_wait().expect("a child").is_none() {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let output = || std::fs::read_to_string(folder.join("stdout")).unwrap_or_default();
    wait_for(&|| output().contains("half"));
    let before = newest_checkpoint(&folder);
    wait_for(&|| newest_checkpoint(&folder) > before);
    child.kill().expect("a child");
    child.wait().expect("a child");
    if folder.exists() {
        let (_, error, _) = dir.call(&["trace", "stat", "broken.incomplete"]);
        assert!(
            error.contains("iterations of the main loop may be missing"),
            "{error}"
        );
        let hosts = ["--launch", "local", "--threads", "1", "--hosts", "one,two"];
        one.assert_same(&dir.resume("broken", &hosts));
    }
}
