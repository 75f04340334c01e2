//! Profiles of a program with known shares of functions.

use std::process::Command;

use belljar_tests::{Dir, Outcome, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Three quarters of the work in one function, a quarter in another one.
const WORKING: &str = r"#include <mpi.h>
static volatile unsigned long sum;
__attribute__((noinline, noclone)) static void heavy(void)
{
    for (unsigned long i = 0; i < 300000; i++)
        sum += 3 * i;
}
__attribute__((noinline, noclone)) static void light(void)
{
    for (unsigned long i = 0; i < 100000; i++)
        sum += 5 * i;
}
__attribute__((noinline, noclone)) static void work(int rank)
{
    for (int i = 0; i < 10 * (rank + 1); i++) {
        heavy();
        light();
    }
    sum++;
}
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    work(rank);
    MPI_Finalize();
    return sum == 0;
}
";

fn scenario(more: &str) -> Scenario {
    Scenario::new(2, "mpiexec.hydra -n 2 ./working")
        .working("files = { working = \"working\" }")
        .with(more)
}

/// A folder with the program.
fn working() -> Option<Dir> {
    let dir = Dir::new()?;
    let flags = ["-O1", "-g", "-fomit-frame-pointer"];
    compiled(&dir, "mpicc.mpich", "working", WORKING, &flags).then_some(dir)
}

/// The output of `belljar profile`.
fn told(dir: &Dir, arguments: &[&str]) -> String {
    let arguments = [&["profile"], arguments].concat();
    let (told, error, code) = dir.call(&arguments);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    told
}

/// Samples in a function, and in it or its callees.
fn samples(profile: &Value, name: &str) -> (f64, f64) {
    let functions = profile["functions"].as_array().expect("functions");
    let found = functions.iter().find(|it| it["function"] == name);
    let found = found.unwrap_or_else(|| panic!("{name} is not in {profile:#}"));
    let number = |key: &str| found[key].as_f64().expect("a number");
    (number("self"), number("total"))
}

/// All of a run's files except its profile.
fn assert_undisturbed(plain: &Outcome, profiled: &Outcome) {
    let mut others = plain.files();
    others.retain(|name| !matches!(name.as_str(), "host.json" | "plan.txt" | "scenario.toml"));
    assert!(others.len() > 6, "{others:?}");
    for name in others {
        assert!(plain.bytes(&name) == profiled.bytes(&name), "{name}");
    }
}

#[test]
fn shares_are_those_of_the_work_and_nothing_is_disturbed() {
    let Some(dir) = working() else { return };
    let run = |out: &str, more: &str, threads: &str| {
        dir.run(&scenario(more), out, &["--threads", threads])
            .success()
    };
    let plain = run("plain", "", "2");
    let profiled = run("profiled", "[profile]\nevery = \"10 us\"\n", "1");
    assert_undisturbed(&plain, &profiled);
    let of_rank = |rank: &str| -> Value {
        let told = told(&dir, &["profiled", "--json", "--rank", rank]);
        serde_json::from_str(&told).expect("JSON")
    };
    let [first, second] = ["0", "1"].map(of_rank);
    for profile in [&first, &second] {
        let (heavy, light) = (samples(profile, "heavy"), samples(profile, "light"));
        let ratio = heavy.0 / light.0;
        assert!((2.85..3.15).contains(&ratio), "{ratio}: {profile:#}");
        // Its caller has all of it, and almost no samples of its own.
        let (own, work) = samples(profile, "work");
        assert!(
            work >= heavy.1 + light.1 && own <= 0.02 * work,
            "{profile:#}"
        );
        assert_eq!(samples(profile, "main").0, 0.0, "{profile:#}");
    }
    let ratio = samples(&second, "work").1 / samples(&first, "work").1;
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
    let (_, error, code) = dir.call(&["profile", "plain"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("--set profile.every=100us"), "{error}");
}

/// Go's own reader of the format shows the functions' shares.
fn read_by_pprof(dir: &Dir) {
    let file = dir.path("a.pb.gz");
    let mut command = Command::new("go");
    let command = command
        .args(["tool", "pprof", "-top", "-focus=;?work$"])
        .arg(&file);
    let Ok(output) = command.env("HOME", dir.path(".")).output() else {
        eprintln!("SKIPPED: there is no go whose pprof could read the profile");
        return;
    };
    let top = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{top}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // flat, its share, the sum of shares, cumulative, its share, the function.
    let flat = |name: &str| -> f64 {
        let line = top.lines().find(|line| line.trim_end().ends_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name}: {top}"));
        let share = line
            .split_whitespace()
            .nth(1)
            .and_then(|it| it.strip_suffix('%'));
        share
            .and_then(|it| it.parse().ok())
            .unwrap_or_else(|| panic!("{line}"))
    };
    let ratio = flat("heavy") / flat("light");
    assert!((2.8..3.2).contains(&ratio), "{top}");
}

#[test]
fn a_profile_is_told_in_all_forms() {
    let Some(dir) = working() else { return };
    let every = "[profile]\nevery = \"20 us\"\nframes = 16\n";
    let _ = dir.run(&scenario(every), "out", &[]).success();
    let folded = told(
        &dir,
        &[
            "out", "--folded", "--by", "rank", "--svg", "a.svg", "--pprof", "a.pb.gz",
        ],
    );
    let stack = "rank 1;";
    let line = folded
        .lines()
        .find(|line| line.starts_with(stack) && line.contains(";main;work;heavy "));
    assert!(line.is_some(), "{folded}");
    // Also code outside of MPI, and the kernel on behalf of processes and for itself.
    assert!(folded.contains("node 0;"), "{folded}");
    let in_kernel = |line: &&str| line.contains(";main;") && line.contains(";[kernel];");
    assert!(folded.lines().any(|line| in_kernel(&line)), "{folded}");
    let picture = std::fs::read_to_string(dir.path("a.svg")).expect("a picture");
    assert!(picture.starts_with("<svg ") && picture.contains("<title>heavy ("));
    let packed = std::fs::read(dir.path("a.pb.gz")).expect("a file");
    assert_eq!(packed[..2], [0x1f, 0x8b]);
    read_by_pprof(&dir);
    let table = told(&dir, &["out", "--node", "1", "--from", "1 s"]);
    assert!(
        table.contains("idle for ") && table.contains("self "),
        "{table}"
    );
    side_by_side(&dir);
}

/// Several profiles side by side have the figures of each.
fn side_by_side(dir: &Dir) {
    let every = "[profile]\nevery = \"97 us\"\nframes = 16\n";
    let _ = dir.run(&scenario(every), "other", &[]).success();
    let both = told(dir, &["out", "other"]);
    let heads = "  function  self a  b  time a  b  total a  b";
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        both.lines().any(|line| words(line) == words(heads)),
        "{both}"
    );
    let line = both
        .lines()
        .find(|line| line.trim_start().starts_with("heavy "));
    let line = line.unwrap_or_else(|| panic!("heavy is not in {both}"));
    assert_eq!(line.matches('%').count(), 4, "{line}");
    let json = told(dir, &["--json", "out", "other"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    for (number, name) in ["out", "other"].into_iter().enumerate() {
        let alone = told(dir, &["--json", name]);
        let alone: Value = serde_json::from_str(&alone).expect("JSON");
        assert_eq!(json["runs"][number]["run"], name);
        assert_eq!(json["runs"][number]["result"], alone);
    }
    let (_, error, code) = dir.call(&["profile", "--folded", "out", "other"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("one run at a time"), "{error}");
}
