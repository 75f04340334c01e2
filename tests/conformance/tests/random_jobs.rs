//! Random jobs, of which every reader has to give the matching that they were made with.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::env;

use belljar_conformance::{Kinds, Outcome, check};

/// Seeds when `BELLJAR_SEEDS` does not say how many, from `BELLJAR_SEED` on.
const SEEDS: u64 = 500;

/// The kinds of calls that all readers agree on. Switches that are off wait for readers that are wrong about them.
const KINDS: Kinds = Kinds {
    // Program: such receives get the messages that are left at the end, in the order of channels, and so wrong ones. Export: messages that other
    // receives of the rank got have no numbers.
    wildcards_without_status: false,
    // Export: numbers are given in the order of completion.
    pending_wildcards: false,
    // Export: MPI_Start of a collective operation has no record. Wait: its cause is that of an operation in which all wait for all.
    persistent_collectives: false,
    // Program: what MPI_Start sends is a standard send.
    persistent_modes: false,
    // Wait: only collective operations wait for all ranks.
    synchronizing: false,
    ..Kinds::ALL
};

/// The kinds of `BELLJAR_KINDS`, such as `modes,nonblocking`, or `all`; those of the suite when absent.
fn kinds() -> Kinds {
    let Ok(names) = env::var("BELLJAR_KINDS") else {
        return KINDS;
    };
    let mut names = names.split(',').filter(|name| !name.is_empty());
    names
        .try_fold(Kinds::NONE, |kinds, name| match name {
            "all" => Some(Kinds::ALL),
            name => kinds.with(name),
        })
        .expect("BELLJAR_KINDS has names of fields of Kinds")
}

#[test]
fn readers_give_the_matching_of_random_jobs() {
    let number = |name| env::var(name).ok().and_then(|number| number.parse().ok());
    let first: u64 = number("BELLJAR_SEED").unwrap_or(0);
    let seeds: u64 = number("BELLJAR_SEEDS").unwrap_or(SEEDS);
    let folder = tempfile::tempdir().expect("the host gives a temporary folder");
    let mut failures = 0;
    let kinds = kinds();
    for seed in first..first + seeds {
        let Outcome { job, differences } =
            check(seed, &kinds, folder.path()).expect("the trace can be read");
        let readers: BTreeSet<&str> = differences.iter().map(|it| it.reader).collect();
        for reader in &readers {
            let first = differences.iter().find(|it| it.reader == *reader);
            let text = first.map_or("", |first| &first.text);
            eprintln!("seed {seed}: {reader}: {text}");
        }
        if !readers.is_empty() {
            failures += 1;
            if failures == 1 {
                eprintln!("{job}");
            }
        }
    }
    assert_eq!(failures, 0, "seeds failed");
}
