//! The members of communicators without reading times are those with times.

use belljar_conformance::{Kinds, check};
use belljar_job::{communicators, communicators_untimed};

const SEEDS: u64 = 60;

#[test]
fn communicators_without_times_are_those_with_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut compared = 0;
    for seed in 0..SEEDS {
        check(seed, &Kinds::ALL, folder.path()).expect("the trace can be read");
        let trace = folder.path().join(format!("{seed}.bjt"));
        let Some(untimed) = communicators_untimed(&trace).expect("a trace") else {
            continue;
        };
        compared += 1;
        let timed = communicators(&trace).expect("a trace");
        assert_eq!(format!("{untimed:?}"), format!("{timed:?}"), "seed {seed}");
    }
    assert!(compared > SEEDS / 10, "{compared} of {SEEDS} were compared");
}
