//! `cargo xtask bench simulate`: the duration of mixes of jobs, by scheduler.
//!
//! Ten thousand jobs on ten thousand hosts and a tenth of both are simulated; the ratio of both times shows the growth, and can
//! be compared between hosts. Called by `bench`.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::median;
use crate::packages::{self, BUILD};
use crate::shell;

const SCHEDULERS: [&str; 3] = ["fcfs", "easy", "conservative"];

/// Groups of jobs, for each ten thousand: number of jobs, ranks of each, seconds between them, seconds of each, and traffic
/// pattern.
const GROUPS: [(u32, u32, u32, u32, &str); 3] = [
    (6000, 16, 5, 1000, "stencil"),
    (3000, 128, 10, 2000, "stencil"),
    (1000, 1024, 30, 2000, "hypercube"),
];

/// Measures and prints a table.
pub(super) fn run(runs: usize) -> Result<()> {
    packages::ensure(&[BUILD])?;
    let belljar = shell::build_belljar(shell::BuildProfile::Release)?;
    println!("| scheduler | jobs | hosts | seconds | jobs a second | times a tenth of it |");
    println!("|---|---|---|---|---|---|");
    for scheduler in SCHEDULERS {
        let mut before = None;
        for part in [10, 1] {
            let file = shell::target().join(format!("mix-{part}.toml"));
            fs::write(&file, mix(scheduler, part))?;
            let mut all = Vec::new();
            for _ in 0..runs {
                let began = Instant::now();
                let mut command = Command::new(&belljar);
                let command = command.arg("simulate").arg(&file).stdout(Stdio::null());
                let status = command.status().context("belljar cannot be started")?;
                if !status.success() {
                    bail!("belljar simulate {}: {status}", file.display());
                }
                all.push(began.elapsed().as_secs_f64());
            }
            let seconds = median(&mut all);
            let times = before.map_or_else(String::new, |before: f64| {
                format!("{:.1}", seconds / before)
            });
            let jobs = 10_000 / part;
            println!(
                "| {scheduler} | {jobs} | {jobs} | {seconds:.2} | {:.0} | {times} |",
                f64::from(jobs) / seconds
            );
            before = Some(seconds);
        }
    }
    Ok(())
}

/// A mix on a fraction of ten thousand hosts.
fn mix(scheduler: &str, part: u32) -> String {
    let hosts = 10_000 / part;
    let mut mix = format!(
        "name = \"bench\"\nhosts = {hosts}\nscheduler = \"{scheduler}\"\nselection = \"topology-aware\"\n\
         routing = \"d-mod-k\"\n[network]\ntopology = \"fat-tree\"\nports = 36\nbandwidth = \"100 Gb/s\"\n"
    );
    for (count, ranks, between, lasts, pattern) in GROUPS {
        // The same amount of work for each host.
        let ranks = (ranks / part).max(2);
        // Writing to a String cannot fail.
        let _ = writeln!(
            mix,
            "[[jobs]]\nname = \"{pattern}\"\ncount = {}\nranks = {ranks}\nestimate = 2\n\
             arrival = {{ between = {{ distribution = \"exponential\", mean = \"{} s\" }} }}\n\
             duration = {{ distribution = \"weibull\", scale = \"{lasts} s\", shape = 0.8 }}\n\
             traffic = {{ pattern = \"{pattern}\", rate = \"1 Gb/s\" }}",
            count / part,
            between * part
        );
    }
    mix
}
