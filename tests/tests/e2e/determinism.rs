//! The same scenario gives the same bytes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use belljar_tests::{Dir, Outcome, Scenario};

#[test]
fn threads_and_repetition_change_no_byte() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(
        3,
        "mpiexec.hydra -n 3 counters; date; head -c 16 /dev/urandom | od -x",
    );
    let run = |out, threads| {
        dir.run(&scenario, out, &["--threads", threads, "--pcap", "all"])
            .success()
    };
    run("one", "1").assert_same(&run("two", "2"));
}

/// With a thread for each, busy nodes run on without rounds.
#[test]
fn a_thread_for_each_node_needs_fewer_rounds_and_changes_no_byte() {
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        eprintln!("SKIPPED: nodes that run ahead take two processors at least");
        return;
    }
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(
        3,
        "mpiexec.hydra -n 3 counters; mpiexec.hydra -n 3 intloop 30000000",
    );
    let scenario = scenario.limited("100 s");
    let run = |out: &str, threads| {
        dir.run(&scenario, out, &["--threads", threads, "--pcap", "all"])
            .success()
    };
    let one = run("one", "1");
    // The reduction depends on the host. A host that gives its processors to others may let no
    // node run on in a whole run.
    let fewer = (0..12).any(|time| {
        let each = run(&format!("each{time}"), "3");
        one.assert_same(&each);
        rounds(&each) < rounds(&one)
    });
    assert!(fewer, "nodes did not run ahead without rounds");
}

fn rounds(run: &Outcome) -> u64 {
    run.host()["rounds"].as_u64().expect("a number")
}

/// The ends of nodes' turns depend on the host: on the number of threads, on other hosts, and
/// on a busy network between them.
#[test]
fn where_turns_are_cut_changes_no_byte() {
    let Some(dir) = Dir::new() else { return };
    let command = "mpiexec.hydra -n 4 counters; date";
    let network = "[network]\ntopology = \"tree\"\nfanout = 2\nstatistics = \"1 ms\"";
    let scenario = Scenario::new(4, command).with(network);
    let all = ["--pcap", "all"];
    let by_two = ["--pcap", "all", "--threads", "2"];
    let plain = dir.run(&scenario, "plain", &by_two).success();
    // With four threads nodes run past the ends of their turns.
    for (seed, threads) in [("1", "2"), ("2", "4")] {
        let variables = [("BELLJAR_ROUGH_ROUNDS", seed)];
        let all = [&all[..], &["--threads", threads]].concat();
        let rough = dir.run_under(&variables, &scenario, seed, &all).success();
        plain.assert_same(&rough);
        let were_cut = threads == "4" || 3 * rounds(&plain) < 2 * rounds(&rough);
        assert!(were_cut, "turns were not cut");
    }
}

/// Nodes that share translations of the same code behave as nodes with their own translations.
#[test]
fn sharing_translated_code_changes_no_byte() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(4, "mpiexec.hydra -n 4 counters; date");
    let all = ["--threads", "3", "--pcap", "all"];
    let shared = dir.run(&scenario, "shared", &all).success();
    let own = [("BELLJAR_OWN_CODE", "1")];
    let own = dir.run_under(&own, &scenario, "own", &all).success();
    shared.assert_same(&own);
    let pages = |run: &Outcome| run.counters("pages shared");
    assert!(pages(&shared).iter().all(|&pages| pages > 500));
    assert_eq!(pages(&own), [0; 4]);
    // Libraries have different addresses in each process, so each has translations of its own.
    let [shared, own] = [shared, own].map(|run| run.counters("translated").into_iter().sum());
    let (shared, own): (u64, u64) = (shared, own);
    assert!(4 * shared < 3 * own, "{shared} of {own} instructions");
}

/// Translations of earlier runs change no byte of a run, with any number of threads; damaged and foreign ones
/// are reported and not used.
#[test]
fn code_of_earlier_runs_changes_no_byte() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 counters; date");
    let code = dir.path("code");
    let state = dir.path("state");
    let run = |out: &str, threads: &str, code: &str| {
        let variables = [
            ("BELLJAR_KEPT_CODE", code),
            ("XDG_STATE_HOME", state.to_str().unwrap()),
        ];
        let all = ["--threads", threads, "--pcap", "all"];
        dir.run_under(&variables, &scenario, out, &all).success()
    };
    let translated = |run: &Outcome| run.counters("translated").into_iter().sum::<u64>();
    let kept = code.to_str().unwrap();
    let off = run("off", "2", "off");
    assert!(!code.exists());
    let cold = run("cold", "2", kept);
    let file = only_file_of(&code);
    let warm = ["1", "2"].map(|threads| run(&format!("warm-{threads}"), threads, kept));
    for warm in &warm {
        off.assert_same(warm);
        assert!(
            20 * translated(warm) < translated(&cold),
            "it was translated again"
        );
        assert!(!warm.stderr.contains("not used"), "{}", warm.stderr);
    }
    off.assert_same(&cold);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let damaged = run("damaged", "2", kept);
    assert!(
        damaged.stderr.contains("it is damaged"),
        "{}",
        damaged.stderr
    );
    off.assert_same(&damaged);
    assert!(2 * translated(&damaged) > translated(&cold));
    // It was replaced.
    let again = run("again", "2", kept);
    assert!(20 * translated(&again) < translated(&cold));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
    let foreign = run("foreign", "2", kept);
    assert!(foreign.stderr.contains("mode 0600"), "{}", foreign.stderr);
    off.assert_same(&foreign);
    assert!(2 * translated(&foreign) > translated(&cold));
}

/// The path of the one file in `folder`.
fn only_file_of(folder: &Path) -> PathBuf {
    let mut files = fs::read_dir(folder).unwrap();
    let file = files.next().expect("a file").unwrap().path();
    assert!(files.next().is_none());
    file
}

#[test]
fn another_seed_gives_other_randomness() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(1, "head -c 16 /dev/urandom | od -x");
    let run = |out, seed: &str| {
        dir.run(&scenario, out, &["--set", seed])
            .success()
            .console(0)
    };
    let last = |console: String| {
        console
            .lines()
            .rev()
            .find(|line| line.starts_with("0000000 "))
            .map(str::to_owned)
    };
    let (first, second) = (last(run("one", "seed=1")), last(run("two", "seed=2")));
    assert!(first.is_some());
    assert_ne!(first, second);
}
