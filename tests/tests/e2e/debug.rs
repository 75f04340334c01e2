//! A run under gdb: its ranks, faults, positions in both directions.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use belljar_tests::lab::wait_for;
use belljar_tests::{Dir, signal};

use crate::mpirun::compiled;

/// The page with the example, its program and its session.
const PAGE: &str = include_str!("../../../docs/howto-debug.md");

/// The text of the first block of `language` in the page.
fn block(language: &str) -> String {
    blocks(language).next().expect("the page has such a block")
}

fn blocks(language: &str) -> impl Iterator<Item = String> {
    let mark = format!("```{language}\n");
    let parts: Vec<&str> = PAGE.split(mark.as_str()).skip(1).collect();
    parts.into_iter().map(|part| {
        let (text, _) = part.split_once("```").expect("a block ends");
        text.to_owned()
    })
}

/// Runs the page's program; false without gdb or the compiler.
fn recorded(dir: &Dir) -> bool {
    if !Path::new("/usr/bin/gdb").exists() {
        eprintln!("skipped: there is no gdb here; install Debian's package gdb");
        return false;
    }
    if !compiled(dir, "mpicc.mpich", "rows", &block("c"), &["-g"]) {
        return false;
    }
    let words = ["mpirun", "-np", "4", "--out", "rows-run", "./rows"];
    let (_, error, code) = dir.call(&words);
    assert_ne!(code, Some(0), "{error}");
    true
}

/// Executes commands of gdb; returns its output, of both streams in order.
fn debugged(dir: &Dir, commands: &str) -> String {
    debugged_with(dir, &[], commands)
}

/// The same with more options.
fn debugged_with(dir: &Dir, options: &[&str], commands: &str) -> String {
    dir.write("commands.gdb", commands);
    let log = dir.path("gdb.log");
    let file = File::create(&log).expect("the folder is writable");
    let other = file.try_clone().expect("a file can be shared");
    let words = ["debug", "rows-run", "--commands", "commands.gdb"];
    let mut command = dir.command(&[&words, options].concat());
    let status = command.stdout(file).stderr(other).status();
    status.expect("belljar starts");
    fs::read_to_string(log).expect("the output is text")
}

#[test]
fn the_session_of_the_page_finds_the_cause_on_another_rank() {
    let Some(dir) = Dir::new() else { return };
    if !recorded(&dir) {
        return;
    }
    let session: String = blocks("gdb").collect();
    let commands = session
        .lines()
        .filter_map(|line| line.strip_prefix("(gdb) "));
    let commands: Vec<&str> = commands.collect();
    let output = debugged(&dir, &commands.join("\n"));
    let mut rest = output.as_str();
    for line in session.lines().filter(|line| !line.starts_with("(gdb) ")) {
        let at = rest.find(line);
        let at = at.unwrap_or_else(|| panic!("no {line:?} in {rest}\nof {output}"));
        rest = &rest[at + line.len()..];
    }
}

#[test]
fn a_position_has_one_state_however_it_is_reached() {
    let Some(dir) = Dir::new() else { return };
    if !recorded(&dir) {
        return;
    }
    let places = ["init", "\"rank 0, MPI_Send #2\"", "\"rank 3, MPI_Recv\""];
    let mut commands = String::new();
    for round in 0..2 {
        for step in 0..places.len() {
            // Each place is reached from other ones in every round.
            let place = places[(step * (round + 1) + round) % places.len()];
            commands += &format!("goto {place}\necho at {place}\\n\nmonitor hash\n");
        }
    }
    commands +=
        "goto init\nbreak sum\ncontinue\nmonitor hash\ncontinue\nreverse-continue\nmonitor hash\n";
    let output = debugged(&dir, &commands);
    for place in places {
        let mark = format!("at {place}\n");
        let states = output.split(mark.as_str()).skip(1).map(hash);
        let states: Vec<String> = states.collect();
        assert_eq!(states.len(), 2, "{output}");
        assert!(
            states.iter().all(|state| *state == states[0]),
            "{place}: {output}"
        );
    }
    let stops = output.split("hit Breakpoint").skip(1).map(hash);
    let stops: Vec<String> = stops.collect();
    assert_eq!(stops.len(), 3, "{output}");
    assert_eq!(stops[0], stops[2], "there and back again: {output}");
}

/// A session with a watchpoint has the states of one without, and the last write of a variable is that which the
/// movement forwards finds.
#[test]
fn watchpoints_find_each_write_and_change_nothing() {
    let Some(dir) = Dir::new() else { return };
    if !recorded(&dir) {
        return;
    }
    let end = "goto \"rank 1, MPI_Reduce\"\nmonitor hash\ngoto end\nmonitor hash\n";
    let plain = debugged(&dir, end);
    let begin = "goto \"rank 0, MPI_Send\"\nup\nwatch -location first\n";
    let each = "continue\nmonitor hash\n".repeat(3);
    let back =
        "reverse-continue\nreverse-continue\nreverse-continue\ncontinue\nmonitor hash\ndelete\n";
    let watched = debugged(&dir, &format!("{begin}{each}{back}{end}"));
    let values = watched
        .lines()
        .filter_map(|line| line.strip_prefix("New value = "));
    let values: Vec<&str> = values.collect();
    // Forwards to the second and the third row, and the fault of rank 3 instead of another one; then back and there again.
    assert_eq!(values[..2], ["500000", "-323741"], "{watched}");
    assert_eq!(
        values[2..],
        ["500000", "250000", "0", "250000"],
        "{watched}"
    );
    let states =
        |text: &str, mark: &str| -> Vec<String> { text.split(mark).skip(1).map(hash).collect() };
    let last = states(&plain, " of virtual time, node");
    let after = states(&watched, " of virtual time, node");
    assert_eq!(
        after[after.len() - 2..],
        last[last.len() - 2..],
        "{watched}"
    );
}

#[test]
fn the_sides_of_a_message_lead_to_each_other() {
    let Some(dir) = Dir::new() else { return };
    if !recorded(&dir) {
        return;
    }
    let commands = "goto \"rank 2, MPI_Recv\"\nmonitor hash\ngoto send\nup\nprint to\n\
                    goto receive\nmonitor hash\ngoto \"rank 1, MPI_Comm_size\"\ngoto send\n";
    let output = debugged(&dir, commands);
    assert!(
        output.contains("belljar: rank 0 calls MPI_Send"),
        "{output}"
    );
    assert!(output.contains("$1 = 2"), "{output}");
    assert!(
        output.contains("belljar: rank 2 calls MPI_Recv"),
        "{output}"
    );
    let states: Vec<String> = output
        .split(" of virtual time, node")
        .map(hash)
        .filter(|text| !text.is_empty())
        .collect();
    assert_eq!(states.len(), 2, "{output}");
    assert_eq!(states[0], states[1], "there and back again: {output}");
    let refused = "rank 1 is at no call with a message number 1 whose send the run has";
    assert!(output.contains(refused), "{output}");
}

/// The first hashes in a text: the lines of the four nodes.
/// The value that `info registers rip` printed each time.
fn addresses(output: &str) -> Vec<u64> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("rip "));
    let values = lines.filter_map(|line| line.split_whitespace().next());
    values
        .map(|value| u64::from_str_radix(&value[2..], 16).expect("an address"))
        .collect()
}

#[test]
fn kernels_stop_at_their_functions_and_step_in_both_directions() {
    let Some(dir) = Dir::new() else { return };
    if !recorded(&dir) {
        return;
    }
    let commands = "inferior 5\nbreak __x64_sys_sendto\ncontinue\ninfo registers rip\nstepi\n\
                    info registers rip\nreverse-stepi\ninfo registers rip\nx/1i $rip\n\
                    info threads\n";
    let output = debugged_with(&dir, &["--kernels"], commands);
    assert!(
        output.contains("in __x64_sys_sendto ()") && output.contains("<__x64_sys_sendto>:"),
        "{output}"
    );
    let seen = addresses(&output);
    assert_eq!(seen.len(), 3, "{output}");
    assert!(
        seen[0] >= 0xffff_ffff_8100_0000 && seen[1] > seen[0],
        "{output}"
    );
    assert_eq!(seen[2], seen[0], "{output}");
    assert!(output.contains("kernel of node 3, processor 0"), "{output}");
}

fn hash(text: &str) -> String {
    let lines = text.lines().filter(|line| line.contains(", processor "));
    lines.take(4).collect::<Vec<_>>().join("\n")
}

#[test]
fn requests_that_cannot_be_served_are_errors() {
    let Some(dir) = Dir::new() else { return };
    let (_, error, code) = dir.call(&["debug", "nothing.toml", "--at", "soon"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("\"soon\" is no position"), "{error}");
    if !recorded(&dir) {
        return;
    }
    let commands = "monitor hash\ngoto \"rank 9, MPI_Recv\"\ngoto \"1 us\"\ngoto \"99 s\"\ngoto foo\ngoto\nmonitor hash\nprint $rip=1\n";
    let output = debugged(&dir, commands);
    // A refused `goto` does not step.
    let hashes = output.lines().filter(|line| line.starts_with("node 0: "));
    let hashes: Vec<&str> = hashes.collect();
    assert_eq!(hashes.len(), 2, "{output}");
    assert_eq!(hashes[0], hashes[1], "{output}");
    assert!(output.contains("\"foo\" is no position"), "{output}");
    assert!(
        output.contains("rank 9 has no MPI_Recv #1 in this run"),
        "{output}"
    );
    assert!(
        output.contains("no rank has started by 1.000 us"),
        "{output}"
    );
    assert!(
        output.contains("99.00 s is after the end of the run at 2."),
        "{output}"
    );
    let (output, error, code) = dir.call(&["debug", "rows-run", "--at", "rank 9, MPI_Recv"]);
    assert_eq!((output.as_str(), code), ("", Some(1)), "{error}");
    assert!(error.contains("no rank 9; its last rank is 3"), "{error}");
    a_rank_of_a_node_without_power_does_not_step(&dir);
    a_signal_ends_a_session_whose_terminal_is_closed(&dir);
}

fn a_rank_of_a_node_without_power_does_not_step(dir: &Dir) {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", "rows-run"]);
    assert_eq!(code, Some(0), "{error}");
    let calls = dump
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line of JSON"));
    let mut received = calls.filter(|call| call["rank"] == 3 && call["function"] == "MPI_Recv");
    let received = received.next().expect("rank 3 receives");
    let at = received["entry_ps"].as_u64().expect("a time") + 1_000_000;
    let fail = format!("nodes.fail=[{{ node = 3, at = \"{at} ps\" }}]");
    let later = at + 1_000_000;
    // The job would wait for the rank until its limit.
    let limit = format!("workload.limit=\"{} ps\"", later + 1_000_000);
    let options = ["--set", &fail, "--set", &limit, "--at", "rank 3, MPI_Recv"];
    let commands = format!("stepi\ngoto \"{later} ps\"\necho dead\\n\nstepi\nmonitor hash\n");
    let output = debugged_with(dir, &options, &commands);
    let (before, after) = output.split_once("dead\n").expect("the commands go on");
    assert!(!before.contains("stopped for good"), "{output}");
    assert!(after.contains("node 3 has stopped for good at"), "{output}");
    assert!(!hash(after).is_empty(), "{output}");
}

/// A program with output between its calls.
const TALKER: &str = "#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int turn = 1; turn <= 3; turn++) {
        printf(\"turn %d\\n\", turn);
        fflush(stdout);
        usleep(30000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
";

#[test]
fn positions_show_the_output_up_to_them_once() {
    let Some(dir) = Dir::new() else { return };
    if !Path::new("/usr/bin/gdb").exists()
        || !compiled(&dir, "mpicc.mpich", "talker", TALKER, &["-g"])
    {
        return;
    }
    let words = [
        "mpirun", "--quiet", "-np", "1", "--out", "rows-run", "./talker",
    ];
    let (_, error, code) = dir.call(&words);
    assert_eq!(code, Some(0), "{error}");
    let places = [
        "\"rank 0, MPI_Barrier #9\"",
        "\"rank 0, MPI_Barrier #2\"",
        "init",
        "end",
    ];
    let commands: String = places
        .map(|place| format!("goto {place}\necho passed\\n\n"))
        .concat();
    let output = debugged(&dir, &commands);
    let parts: Vec<Vec<&str>> = output
        .split("passed\n")
        .map(|part| {
            part.lines()
                .filter(|line| line.starts_with("turn "))
                .collect()
        })
        .collect();
    let wanted = [
        vec![],
        vec!["turn 1", "turn 2"],
        vec![],
        vec!["turn 3"],
        vec![],
    ];
    assert_eq!(parts, wanted, "{output}");
}

/// A command that waits for a debugger ends by a signal, also without a terminal for its last words.
fn a_signal_ends_a_session_whose_terminal_is_closed(dir: &Dir) {
    let mut command = dir.command(&["debug", "rows-run", "--port", "0"]);
    let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut session = pipes.spawn().expect("belljar starts");
    let mut said = String::new();
    let output = session.stdout.take().expect("it is a pipe");
    let read = BufReader::new(output).read_line(&mut said);
    assert!(
        read.is_ok() && said.contains("target extended-remote localhost:"),
        "{said}"
    );
    // Nobody reads its errors any more.
    drop(session.stderr.take());
    signal(&session, libc::SIGTERM);
    let ended = wait_for(Duration::from_secs(60), || {
        session.try_wait().expect("a child")
    });
    assert_eq!(
        ended.and_then(|status| status.code()),
        Some(128 + libc::SIGTERM)
    );
}
