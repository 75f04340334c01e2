//! A model of small runs, compared with a larger one: calls and bytes of every function exactly, times approximately.

use std::collections::BTreeMap;
use std::process::Command;

use belljar_tests::{Dir, Scenario, root};
use serde_json::{Value, json};

use crate::mpirun::compiled;

/// A hypercube, a ring, rows in a separate communicator, and reports to rank 0; the total amount of data is the same for any
/// number of ranks.
const PROGRAM: &str = r#"#include <mpi.h>
#include <stdlib.h>
static double work(int n)
{
    volatile double sum = 0;
    for (int i = 0; i < n; i++)
        sum += i * 0.5;
    return sum;
}
int main(int argc, char **argv)
{
    int rank, size, total = atoi(argv[1]);
    double mine = 1, all;
    MPI_Comm row;
    MPI_Request r[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &row);
    int part = total / size, next = (rank + 1) % size, last = (rank + size - 1) % size;
    char *out = calloc(total, 1), *in = calloc(total, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < total / 2048; step++) {
        for (int bit = 1; bit < size; bit *= 2)
            MPI_Sendrecv(out, part, MPI_BYTE, rank ^ bit, 1, in, part, MPI_BYTE, rank ^ bit, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        mine += work(4 * part);
        MPI_Irecv(in, 512, MPI_BYTE, last, 2, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, 512, MPI_BYTE, next, 2, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, row);
        if (step % 4 == 0)
            MPI_Gather(out, part, MPI_BYTE, in, part, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&row);
    MPI_Finalize();
    return 0;
}
"#;

/// Bytes of all ranks together.
const SIZE: u32 = 32768;

fn run(dir: &Dir, nodes: u32, total: u32) -> String {
    let out = format!("run-{nodes}-{total}");
    let command = format!("mpiexec.hydra -n {nodes} ./program {total}");
    let scenario = Scenario::new(nodes, &command).working("files = { program = \"program\" }");
    let _ = dir.run(&scenario, &out, &[]).success();
    out
}

fn told(dir: &Dir, arguments: &[&str]) -> Value {
    let (told, error, code) = dir.call(arguments);
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&told).expect("JSON")
}

/// Calls, bytes sent and received, and milliseconds of each function.
type Functions = BTreeMap<String, ((u64, u64, u64), f64)>;

fn functions(dir: &Dir, out: &str) -> Functions {
    let stat = told(dir, &["trace", "stat", "--json", out]);
    let all = stat["functions"].as_array().expect("functions");
    let of = |function: &Value| {
        let number = |key: &str| function[key].as_u64().unwrap_or(0);
        let moved = (number("calls"), number("sent"), number("received"));
        let name = function["function"].as_str().unwrap_or("?").to_owned();
        let ms = function["total_ps"].as_f64().unwrap_or(0.0) / 1e9;
        (name, (moved, ms))
    };
    all.iter().map(of).collect()
}

/// Picoseconds from the last return from the first barrier to the last return from the last one, as launchers' times for more
/// nodes do not follow from a trace.
fn between_barriers(dir: &Dir, out: &str) -> f64 {
    let (dump, error, code) =
        dir.call(&["trace", "dump", "--json", "--function", "MPI_Barrier", out]);
    assert_eq!(code, Some(0), "{error}");
    let mut ends: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in dump.lines() {
        let call: Value = serde_json::from_str(line).expect("JSON");
        let number = |key: &str| call[key].as_u64().expect("a number");
        let end = number("entry_ps") + number("duration_ps");
        ends.entry(number("rank")).or_default().push(end);
    }
    let last = |of: usize| ends.values().map(|ends| ends[of]).max().expect("ranks");
    (last(1) - last(0)) as f64
}

#[test]
fn a_model_of_small_runs_makes_a_larger_one() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "program", PROGRAM, &["-O1"]) {
        return;
    }
    let runs = [(2, SIZE), (4, SIZE), (8, SIZE), (4, SIZE / 2)];
    let runs = runs.map(|(nodes, total)| format!("{}={total}", run(&dir, nodes, total)));
    let words: Vec<&str> = runs.iter().map(String::as_str).collect();
    let fitted = told(
        &dir,
        &[&["model", "fit", "--json", "--out", "a.model"], &words[..]].concat(),
    );
    assert_eq!(fitted["classes"], 1, "{fitted}");
    let made = [
        "model",
        "generate",
        "a.model",
        "--nodes",
        "16",
        "--size",
        &SIZE.to_string(),
        "--out",
        "made",
        "--json",
    ];
    assert_eq!(told(&dir, &made)["ranks"], 16);
    let large = run(&dir, 16, SIZE);
    let (is, was) = (functions(&dir, "made"), functions(&dir, &large));
    let moved = |all: &Functions| -> Vec<(String, (u64, u64, u64))> {
        all.iter()
            .map(|(name, (moved, _))| (name.clone(), *moved))
            .collect()
    };
    assert_eq!(moved(&is), moved(&was));
    let ratio = between_barriers(&dir, "made") / between_barriers(&dir, &large);
    // From 2, 4 and 8 nodes, whose messages use other protocols than with 16; docs/model.md has the accuracy with more runs.
    assert!((0.7..1.3).contains(&ratio), "{ratio}: {is:?} {was:?}");
    // Every command accepts it.
    let wait = told(&dir, &["trace", "wait", "--json", "made"]);
    assert!(wait.is_object(), "{wait}");
    let again = told(&dir, &["replay", "made", "--json"]);
    let (total, traced) = (again["total_ps"].as_f64(), again["traced_ps"].as_f64());
    let ratio = total.unwrap() / traced.unwrap();
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
    is_a_motif(&dir, &is);
    // A program without a rule is refused, with the call.
    let (_, error, code) = dir.call(&[
        "model", "generate", "a.model", "--nodes", "0", "--out", "none",
    ]);
    assert_eq!(code, Some(1));
    assert!(error.contains("0 ranks are none"), "{error}");
}

/// The model as a motif of Ember, whose ranks perform the calls of the generated trace.
fn is_a_motif(dir: &Dir, made: &Functions) {
    let arguments = [
        "model", "export", "ember", "a.model", "--name", "Small", "--out", "motif",
    ];
    let (_, error, code) = dir.call(&arguments);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        error.contains("MPI_Gather is messages to the root"),
        "{error}"
    );
    let (folder, stub) = (dir.path("motif"), root().join("tests/ember"));
    let mut compiler = Command::new("g++");
    compiler
        .current_dir(&folder)
        .args(["-std=c++17", "-Wall", "-Werror", "-o", "motif"]);
    compiler.args([
        "-DMOTIF_HEADER=\"emberSmall.h\"",
        "-DMOTIF=EmberSmallGenerator",
        "-I.",
    ]);
    compiler
        .arg("-I")
        .arg(&stub)
        .arg(stub.join("main.cc"))
        .arg("emberSmall.cc");
    let Ok(output) = compiler.output() else {
        eprintln!("SKIPPED: g++ is not installed (apt install g++)");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut motif = Command::new(folder.join("motif"));
    let output = motif
        .current_dir(&folder)
        .args(["16", &SIZE.to_string()])
        .output()
        .unwrap();
    let done: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&done["ended"], &done["unmatched"], &done["pending"]),
        (&json!(true), &json!(0), &json!(0))
    );
    let of = |name: &str| {
        let number = |at: usize| done[name][at].as_u64().unwrap_or(0);
        (number(0), number(1))
    };
    let calls = |name: &str| made[name].0;
    let (isends, bytes, _) = calls("MPI_Isend");
    assert_eq!(of("isend"), (isends, bytes));
    assert_eq!(of("allreduce").0, calls("MPI_Allreduce").0);
    assert_eq!(of("allreduce").1, calls("MPI_Allreduce").1);
    assert_eq!(of("split").0, 1);
    let exchanged = calls("MPI_Sendrecv");
    // All but the root of each gather send their part.
    let (gathers, gathered, _) = calls("MPI_Gather");
    let sent = of("send");
    assert_eq!(sent.0, exchanged.0 + gathers / 16 * 15, "{done}");
    assert_eq!(sent.1, exchanged.1 + gathered / 16 * 15, "{done}");
    assert_eq!(
        of("recv"),
        (gathers / 16 * 15, gathered / 16 * 15),
        "{done}"
    );
    // A thread's own time: the model's time between calls, without spread.
    assert!(done["computed_ns"].as_u64() > Some(250_000), "{done}");
}
