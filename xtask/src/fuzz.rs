//! `cargo xtask fuzz`: property tests without an end.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::shell::{cargo, run_with};

/// What is fuzzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// The exact engine, by random programs that the host's processor runs as well.
    /// What differs is cut down to as few instructions as still differ, and printed
    /// as assembly and as a row for `tests/sequences.rs`.
    Engine,
}

/// The command line.
#[derive(Args)]
pub(crate) struct Arguments {
    target: Target,
    /// How long.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Which programs; each seed has its own.
    #[arg(long, value_name = "S", default_value_t = 2)]
    seed: u64,
}

/// Fuzzes until time is up or ten programs differ.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Target::Engine = arguments.target;
    let (seconds, seed) = (arguments.seconds.to_string(), arguments.seed.to_string());
    run_with(
        &cargo(),
        &[
            "test",
            "--release",
            "--quiet",
            "--package",
            "belljar-exact",
            "--test",
            "sequences",
            "fuzz",
            "--",
            "--ignored",
            "--nocapture",
        ],
        &[("BELLJAR_SECONDS", &seconds), ("BELLJAR_SEED", &seed)],
    )
}
