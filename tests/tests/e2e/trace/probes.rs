//! The user's probes: functions with known numbers of calls and known arguments.

use std::collections::BTreeMap;

use belljar_tests::{Dir, Outcome, Scenario};
use serde_json::{Value, json};

use crate::mpirun::compiled;

const PROBED: &str = r#"#include <mpi.h>
#include <setjmp.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static jmp_buf out;
volatile double sum;
void *volatile block;
const char *const names[] = {"apple", "", "zw\303\266lf", "plum", "fig"};
__attribute__((noinline)) double weigh(int number, const char *name, double weight)
{
    sum += weight + name[0];
    return number * weight;
}
__attribute__((noinline)) int deeper(int left)
{
    int below = left ? deeper(left - 1) : 0;
    sum += below;
    return below + 1;
}
__attribute__((noinline)) void leap(int number)
{
    sum += number;
    if (number % 2)
        longjmp(out, 1);
}
__attribute__((noinline)) void nothing(void)
{
    __asm__ volatile("");
}
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 5; i++)
        sum += weigh(i - 2, names[i], i + rank + 0.5);
    sum += deeper(3);
    for (volatile int i = 0; i < 4; i++)
        if (!setjmp(out))
            leap(i);
    nothing();
    int null = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 5; i++)
        sum += write(null, argv, 31337 + 10 * rank + i);
    close(null);
    for (int i = 0; i < 2; i++)
        usleep(2345);
    MPI_Barrier(MPI_COMM_WORLD);
    block = malloc(777000 + rank);
    free(block);
    MPI_Finalize();
    return sum == 0;
}
"#;

const PROBES: &str = r#"
[[trace.probe]]
file = "probed"
symbol = "weigh"
arguments = ["i32", "string", "f64"]
result = "f64"
[[trace.probe]]
file = "probed"
symbol = "deeper"
arguments = ["i32"]
result = "i32"
[[trace.probe]]
file = "/root/pro*"
symbol = "leap"
arguments = ["i32"]
[[trace.probe]]
file = "probed"
symbol = "nothing"
[[trace.probe]]
file = "probed"
symbol = "nothing"
name = "entered"
at = "entry"
[[trace.probe]]
file = "/lib/x86_64-linux-gnu/libc.so.6"
symbol = "malloc"
arguments = ["u64"]
result = "pointer"
[[trace.probe]]
file = "/usr/lib/x86_64-linux-gnu/libmpich.so*"
symbol = "PMPI_Barrier"
name = "barrier"
at = "return"
result = "i32"
[[trace.probe]]
file = "kernel"
symbol = "vfs_write"
arguments = ["pointer", "pointer", "u64"]
result = "i64"
[[trace.probe]]
file = "kernel"
symbol = "hrtimer_nanosleep"
name = "sleep"
arguments = ["i64"]
"#;

fn scenario(probes: &str) -> Scenario {
    Scenario::new(2, "mpiexec.hydra -n 2 ./probed")
        .working("files = { probed = \"probed\" }")
        .with(probes)
}

/// A folder with the program.
fn probed() -> Option<Dir> {
    let dir = Dir::new()?;
    compiled(&dir, "mpicc.mpich", "probed", PROBED, &["-O1"]).then_some(dir)
}

/// The lines of a dump: those of MPI calls, and the objects of probes by their names.
fn dumped(dir: &Dir, out: &str) -> (Vec<String>, BTreeMap<String, Vec<Value>>) {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", out]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let (mut calls, mut probes) = (Vec::new(), BTreeMap::<_, Vec<Value>>::new());
    for line in dump.lines() {
        let object: Value = serde_json::from_str(line).expect("JSON");
        match object["probe"].as_str() {
            Some(name) => probes
                .entry(name.to_owned())
                .or_default()
                .push(object.clone()),
            None => calls.push(line.to_owned()),
        }
    }
    (calls, probes)
}

/// Arguments, result, depth, and completion of the records of a rank.
fn told(records: &[Value], rank: u32) -> Vec<(Value, Value, u64, bool)> {
    let own = records.iter().filter(|it| it["rank"] == rank);
    own.map(|it| {
        assert_eq!(it["program"], "./probed", "{it}");
        let depth = it["depth"].as_u64().expect("a depth");
        let returned = it["duration_ps"].is_u64();
        (
            it["arguments"].clone(),
            it["result"].clone(),
            depth,
            returned,
        )
    })
    .collect()
}

fn assert_arguments(probes: &BTreeMap<String, Vec<Value>>, rank: u32) {
    let names = ["apple", "", "zwölf", "plum", "fig"];
    let weighed = (0..5_i32).zip(names).map(|(i, name)| {
        let weight = f64::from(i) + f64::from(rank) + 0.5;
        let result = f64::from(i - 2) * weight;
        (json!([i - 2, name, weight]), json!(result), 0, true)
    });
    assert_eq!(told(&probes["weigh"], rank), weighed.collect::<Vec<_>>());
    let deep = (0..4).map(|left| (json!([left]), json!(left + 1), 3 - left, true));
    assert_eq!(told(&probes["deeper"], rank), deep.collect::<Vec<_>>());
    let mut leaps = told(&probes["leap"], rank);
    leaps.sort_by_key(|(arguments, ..)| arguments[0].as_u64());
    let expected = (0..4).map(|i| (json!([i]), Value::Null, 0, i % 2 == 0));
    assert_eq!(leaps, expected.collect::<Vec<_>>());
    assert_eq!(
        told(&probes["nothing"], rank),
        [(json!([]), Value::Null, 0, true)]
    );
    assert_eq!(
        told(&probes["entered"], rank),
        [(json!([]), Value::Null, 0, false)]
    );
    let large = json!([777_000 + rank]);
    let mut blocks = told(&probes["malloc"], rank);
    blocks.retain(|(arguments, ..)| *arguments == large);
    assert_eq!(blocks.len(), 1);
    let address = blocks[0].1.as_str().expect("an address");
    assert!(address.starts_with("0x") && address.len() > 4, "{address}");
}

/// The kernel's actions for a rank: writes of known lengths, and sleeps, during which others ran.
fn assert_kernel(probes: &BTreeMap<String, Vec<Value>>, rank: u32) {
    let known = 31_337 + 10 * rank..31_342 + 10 * rank;
    let mut writes = told(&probes["vfs_write"], rank);
    writes.retain_mut(|(arguments, ..)| {
        *arguments = arguments[2].clone();
        known.clone().any(|length| *arguments == length)
    });
    let expected = known.map(|length| (json!(length), json!(length), 0, true));
    assert_eq!(writes, expected.collect::<Vec<_>>());
    let own = |it: &&Value| it["rank"] == rank && it["arguments"] == json!([2_345_000]);
    let sleeps = probes["sleep"].iter().filter(own);
    let lasted: Vec<u64> = sleeps
        .map(|it| it["duration_ps"].as_u64().expect("a return"))
        .collect();
    // 2.345 ms, plus the timer and the return.
    let near = |lasted: &u64| (2_345_000_000..3_000_000_000).contains(lasted);
    assert!(lasted.len() == 2 && lasted.iter().all(near), "{lasted:?}");
}

/// The barrier's own probe has the cycles of its call in the trace.
fn assert_same_barrier(calls: &[String], probes: &BTreeMap<String, Vec<Value>>) {
    let calls = calls
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let barriers: Vec<Value> = calls
        .filter(|it: &Value| it["function"] == "MPI_Barrier")
        .collect();
    assert_eq!((barriers.len(), probes["barrier"].len()), (2, 2));
    for key in ["node", "rank", "process", "entry", "exit", "result"] {
        let values =
            |all: &[Value]| -> Vec<Value> { all.iter().map(|it| it[key].clone()).collect() };
        assert_eq!(values(&barriers), values(&probes["barrier"]), "{key}");
    }
}

fn assert_statistics(dir: &Dir) {
    let (stat, error, code) = dir.call(&["trace", "stat", "--json", "probed-1"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let stat: Value = serde_json::from_str(&stat).expect("JSON");
    let counts = |name: &str| {
        let probes = stat["probes"].as_array().expect("probes");
        let found = probes.iter().find(|probe| probe["probe"] == name);
        let found = found.expect("a probe");
        let ranks = found["ranks"].as_array().expect("ranks").len();
        (found["calls"].as_u64(), found["returned"].as_u64(), ranks)
    };
    assert_eq!(counts("weigh"), (Some(10), Some(10), 2));
    assert_eq!(counts("leap"), (Some(8), Some(4), 2));
    assert_eq!(counts("entered"), (Some(2), Some(0), 2));
    let (text, _, code) = dir.call(&["trace", "stat", "probed-1", "--rank", "1"]);
    assert_eq!(code, Some(0));
    let row = text
        .lines()
        .find(|line| line.contains("weigh"))
        .expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..3], ["weigh", "5", "5"], "{text}");
    let (lines, _, _) = dir.call(&[
        "trace",
        "dump",
        "probed-1",
        "--function",
        "weigh",
        "--rank",
        "1",
    ]);
    assert_eq!(lines.lines().count(), 5, "{lines}");
    assert!(lines.contains("weigh(2, \"fig\", 5.5) = 11.0 <"), "{lines}");
}

#[test]
fn calls_are_told_with_arguments_and_results_and_change_nothing() {
    let Some(dir) = probed() else { return };
    let run = |out: &str, probes: &str, threads: &str| -> Outcome {
        let run = dir.run(&scenario(probes), out, &["--threads", threads]);
        run.success()
    };
    let plain = run("plain", "", "2");
    let one = run("probed-1", PROBES, "1");
    for file in [
        "trace.bjt",
        "summary.json",
        "wire.csv",
        "stdout",
        "console/node0.log",
    ] {
        assert!(plain.bytes(file) == one.bytes(file), "{file}");
    }
    assert!(!plain.files().contains(&"probes.bjc".to_owned()));
    let (calls, none) = dumped(&dir, "plain");
    let (same_calls, probes) = dumped(&dir, "probed-1");
    assert!(calls == same_calls && none.is_empty());
    for rank in 0..2 {
        assert_arguments(&probes, rank);
        assert_kernel(&probes, rank);
    }
    assert_same_barrier(&calls, &probes);
    assert_statistics(&dir);
}

/// Records besides calls are the same on several hosts, and after an interruption and resumption.
#[test]
fn hosts_and_checkpoints_change_nothing_of_what_probes_and_profiles_tell() {
    let Some(dir) = probed() else { return };
    let again = "for i in 1 2; do mpiexec.hydra -n 2 ./probed; done";
    let scenario = Scenario::new(2, again)
        .working("files = { probed = \"probed\" }")
        .with(&format!(
            "[checkpoint]\nevery = \"20 ms\"\n[profile]\nevery = \"100 us\"\n{PROBES}"
        ));
    let apart = "--launch local --threads 1 --hosts one,two";
    let apart: Vec<&str> = apart.split(' ').collect();
    let whole = dir.run(&scenario, "whole", &[]).success();
    let (_, probes) = dumped(&dir, "whole");
    assert_eq!(probes["weigh"].len(), 2 * 10);
    dir.run_to_checkpoint(&scenario, "two", 2, &["--threads", "2"]);
    whole.assert_same(&dir.resume("two", &apart));
}

#[test]
fn what_cannot_be_probed_is_refused_before_anything_runs() {
    let Some(dir) = probed() else { return };
    let libc = "file = \"/lib/x86_64-linux-gnu/libc.so.6\"";
    for (probe, words) in [
        (
            "file = \"probed\"\nsymbol = \"weihg\"",
            "has no function `weihg`, but `weigh`",
        ),
        (
            "file = \"/no/such.so\"\nsymbol = \"f\"",
            "has a file /no/such.so",
        ),
        (
            "file = \"probed\"\naddress = \"0x10\"",
            "has no code at 0x10",
        ),
        (&format!("{libc}\nsymbol = \"memcpy\""), "several versions"),
        (
            "file = \"kernel\"\nsymbol = \"vfs_wriet\"",
            "has no function `vfs_wriet`, but vfs_write",
        ),
        (
            "file = \"kernel\"\naddress = \"0x10\"",
            "has no function at 0x10",
        ),
    ] {
        let scenario = scenario(&format!("[[trace.probe]]\n{probe}\n"));
        let run = dir.run(&scenario, "refused", &[]);
        assert_eq!(run.code, Some(1), "{probe}");
        assert!(run.stderr.contains(words), "{probe}: {}", run.stderr);
    }
}
