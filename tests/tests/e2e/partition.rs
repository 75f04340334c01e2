//! Runs on several hosts, simulated by processes on this one: results are independent of the
//! number of hosts.

mod crossed;
mod disk;

use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use belljar_tests::{Dir, Outcome, Scenario};

/// Four nodes at two switches that compute, communicate, and use clocks and random numbers.
fn talking() -> Scenario {
    let command = "mpiexec.hydra -n 4 counters; date; head -c 16 /dev/urandom | od -x";
    let network = "topology = \"tree\"\nfanout = 2\nstatistics = \"1 ms\"";
    let losses = "[[network.link]]\nname = \"*\"\nloss = 0.001\njitter = \"200 ns\"";
    Scenario::new(4, command).with(&format!("[network]\n{network}\n{losses}\n"))
}

/// Two nodes that communicate for ever.
fn endless() -> Scenario {
    let scenario =
        Scenario::new(2, "while true; do mpiexec.hydra -n 2 pingpong 10; done").limited("3600 s");
    // Consoles are flushed with each.
    scenario.with("[checkpoint]\nevery = \"100 ms\"")
}

/// All hosts share one machine's processors.
const LOCAL: [&str; 4] = ["--launch", "local", "--threads", "1"];

#[test]
fn hosts_and_placement_change_no_byte() {
    let Some(dir) = Dir::new() else { return };
    let scenario = talking();
    let run = |out, more: &[&str]| {
        let all = ["--pcap", "all"];
        dir.run(&scenario, out, &[&all, more].concat()).success()
    };
    let alone = run("alone", &["--threads", "2"]);
    let three = [&LOCAL[..], &["--hosts", "one,two,three"]].concat();
    let mixed = ["--place", "three=0,3", "--place", "one=1"];
    alone.assert_same(&run("three", &[&three[..], &mixed].concat()));
    let none_here = ["--place", "two=0-1", "--place", "three=2-3"];
    alone.assert_same(&run("others", &[&three[..], &none_here].concat()));
}

#[test]
fn an_end_on_another_host_ends_the_run_the_same() {
    let Some(dir) = Dir::new() else { return };
    let reset = "test $(hostname) = node1 && echo b > /proc/sysrq-trigger; sleep 100";
    let scenario = Scenario::new(2, &format!("mpiexec.hydra -n 2 sh -c '{reset}'"));
    let run = |out, more: &[&str]| {
        let run = dir.run(&scenario, out, more);
        assert_ne!(run.code, Some(0));
        run
    };
    let alone = run("alone", &[]);
    let apart = run("apart", &[&LOCAL[..], &["--hosts", "one,two"]].concat());
    let summary = |run: &Outcome| fs::read(run.incomplete().join("summary.json")).unwrap();
    assert_eq!(summary(&alone), summary(&apart));
    assert!(apart.stderr.contains("node 1 ended"), "{}", apart.stderr);
}

/// A run that is interrupted on two hosts continues on any hosts with the same results.
#[test]
fn a_run_goes_on_from_a_checkpoint_on_other_hosts() {
    let Some(dir) = Dir::new() else { return };
    let scenario = talking().with("[checkpoint]\nevery = \"20 ms\"");
    let list = [&LOCAL[..], &["--hosts", "one,two"]].concat();
    let whole = dir.run(&scenario, "whole", &["--pcap", "all"]).success();
    let apart = [&list[..], &["--pcap", "all"]].concat();
    // On one host; and on more hosts, of other names, with another placement.
    let ways: [&[&str]; 2] = [
        &["--launch", "alone"],
        &[&LOCAL[..], &["--hosts", "a,b,c", "--place", "a=3"]].concat(),
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let out = format!("broken{number}");
        dir.run_to_checkpoint(&scenario, &out, 2, &apart);
        whole.assert_same(&dir.resume(&out, way));
    }
}

#[test]
fn a_check_tells_who_would_run_what() {
    let Some(dir) = Dir::new() else { return };
    let file = dir.write("s.toml", &talking().text());
    let check = |more: &[&str]| dir.call(&[&["check", file.to_str().unwrap()], more].concat());
    let (told, error, code) = check(&[]);
    assert_eq!(code, Some(0), "{error}");
    assert!(told.contains("this one alone"), "{told}");
    let local = [&LOCAL[..2], &["--hosts", "one,two", "--place", "two=0-2"]].concat();
    let (told, error, code) = check(&local);
    assert_eq!(code, Some(0), "{error}");
    let told: Vec<&str> = told.lines().map(str::trim).collect();
    for line in ["one  3", "two  0-2"] {
        assert!(told.contains(&line), "{told:?}");
    }
    let last = told.last().unwrap();
    assert!(
        last.starts_with("1 of 2 switches with nodes of several hosts"),
        "{last}"
    );
    let (_, error, code) = check(&["--launch", "ssh", "--hosts", "a", "--place", "a=9"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("there are nodes 0 to 3"), "{error}");
}

/// The agents that a run started.
fn agents(head: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{head}/task/{head}/children"));
    let children = children.unwrap_or_default();
    let ids = children.split_ascii_whitespace();
    ids.filter_map(|id| id.parse().ok()).collect()
}

fn is_there(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    for _ in 0..2400 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} does not come");
}

/// A run on two hosts whose nodes have begun to communicate, and its agent.
fn begin(dir: &Dir) -> (Child, u32) {
    let more = [&LOCAL[..], &["--hosts", "one,two"]].concat();
    let run = dir.start_with(&endless(), "out", &more);
    let output = dir.path("out.incomplete/stdout");
    wait_for("an agent", || agents(run.id()).len() == 1);
    let agent = agents(run.id())[0];
    let said = || fs::read_to_string(&output).unwrap_or_default();
    wait_for("the first message", || said().contains("PINGPONG 1 "));
    (run, agent)
}

#[test]
fn a_host_that_dies_is_named_and_what_was_recorded_is_kept() {
    let Some(dir) = Dir::new() else { return };
    let (run, agent) = begin(&dir);
    let killed = Command::new("kill")
        .args(["-KILL", &agent.to_string()])
        .status();
    assert!(killed.unwrap().success());
    let output = run.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("host two is lost: its process ended"),
        "{error}"
    );
    let (dump, _, code) = dir.call(&["trace", "dump", "out.incomplete"]);
    assert_eq!(code, Some(0));
    assert!(dump.contains("MPI_Init"), "{dump:.300}");
    assert!(
        dump.lines().any(|line| line.contains("MPI_Send")),
        "{dump:.300}"
    );
}

#[test]
fn nothing_is_left_of_a_run_that_was_killed() {
    let Some(dir) = Dir::new() else { return };
    let (mut run, agent) = begin(&dir);
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for("the agent's end", || !is_there(agent));
}
