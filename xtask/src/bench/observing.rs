//! `cargo xtask bench observing`: the costs of call sites and profiles for the host.
//!
//! Linpack on four nodes runs in turns without either, with the frames of each call, and with samples of processors; only the
//! ratios to the first are meaningful. Called by `bench`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{median, timed};
use crate::shell;

/// Kinds of records: a name, and the keys that enable it.
const WAYS: [(&str, &[&str]); 5] = [
    ("nothing besides calls", &[]),
    ("three frames of each call", &["trace.frames=3"]),
    ("a sample each 1 ms", &["profile.every=1ms"]),
    ("a sample each 100 us", &["profile.every=100us"]),
    ("a sample each 10 us", &["profile.every=10us"]),
];

/// Measures and prints a table.
pub(super) fn run(runs: usize) -> Result<()> {
    let belljar = shell::build_belljar(shell::BuildProfile::Release)?;
    // Makes the snapshot for the measured runs.
    once(&belljar, &[])?;
    let mut all = vec![Vec::new(); WAYS.len()];
    for _ in 0..runs {
        for ((_, keys), seconds) in WAYS.iter().zip(&mut all) {
            seconds.push(once(&belljar, keys)?);
        }
    }
    println!("| looked at | seconds | times nothing |\n|---|---|---|");
    let nothing = all[0].clone();
    for ((name, _), seconds) in WAYS.iter().zip(&mut all) {
        let turns = seconds.iter().zip(&nothing);
        let mut ratios: Vec<f64> = turns.map(|(own, nothing)| own / nothing).collect();
        println!(
            "| {name} | {:.2} | {:.3} |",
            median(seconds),
            median(&mut ratios)
        );
    }
    Ok(())
}

/// Seconds of a run with these keys set.
fn once(belljar: &Path, keys: &[&str]) -> Result<f64> {
    let out = shell::target().join("observing");
    for stale in [out.clone(), out.with_extension("incomplete")] {
        let _ = fs::remove_dir_all(stale);
    }
    let mut command = Command::new(belljar);
    command.args(["run", "scenarios/hpl-4.toml", "--quiet", "--out"]);
    command.arg(&out);
    for key in keys {
        command.args(["--set", key]);
    }
    timed(&mut command)
}
