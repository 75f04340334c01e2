//! Runs that are interrupted and resumed have the same end as others.

mod damaged;

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use belljar_tests::{Dir, Outcome, Scenario, interrupt, newest_checkpoint, signal};

/// Number of kills of a run.
const KILLS: u32 = 6;

/// Two nodes that communicate for a while, with all kinds of records.
fn talking(rounds: u32, every: &str) -> Scenario {
    let command = format!("mpiexec.hydra -n 2 pingpong {rounds}; date; head -c 16 /dev/urandom");
    let scenario = Scenario::new(2, &command);
    scenario
        .with("[network]\nstatistics = \"1 ms\"\npcap = [\"all\"]")
        .with(&format!("[checkpoint]\nevery = \"{every}\"\n"))
        .with("[trace]\nframes = 3\n[profile]\nevery = \"50 us\"\n")
}

/// A random time, up to a second.
fn some_time() -> Duration {
    let random = RandomState::new().build_hasher().finish();
    Duration::from_millis(150 + random % 850)
}

fn resume(dir: &Dir, out: &str, more: &[&str]) -> Child {
    dir.command(&["resume", out, "--quiet"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("belljar starts")
}

fn finish(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("a child");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), error)
}

/// Kills the run in `folder` at any point; returns true if it was unfinished.
fn kill(mut run: Child, folder: &Path) -> bool {
    run.kill().expect("a child");
    let status = run.wait().expect("a child");
    // A complete run takes some time to exit, and may be killed then.
    status.signal().is_some() && folder.exists()
}

/// The readable calls of a run's trace.
fn calls(dir: &Dir, out: &str) -> Vec<String> {
    let (dump, _, _) = dir.call(&["trace", "dump", out]);
    dump.lines().map(str::to_owned).collect()
}

fn wait_for_checkpoint(folder: &Path) {
    wait_for("a checkpoint", || newest_checkpoint(folder).is_some());
}

/// Waits until the nodes have communicated, so that a checkpoint contains messages.
fn wait_for_talk(folder: &Path) {
    let output = || fs::read_to_string(folder.join("stdout")).unwrap_or_default();
    wait_for("the first message", || output().contains("PINGPONG 1 "));
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    for _ in 0..9600 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(25));
    }
    panic!("{what} did not come");
}

#[test]
fn a_run_that_is_killed_many_times_is_the_one_that_never_was() {
    let Some(dir) = Dir::new() else { return };
    let scenario = talking(200, "20 ms");
    let whole = dir.run(&scenario, "whole", &[]).success();
    let all = calls(&dir, "whole");
    let (mut kills, mut runs) = (0, 0);
    while kills < KILLS {
        runs += 1;
        let out = format!("run{runs}");
        let folder = dir.path(&format!("{out}.incomplete"));
        let mut child = dir.start(&scenario, &out);
        // Earlier there is little state to lose.
        wait_for_talk(&folder);
        let mut seen = 0;
        loop {
            if kills == KILLS {
                let (code, error) = finish(child);
                assert_eq!(code, Some(0), "{error}");
                break;
            }
            thread::sleep(some_time());
            if !kill(child, &folder) {
                break;
            }
            kills += 1;
            let now = calls(&dir, folder.to_str().expect("a plain path"));
            assert!(now.len() >= seen, "{} of {seen} calls are left", now.len());
            assert!(now[..] == all[..now.len()], "the trace differs");
            seen = now.len();
            child = resume(&dir, &out, &[]);
        }
        whole.assert_same(&dir.outcome(&out));
    }
}

#[test]
fn a_checkpoint_is_had_for_the_asking_and_gone_on_from_elsewhere() {
    let Some(dir) = Dir::new() else { return };
    let scenario = talking(60, "60 s");
    let whole = dir.run(&scenario, "whole", &[]).success();

    let run = dir.start(&scenario, "asked");
    let folder = dir.path("asked.incomplete");
    let report = loop {
        let (report, error, code) = dir.call(&["checkpoint", "asked"]);
        match code {
            Some(0) => break report,
            _ => assert!(error.contains("no run is active"), "{error}"),
        }
        thread::sleep(Duration::from_millis(50));
    };
    assert!(report.contains("checkpoint 1 at"), "{report}");
    assert!(report.contains("the run stood still for"), "{report}");
    // Another one, by signal: only changes are written.
    let size =
        |name: &str| fs::metadata(folder.join("checkpoint").join(name)).map(|file| file.len());
    signal(&run, libc::SIGUSR1);
    let second = (0..4800).find_map(|_| {
        thread::sleep(Duration::from_millis(50));
        size("2.checkpoint").ok()
    });
    assert!(second.is_some(), "SIGUSR1 made no checkpoint");
    // As Ctrl-C does: the last checkpoint is named.
    thread::sleep(Duration::from_millis(300));
    interrupt(&run);
    let (code, error) = finish(run);
    assert_eq!(code, Some(130), "{error}");
    assert!(error.contains("interrupted"), "{error}");
    assert!(error.contains("continue from checkpoint 2 at"), "{error}");
    assert!(error.contains("belljar resume"), "{error}");

    // As on another host: another folder, and another number of threads.
    fs::create_dir(dir.path("elsewhere")).expect("the folder is writable");
    fs::rename(&folder, dir.path("elsewhere/moved.incomplete")).expect("the folder is writable");
    fs::remove_file(dir.path("asked.toml")).expect("the scenario is there");
    let (code, error) = finish(resume(&dir, "elsewhere/moved", &["--threads", "1"]));
    assert_eq!(code, Some(0), "{error}");
    whole.assert_same(&dir.outcome("elsewhere/moved"));
    assert!(!dir.path("elsewhere/moved/checkpoint").exists());
    let (_, error, code) = dir.call(&["resume", "elsewhere/moved"]);
    assert!(code == Some(1) && error.contains("is complete"), "{error}");
}

#[test]
fn nodes_of_several_vcpus_and_nodes_that_booted_go_on_too() {
    let Some(dir) = Dir::new() else { return };
    let threads = Scenario::new(1, "threads 4").vcpus(4);
    let booted = talking(20, "100 ms").booting_each();
    for (name, scenario) in [
        ("smp", threads.with("[checkpoint]\nevery = \"50 ms\"")),
        ("booted", booted),
    ] {
        let states = ["--state-hash", "50000000"];
        let whole = dir
            .run(&scenario, &format!("{name}-whole"), &states)
            .success();
        let broken = format!("{name}-broken");
        let run = dir.start_with(&scenario, &broken, &states);
        let folder = dir.path(&format!("{broken}.incomplete"));
        wait_for_checkpoint(&folder);
        thread::sleep(some_time());
        if kill(run, &folder) {
            let (code, error) = finish(resume(&dir, &broken, &[]));
            assert_eq!(code, Some(0), "{error}");
        }
        whole.assert_same(&dir.outcome(&broken));
    }
}

#[test]
fn what_was_typed_behind_a_checkpoint_is_typed_again() {
    let Some(dir) = Dir::new() else { return };
    // A shell without input passes virtual time fast, and the console must attach before its end: the node stays
    // busy until input comes.
    let shell = "stty -F /dev/ttyS0 -echo; while :; do :; done & busy=$!; read go </dev/ttyS0; kill $busy; \
                 echo shell is there >/dev/ttyS0; sh </dev/ttyS0 >/dev/ttyS0 2>&1";
    let scenario = Scenario::new(1, shell).limited("5000 s");
    let mut run = dir.start(&scenario, "typed");
    let folder = dir.path("typed.incomplete");
    let console = || fs::read_to_string(folder.join("console/node0.log")).unwrap_or_default();
    wait_for("the run", || folder.join("control.sock").exists());
    // While the console is attached, a run without pending actions waits.
    let mut keys = dir
        .command(&["console", "typed", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("belljar starts");
    let mut pipe = keys.stdin.take().expect("a pipe");
    pipe.write_all(b"go\n").expect("a pipe");
    wait_until(&dir, "the shell", || console().contains("shell is there"));
    let (_, error, code) = dir.call(&["checkpoint", "typed"]);
    assert_eq!(code, Some(0), "{error}");
    pipe.write_all(b"echo o''nce\n").expect("a pipe");
    wait_until(&dir, "an answer", || console().contains("# once"));
    run.kill().expect("a child");
    run.wait().expect("a child");
    drop(pipe);
    keys.wait().expect("a child");

    // Without further input the shell waits until the end of time.
    let (code, error) = finish(resume(&dir, "typed", &[]));
    assert!(
        code == Some(1) && error.contains("the limit of virtual time"),
        "{error}"
    );
    assert!(console().ends_with("# once\r\n~ # "), "{:?}", console());
    let warnings = dir.outcome("typed").summary()["warnings"].to_string();
    assert!(warnings.contains("2 pieces of input"), "{warnings}");
}

/// Waits until `done`, with consoles flushed to the disk.
fn wait_until(dir: &Dir, what: &str, done: impl Fn() -> bool) {
    wait_for(what, || {
        // A look makes the run flush its consoles.
        dir.call(&["watch", "typed", "--once"]);
        done()
    });
}

#[test]
fn what_does_not_fit_or_is_damaged_is_named_and_the_last_but_one_serves() {
    let Some(dir) = Dir::new() else { return };
    let scenario = talking(40, "20 ms");
    let whole = dir.run(&scenario, "whole", &[]).success();
    let run = dir.start(&scenario, "broken");
    let folder = dir.path("broken.incomplete");
    wait_for_checkpoint(&folder);
    let (_, error, code) = dir.call(&["resume", "broken"]);
    assert!(
        code == Some(1) && error.contains("is active already"),
        "{error}"
    );
    wait_for_talk(&folder);
    assert!(kill(run, &folder), "the run was over too early");

    let refused = |what: &str| {
        let (_, error, code) = dir.call(&["resume", "broken"]);
        assert!(code == Some(1) && error.contains(what), "{error}");
    };
    let edit = |name: &str, from: &str, to: &str| {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).expect("the file is there");
        fs::write(&path, text.replace(from, to)).expect("the folder is writable");
    };
    edit("scenario.toml", "count = 2", "count = 3");
    refused("its number of nodes is 2, here it is 3");
    edit("scenario.toml", "count = 3", "count = 2");
    edit("scenario.toml", "date;", "true;");
    refused("its workload is");
    edit("scenario.toml", "true;", "date;");

    damaged::go_on_from_damaged(&dir, &folder, &whole);

    let none = dir.start(&scenario, "none");
    thread::sleep(Duration::from_millis(30));
    let nowhere: Outcome = dir.outcome("none");
    if kill(none, &nowhere.incomplete()) && newest_checkpoint(&nowhere.incomplete()).is_none() {
        let (_, error, _) = dir.call(&["resume", "none"]);
        assert!(error.contains("belljar run"), "{error}");
    }
    let (_, error, code) = dir.call(&["resume", "nothing"]);
    assert!(
        code == Some(1) && error.contains("not the directory of an interrupted run"),
        "{error}"
    );
}

#[test]
fn a_disk_that_is_full_costs_the_checkpoint_alone() {
    let Some(dir) = Dir::new() else { return };
    let small = dir.path("small");
    fs::create_dir(&small).expect("the folder is writable");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=40M", "none"])
        .arg(&small)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: only root can mount a small file system to fill");
        return;
    }
    let run = dir.run(&talking(20, "100 ms"), "small/run", &[]);
    let whole = dir.run(&talking(20, "100 ms"), "whole", &[]).success();
    let copy = dir.path("copy");
    let copied = Command::new("cp")
        .arg("-r")
        .arg(dir.path("small/run"))
        .arg(&copy)
        .status();
    let _ = Command::new("umount").arg(&small).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "{}",
        run.stderr
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stderr.contains("the run continues without: 3"),
        "{}",
        run.stderr
    );
    whole.assert_same(&dir.outcome("copy"));
}
