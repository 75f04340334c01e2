//! This host's features for comparisons.
#![allow(clippy::print_stderr)]

use belljar_cpu::{Feature, InstructionSet, Level};

/// A number in an environment variable.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The highest level of this host, with all of its extensions.
pub fn host_set() -> InstructionSet {
    let level = Level::ALL
        .into_iter()
        .rfind(|&level| belljar_exact::host_requirements(&level.into()).is_ok())
        .expect("the engine runs on this host");
    let mut names = Vec::new();
    for extension in Feature::ALL {
        let mut wanted = names.clone();
        wanted.push(extension.name());
        let set = InstructionSet::new(level, wanted.iter().copied());
        if set.is_ok_and(|set| belljar_exact::host_requirements(&set).is_ok()) {
            names = wanted;
        } else if !InstructionSet::from(level).has(*extension) {
            eprintln!("SKIPPED: this host has no {extension}");
        }
    }
    InstructionSet::new(level, names).expect("each was tried")
}
