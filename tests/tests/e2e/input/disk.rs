//! Disks that fail or fill up, at each file in turn and at random places: a file with its
//! final name is whole, and an unwritable file is reported.
//!
//! A library preloaded into `belljar` makes calls fail that write below a folder (`faults.c`).
//! It must query the host for the file of a call, so there is no sandbox.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use belljar_tests::{Dir, Outcome, Scenario, newest_checkpoint};

/// Number of runs with a failure at a random place.
const TRIES: u64 = 4;

/// A working folder, and the library, which needs a C compiler.
fn with_faults() -> Option<(Dir, PathBuf)> {
    let dir = Dir::new()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/input/faults.c");
    let library = dir.path("faults.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .args(["-ldl"])
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "faults.c does not compile"),
        Err(error) => {
            eprintln!("SKIPPED: failures of the disk are made by a library, and cc: {error}");
            return None;
        }
    }
    Some((dir, library))
}

/// Runs `belljar` with `arguments` and calls that fail by `faults`; returns standard error and
/// exit code.
fn call(
    dir: &Dir,
    library: &Path,
    faults: &[(&str, &str)],
    arguments: &[&str],
) -> (String, Option<i32>) {
    let below = dir.path(arguments.last().expect("the folder comes last"));
    let output = dir
        .command(arguments)
        .env("LD_PRELOAD", library)
        .env("FAULTS_BELOW", below)
        .envs(faults.iter().copied())
        .output()
        .expect("belljar starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (error, output.status.code())
}

/// The same for the scenario in `s.toml`.
fn run(dir: &Dir, library: &Path, faults: &[(&str, &str)], out: &str) -> (String, Option<i32>) {
    let arguments = ["run", "s.toml", "--quiet", "--no-sandbox", "--pcap", "all"];
    let arguments = [&arguments[..], &["--out", out]].concat();
    call(dir, library, faults, &arguments)
}

/// Two nodes that communicate, with all kinds of records.
fn talking() -> Scenario {
    Scenario::new(2, "ping -c 1 node1; echo done >&2").with("[network]\nstatistics = \"1 ms\"")
}

fn some_number(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}

/// Asserts that no incomplete file has its final name, and that a run that reports success has
/// a complete result.
fn assert_honest(whole: &Outcome, dir: &Dir, out: &str, ended: &(String, Option<i32>), at: &str) {
    let is_named = dir.path(out).is_dir();
    assert!(is_named || ended.1 != Some(0), "{at}: {}", ended.0);
    if is_named {
        whole.assert_same(&dir.outcome(out));
    }
}

#[test]
fn no_run_ends_well_whose_files_are_not_whole() {
    let Some((dir, library)) = with_faults() else {
        return;
    };
    let scenario = talking();
    let whole = dir.run(&scenario, "whole", &["--pcap", "all"]).success();
    dir.write("s.toml", &scenario.text());
    let files: Vec<String> = whole.files();
    assert!(files.len() >= 9, "{files:?}");
    for (number, file) in files.iter().enumerate() {
        let out = format!("file{number}");
        let (error, code) = run(&dir, &library, &[("FAULTS_FILE", file)], &out);
        assert_eq!(code, Some(1), "{file}: {error}");
        assert!(error.contains("No space left on device"), "{file}: {error}");
        let name = file.rsplit('/').next().expect("a name");
        let link = name.trim_end_matches(".pcapng");
        let node = name.trim_end_matches(".log").replace("node", "node ");
        let named = [name, link, &node].iter().any(|name| error.contains(name));
        assert!(named, "{file}: {error}");
        assert!(!dir.path(&out).exists(), "{file} is not whole");
    }
    let count = dir.path("count");
    let counted = [("FAULTS_COUNT", count.to_str().expect("a plain path"))];
    assert_eq!(run(&dir, &library, &counted, "counted").1, Some(0));
    let calls = fs::read_to_string(count).expect("the calls were counted");
    let calls: u64 = calls.parse().expect("a number");
    for number in 0..TRIES {
        // The last ones give the directory its name.
        let at = match number {
            0 => calls,
            1 => calls - 1,
            _ => 1 + some_number(calls),
        };
        let (at, out) = (at.to_string(), format!("at{number}"));
        let ended = run(&dir, &library, &[("FAULTS_AT", &at)], &out);
        let at = format!("call {at} of {calls} failed");
        assert_honest(&whole, &dir, &out, &ended, &at);
    }
}

#[test]
fn no_run_that_went_on_ends_well_whose_files_are_not_whole() {
    let Some((dir, library)) = with_faults() else {
        return;
    };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 pingpong 20")
        .with("[network]\npcap = [\"all\"]")
        .with("[checkpoint]\nevery = \"20 ms\"\n");
    let whole = dir.run(&scenario, "whole", &[]).success();
    let mut child = dir.start(&scenario, "broken");
    let folder = dir.path("broken.incomplete");
    while newest_checkpoint(&folder).is_none() {
        thread::sleep(Duration::from_millis(10));
        let ended = child.try_wait().expect("a child");
        assert!(ended.is_none(), "the run was over too early");
    }
    child.kill().expect("a child");
    child.wait().expect("a child");
    let captures = fs::read_dir(folder.join("pcap")).expect("the folder is there");
    let capture = captures.flatten().next().expect("a capture").file_name();
    let files = ["trace.bjt", capture.to_str().expect("a plain name")];
    for (number, file) in files.iter().enumerate() {
        let out = format!("file{number}");
        copy(&folder, &dir.path(&format!("{out}.incomplete")));
        let arguments = ["resume", "--quiet", "--no-sandbox", &out];
        let ended = call(&dir, &library, &[("FAULTS_FILE", file)], &arguments);
        assert_eq!(ended.1, Some(1), "{file}: {}", ended.0);
        assert!(!dir.path(&out).exists(), "{file} is not whole");
        // With free space it continues to the same end.
        if number == 0 {
            let (_, error, code) = dir.call(&["resume", "--quiet", &out]);
            assert_eq!(code, Some(0), "{error}");
            whole.assert_same(&dir.outcome(&out));
        }
    }
}

/// Copies a folder, links as links.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()));
}

#[test]
fn a_snapshot_that_cannot_be_written_has_no_name() {
    let Some((dir, library)) = with_faults() else {
        return;
    };
    dir.write("s.toml", &Scenario::new(1, "true").text());
    fs::create_dir(dir.path("out")).expect("the folder is writable");
    for at in ["1", "100"] {
        let file = dir.path("out/node.snapshot");
        let arguments = ["snapshot", "s.toml", "--no-sandbox", "--out"];
        let arguments = [&arguments[..], &["out/node.snapshot"]].concat();
        let ended = dir
            .command(&arguments)
            .env("LD_PRELOAD", &library)
            .env("FAULTS_BELOW", dir.path("out"))
            .env("FAULTS_AT", at)
            .output()
            .expect("belljar starts");
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{error}");
        assert!(error.contains("node.snapshot"), "{error}");
        assert!(!file.exists());
        let left = fs::read_dir(dir.path("out")).expect("the folder is there");
        assert_eq!(left.count(), 0, "something half written stays");
    }
}

#[test]
fn a_sweep_tells_of_results_that_could_not_be_kept() {
    let Some((dir, library)) = with_faults() else {
        return;
    };
    dir.write("s.toml", &Scenario::new(1, "true").text());
    let sweep = |out: &str, file: &str| {
        let set = ["--set", "seed=[1, 2]", "--out", out];
        let arguments = [&["sweep", "s.toml", "--here"][..], &set].concat();
        call(&dir, &library, &[("FAULTS_FILE", file)], &arguments)
    };
    // The fault concerns one combination, as the table shows.
    let (error, code) = sweep("one", "/1/run.incomplete/host.json");
    assert_eq!(code, Some(1), "{error}");
    let table = fs::read_to_string(dir.path("one/sweep.csv")).expect("the table is there");
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[1].starts_with("1,0,"), "{table}");
    assert!(rows[2].starts_with("2,1,"), "{table}");
    assert!(!dir.path("one/1/run").exists());
    // The table itself.
    let (error, code) = sweep("table", "/sweep.csv");
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("sweep.csv"), "{error}");
    assert!(!dir.path("table/sweep.csv").exists());
}
