//! Outputs of a run: files of the nodes, and the command's outputs, separate from consoles.
//!
//! Nodes write files with awkward names, links, pipes and folders, on one host and on two, up to a limit and up to a checkpoint.
//! A hostile guest answers in place of `belljar-collect`, with outside paths, excessive sizes and invalid data.

use std::fs;

use belljar_tests::{Dir, Outcome, Scenario};
use serde_json::Value;

/// Writes files on all of three nodes, in folders, with names that are difficult for shells.
const WRITES: &str = "\
    echo to standard output; echo to standard error >&2\n\
    for node in node0 node1 node2; do\n\
      belljar-rsh $node 'mkdir -p out/deep; hostname > me.dat; seq 1 20000 > out/deep/numbers; \
        echo \"a name\" > \"out/a name\"; ln -s me.dat link.dat; ln -s /etc/passwd out/users; \
        ln -s / out/everything; mkfifo out/pipe; echo no > left; echo y > /tmp/absolute'\n\
    done\n\
    chmod 755 me.dat\n\
    exit 7\n";

fn writing() -> Scenario {
    let patterns = "\"*.dat\", \"out\", \"/tmp/abs*\"";
    Scenario::new(3, WRITES).working(&format!("outputs = [{patterns}]"))
}

#[test]
fn files_of_all_nodes_come_out_the_same_on_one_host_and_on_two() {
    let Some(dir) = Dir::new() else { return };
    let alone = dir.run(&writing(), "alone", &["--threads", "2"]);
    assert_eq!(alone.code, Some(7), "{}", alone.stderr);
    for node in 0..3 {
        let text = |name: &str| alone.text(&format!("files/node{node}/{name}"));
        assert_eq!(text("me.dat"), format!("node{node}\n"));
        assert_eq!(text("link.dat"), format!("node{node}\n"));
        assert_eq!(text("out/a name"), "a name\n");
        assert_eq!(text("tmp/absolute"), "y\n");
        assert!(text("out/users").starts_with("root:"));
        assert_eq!(text("out/deep/numbers").lines().count(), 20_000);
    }
    let files = alone.files();
    let outputs = files.iter().filter(|name| name.starts_with("files/"));
    assert_eq!(outputs.count(), 3 * 6, "{files:?}");
    assert_eq!(alone.text("stdout"), "to standard output\n");
    assert_eq!(alone.text("stderr"), "to standard error\n");
    assert!(!alone.text("console/node0.log").contains("to standard"));
    let summary = alone.summary();
    let node = &summary["outputs"][1];
    assert_eq!(node["files"], 6);
    assert_eq!(
        node["left_out_count"], 2,
        "a pipe and a folder that is a link: {node}"
    );
    let local = ["--launch", "local", "--hosts", "one,two", "--threads", "1"];
    alone.assert_same(&dir.run(&writing(), "two", &local));
    // The command's output and all other results are on the host without nodes.
    let away = ["--place", "two=0-2"];
    alone.assert_same(&dir.run(&writing(), "away", &[&local[..], &away].concat()));
}

#[test]
fn what_is_shown_is_what_the_command_writes() {
    let Some(dir) = Dir::new() else { return };
    let file = dir.write("shown.toml", &writing().text());
    let file = file.to_str().expect("a plain path");
    let (stdout, stderr, code) = dir.call(&["run", file, "--out", "shown"]);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stdout.starts_with("to standard output\n"), "{stdout}");
    assert!(stderr.contains("to standard error\n"), "{stderr}");
    assert!(stdout.contains("18 output files, "), "{stdout}");
}

/// A file that grows for ever.
fn growing(limit: &str) -> Scenario {
    let command = "while :; do date >> grows.dat; sleep 0.01; done";
    let scenario = Scenario::new(2, command).limited(limit);
    let scenario = scenario.working("outputs = [\"*.dat\"]");
    scenario.with("[checkpoint]\nevery = \"500 ms\"\n")
}

/// Its lines.
fn grown(run: &Outcome) -> usize {
    let path = run.incomplete().join("files/node0/grows.dat");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().count()
}

#[test]
fn a_run_brings_out_what_there_is_at_its_limit_and_at_a_checkpoint() {
    let Some(dir) = Dir::new() else { return };
    let scenario = growing("9 s");
    let whole = dir.run(&scenario, "whole", &[]);
    assert_eq!(whole.code, Some(1), "{}", whole.stderr);
    let lines = grown(&whole);
    assert!(lines > 10, "{lines}");

    // From its newest checkpoint: the files' state then, and at the limit again.
    let file = || fs::read(whole.incomplete().join("files/node0/grows.dat")).expect("a file");
    let at_the_limit = file();
    let (_, error, code) = dir.call(&["resume", "whole", "--quiet", "--collect"]);
    assert_eq!(code, Some(0), "{error}");
    assert!((1..lines).contains(&grown(&whole)), "{}", grown(&whole));
    let (_, error, code) = dir.call(&["resume", "whole", "--quiet"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(file() == at_the_limit);
}

/// Answers in place of the collecting program.
fn answering(answer: &str) -> Scenario {
    let command = format!(
        "kill $(pidof belljar-collect)\n\
         (read line; printf '{answer}') </dev/hvc0 >/dev/hvc0 &\n\
         echo there > mine.dat\n"
    );
    Scenario::new(1, &command).working("outputs = [\"*.dat\"]\noutput-limit = \"1 KiB\"")
}

#[test]
fn a_guest_that_lies_harms_neither_host_nor_run() {
    let Some(dir) = Dir::new() else { return };
    let cases = [
        (
            "files\\nfile 644 5 ../../../evil\\nevil\\n\\ndone\\n",
            "cannot have such a name",
        ),
        (
            "files\\nfile 644 5 %%2Ftmp%%2Fevil\\nevil\\n\\ndone\\n",
            "cannot have such a name",
        ),
        (
            "files\\nfile 644 99999999999 evil\\nevil",
            "sends more than 1024 bytes",
        ),
        (
            "files\\nfile 644 1 a\\naoops\\n",
            "its answer has an invalid line",
        ),
        (
            "files\\nfile 644 1 a\\nafile 644 1 a/evil\\nedone\\n",
            "output left out: a/evil",
        ),
        ("", "does not answer within"),
    ];
    for (number, (answer, expected)) in cases.iter().enumerate() {
        let out = format!("lie{number}");
        let run = dir.run(&answering(answer), &out, &[]).success();
        let warnings = run.summary()["warnings"].clone();
        let said = |text: &Value| text.as_str().is_some_and(|text| text.contains(expected));
        let is_said = warnings.as_array().is_some_and(|all| all.iter().any(said));
        assert!(is_said, "{answer}: {warnings}");
        let files = run.files();
        assert!(!files.iter().any(|name| name.contains("evil")), "{files:?}");
    }
    assert!(!dir.path("evil").exists());
}

#[test]
fn patterns_are_checked_before_a_run() {
    let Some(dir) = Dir::new() else { return };
    for wrong in ["", "../x", "a/./b", "a\\nb"] {
        let scenario = Scenario::new(1, "true").working(&format!("outputs = [\"{wrong}\"]"));
        let file = dir.write("wrong.toml", &scenario.text());
        let file = file.to_str().expect("a plain path");
        let (_, error, code) = dir.call(&["check", file]);
        assert_eq!(code, Some(1), "{wrong}");
        assert!(error.contains("workload.outputs is "), "{error}");
    }
}
