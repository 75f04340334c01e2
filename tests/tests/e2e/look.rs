//! Live observation of a run, and input for its nodes.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use belljar_tests::{Dir, Scenario};

/// Commands typed into the node's serial console, until one of them ends the shell. A shell without input passes virtual time fast, and the
/// console must attach before its end: the node stays busy until input comes.
const SHELL: &str = "{ stty -echo; while :; do :; done & busy=$!; read go; kill $busy; echo shell is there; sh; } \
                     </dev/ttyS0 >/dev/ttyS0 2>&1";

/// Waits until `done` returns a value; the caller's time limit ends a test that hangs.
fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    for _ in 0..2400 {
        if let Some(value) = done() {
            return value;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} did not come")
}

/// Starts `belljar console` on a node once the run has started.
fn attach(dir: &Dir, out: &str, arguments: &[&str]) -> Child {
    let incomplete = dir.path(&format!("{out}.incomplete"));
    wait_for("the socket", || {
        incomplete.join("control.sock").exists().then_some(())
    });
    let mut all = vec!["console", out, "0"];
    all.extend_from_slice(arguments);
    dir.command(&all)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("belljar starts")
}

/// Reads a child's output until it contains `words`.
fn read_until(child: &mut Child, words: &str) -> String {
    let out = child.stdout.as_mut().expect("a pipe");
    let mut said = Vec::new();
    let mut byte = [0];
    while out.read(&mut byte).expect("a pipe") == 1 {
        said.push(byte[0]);
        if said.ends_with(words.as_bytes()) {
            return String::from_utf8_lossy(&said).into_owned();
        }
    }
    panic!("no {words:?} in {}", String::from_utf8_lossy(&said))
}

fn end(mut child: Child) -> (Option<i32>, String) {
    let code = child.wait().expect("a child").code();
    let mut said = String::new();
    if let Some(mut stream) = child.stderr.take() {
        let _ = stream.read_to_string(&mut said);
    }
    (code, said)
}

#[test]
fn what_is_typed_into_a_console_is_answered_and_written_down() {
    let Some(dir) = Dir::new() else { return };
    let run = dir.start(&Scenario::new(1, SHELL).limited("5000 s"), "out");
    let mut console = attach(&dir, "out", &[]);
    let mut keys = console.stdin.take().expect("a pipe");
    keys.write_all(b"go\n").unwrap();
    read_until(&mut console, "shell is there");
    keys.write_all(b"echo h''i\n").unwrap();
    read_until(&mut console, "# hi\r\n");
    keys.write_all(b"exit 3\n").unwrap();
    let (code, said) = end(run);
    assert_eq!(code, Some(3), "{said}");
    drop(keys);
    assert_eq!(end(console).0, Some(0));

    let outcome = dir.outcome("out");
    let log = String::from_utf8(outcome.bytes("input.log")).unwrap();
    let typed: Vec<(u64, &str)> = log
        .lines()
        .map(|line| {
            let (time, words) = line.split_once(' ').expect("a time");
            (time.parse().expect("picoseconds"), words)
        })
        .collect();
    let words: Vec<&str> = typed.iter().map(|(_, words)| *words).collect();
    assert_eq!(
        words,
        [r"node0 go\n", r"node0 echo h\'\'i\n", r"node0 exit 3\n"]
    );
    let end = outcome.summary()["virtual_time_ps"].as_u64().unwrap();
    let times: Vec<u64> = typed.iter().map(|(time, _)| *time).collect();
    assert!(
        times[0] > 0 && times.is_sorted() && times[2] < end,
        "{times:?}"
    );
    let warnings = outcome.summary()["warnings"].to_string();
    assert!(warnings.contains("3 pieces of input"), "{warnings}");
    assert!(!outcome.folder().join("control.sock").exists());
}

#[test]
fn looking_changes_nothing_and_a_run_that_is_over_shows_its_figures() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 counters 2");
    let plain = dir.run(&scenario, "plain", &[]).success();

    let mut run = dir.start(&scenario, "watched");
    // Virtual time is paused while the console is attached.
    let waiting = attach(&dir, "watched", &["--pause"]);
    let screen = || dir.call(&["watch", "watched", "--once"]);
    let paused = wait_for("a pause", || {
        Some(screen().0).filter(|screen| screen.contains("paused"))
    });
    assert_eq!(
        headline(&paused),
        headline(&screen().0),
        "virtual time did not wait"
    );
    assert!(run.try_wait().expect("a child").is_none());
    close_window(waiting);
    let mut screens = Vec::new();
    while run.try_wait().expect("a child").is_none() {
        screens.push(screen().0);
    }
    let (code, said) = end(run);
    assert_eq!(code, Some(0), "{said}");
    let shown = |words: &str| screens.iter().any(|screen| screen.contains(words));
    assert!(
        shown("x real time") && shown("The command's standard output"),
        "{screens:?}"
    );

    let watched = dir.outcome("watched");
    plain.assert_same(&watched);
    let (over, _, code) = screen();
    assert_eq!(code, Some(0));
    assert!(
        over.contains("not running; the workload ended well"),
        "{over}"
    );
    assert!(over.contains("link host0-switch0"), "{over}");
    let (_, error, code) = dir.call(&["console", "watched", "0"]);
    assert!(
        code != Some(0) && error.contains("no run is active"),
        "{error}"
    );
}

fn headline(screen: &str) -> Option<&str> {
    screen.lines().next()
}

/// Ends a console as a user does by closing its window.
fn close_window(mut console: Child) {
    console.kill().expect("a child");
    console.wait().expect("a child");
}
