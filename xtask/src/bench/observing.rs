//! `cargo xtask bench observing`: what call sites and profiles cost the host.
//!
//! Linpack on four nodes runs in turns without either, with the frames of each call, and with samples of what the processors do; only the ratios to the first mean anything. Called by `bench`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{median, timed};
use crate::shell;

/// What is looked at: a name, and the keys that ask for it.
const WAYS: [(&str, &[&str]); 5] = [
    ("nothing besides calls", &[]),
    ("three frames of each call", &["trace.frames=3"]),
    ("a sample each 1 ms", &["profile.every=1ms"]),
    ("a sample each 100 us", &["profile.every=100us"]),
    ("a sample each 10 us", &["profile.every=10us"]),
];

/// Measures and prints a table.
pub(super) fn run(runs: usize) -> Result<()> {
    let belljar = shell::build_belljar(shell::Profile::Release)?;
    // Leaves the snapshot that the runs which count find.
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
