//! Tracing does not affect the traced program.

use belljar_tests::{Dir, Outcome, root};

fn run(dir: &Dir, out: &str, settings: &[&str]) -> Outcome {
    let scenario = root().join("scenarios/perturbation.toml");
    let mut arguments = vec!["run", scenario.to_str().unwrap(), "--quiet", "--out", out];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let (_, stderr, code) = dir.call(&arguments);
    assert_eq!(code, Some(0), "{stderr}");
    dir.outcome(out)
}

/// Rank, function and counters before and after, in the order of the console.
fn stamps(run: &Outcome) -> Vec<(u32, String, u64, u64)> {
    let console = run.console(0);
    let stamps = console.lines().filter_map(|line| {
        let words: Vec<&str> = line.strip_prefix("RDTSC ")?.split(' ').collect();
        let [rank, _, function, before, after] = words[..] else {
            return None;
        };
        Some((
            rank.parse().ok()?,
            function.to_owned(),
            before.parse().ok()?,
            after.parse().ok()?,
        ))
    });
    let stamps: Vec<_> = stamps.collect();
    assert_eq!(stamps.len(), 128, "{console}");
    stamps
}

/// Cycles from each call's end to the next one's start, for one rank.
fn between(stamps: &[(u32, String, u64, u64)], rank: u32) -> Vec<u64> {
    let own: Vec<_> = stamps.iter().filter(|stamp| stamp.0 == rank).collect();
    own.windows(2).map(|pair| pair[1].2 - pair[0].3).collect()
}

#[test]
fn tracing_moves_no_cycle() {
    let Some(dir) = Dir::new() else { return };
    let traced = run(&dir, "traced", &[]);
    let untraced = run(&dir, "untraced", &["trace.enabled=false"]);
    assert!(traced.summary()["mpi_calls"].as_u64().unwrap() >= 128);
    assert_eq!(untraced.summary()["mpi_calls"], 0);
    assert_eq!(stamps(&traced), stamps(&untraced));
    for node in 0..2 {
        assert_eq!(traced.console(node), untraced.console(node));
        assert_eq!(
            traced.summary()["nodes"][node as usize],
            untraced.summary()["nodes"][node as usize]
        );
    }
    assert_eq!(
        traced.summary()["virtual_time_ps"],
        untraced.summary()["virtual_time_ps"]
    );
}

/// Longer intervals between two calls contain an entry of the kernel: a timer interrupt,
/// or a page fault.
const KERNEL_VISIT: u64 = 1000;

/// Without the library the program starts at another time, and the kernel interrupts it
/// at other points. Elsewhere the number of instructions between calls is the same.
#[test]
fn the_library_adds_no_instruction_between_calls() {
    let Some(dir) = Dir::new() else { return };
    let with = stamps(&run(&dir, "with", &["trace.library=true"]));
    let without = stamps(&run(&dir, "without", &["trace.enabled=false"]));
    let mut equal = 0;
    for rank in 0..2 {
        let pairs = between(&with, rank)
            .into_iter()
            .zip(between(&without, rank));
        for (with, without) in pairs.filter(|(with, without)| with.max(without) < &KERNEL_VISIT) {
            assert_eq!(with, without);
            equal += 1;
        }
    }
    assert!(equal > 100, "only {equal} intervals without the kernel");
}
