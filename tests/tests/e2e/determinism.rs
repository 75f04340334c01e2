//! The same scenario gives the same bytes.

use belljar_tests::{Dir, Scenario};

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
    let (one, two, again) = (run("one", "1"), run("two", "2"), run("again", "2"));
    one.assert_same(&two);
    one.assert_same(&again);
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
