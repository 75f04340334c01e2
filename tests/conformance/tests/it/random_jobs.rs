//! Every reader gives the matching of random jobs.

use std::collections::BTreeSet;
use std::env;

use belljar_conformance::{Kinds, Outcome, check};

/// Seeds without `BELLJAR_SEEDS`, from `BELLJAR_SEED` on.
const SEEDS: u64 = 500;

/// The kinds of `BELLJAR_KINDS`, such as `modes,nonblocking`; all when absent.
fn kinds() -> Kinds {
    let Ok(names) = env::var("BELLJAR_KINDS") else {
        return Kinds::ALL;
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
    let kinds = kinds();
    let mut report = String::new();
    for seed in first..first + seeds {
        let outcome = check(seed, &kinds, folder.path()).expect("the trace can be read");
        let lines = first_of_each_reader(seed, &outcome);
        if report.is_empty() && !lines.is_empty() {
            report = format!("{}\n", outcome.job);
        }
        report += &lines;
    }
    assert!(report.is_empty(), "the first job that fails:\n{report}");
}

/// The first difference of each reader, a line each.
fn first_of_each_reader(seed: u64, outcome: &Outcome) -> String {
    let mut seen = BTreeSet::new();
    let all = outcome.differences.iter();
    let first = all.filter(|difference| seen.insert(difference.reader));
    first
        .map(|difference| format!("seed {seed}: {}: {}\n", difference.reader, difference.text))
        .collect()
}
