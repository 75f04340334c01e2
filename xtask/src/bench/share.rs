//! `cargo xtask bench share`: the use of the host's time while guests run.
//!
//! `perf` takes samples, and the running function selects the column: modules are listed here, and the
//! first match counts. Called by `bench`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Bench;

/// Workloads, with their names in the table.
const WORKLOADS: [(&str, &str); 4] = [
    ("boot", "true"),
    ("fork and exec, 1000 times", "forkexec 1000"),
    ("an MPI launch, two ranks", "mpiexec.hydra -n 2 hello"),
    ("dgemm, 256 x 256, 400 times", "dgemm 256 400"),
];

/// The columns, in order, and the modules of each. The first match counts.
const PARTS: [(&str, &[&str]); 8] = [
    ("translated code", &["belljar-code"]),
    (
        "TLB misses",
        &[
            "belljar_exact::memory",
            "belljar_exact::processor::mmu",
            "belljar_translate::context",
            "::stretch",
            "::explore",
            "::group_miss",
        ],
    ),
    (
        "dispatch",
        &[
            "belljar_exact::run",
            "belljar_exact::find::lookup",
            "belljar_exact::code::index",
            "belljar_exact::processor::enter",
            "::find",
        ],
    ),
    ("instructions in Rust", &["belljar_exact::instructions"]),
    (
        "translation",
        &["belljar_exact", "belljar_translate", "iced_x86"],
    ),
    (
        "devices, network, rounds",
        &["belljar_", "virtio", "vm_memory"],
    ),
    ("host kernel", &["[k]"]),
    ("rest", &[""]),
];

/// Measures and prints a table.
pub(super) fn run() -> Result<()> {
    let bench = Bench::prepare()?;
    let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    println!("| workload | {} |", names.join(" | "));
    println!("|---{}|", "|---".repeat(PARTS.len()));
    for (what, command) in WORKLOADS {
        let shares = measure(&bench, command)?;
        let row: Vec<String> = shares.iter().map(|share| format!("{share:.0} %")).collect();
        println!("| {what} | {} |", row.join(" | "));
    }
    Ok(())
}

fn measure(bench: &Bench, command: &str) -> Result<[f64; PARTS.len()]> {
    let scenario = bench.scenario(command)?;
    let data = bench.folder.join("perf.data");
    let out = bench.fresh_out();
    let recorded = Command::new("perf")
        .args(["record", "-e", "cpu-clock", "-F", "2000", "-o"])
        .arg(&data)
        .arg(&bench.belljar)
        .arg("run")
        .arg(scenario)
        .arg("--quiet")
        .arg("--out")
        .arg(out)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("cannot start perf; install linux-perf")?;
    if !recorded.status.success() {
        bail!(
            "perf cannot record here: {}",
            String::from_utf8_lossy(&recorded.stderr)
        );
    }
    let report = Command::new("perf")
        .args([
            "report",
            "--sort",
            "dso,symbol",
            "-F",
            "sample,dso,symbol",
            "-i",
        ])
        .arg(&data)
        .stderr(Stdio::null())
        .output()?;
    shares(&String::from_utf8_lossy(&report.stdout))
}

/// Percent of the samples in each of [`PARTS`].
fn shares(report: &str) -> Result<[f64; PARTS.len()]> {
    let mut samples: BTreeMap<usize, u64> = BTreeMap::new();
    for line in report.lines().filter(|line| !line.starts_with('#')) {
        let Some((count, place)) = line.trim().split_once(char::is_whitespace) else {
            continue;
        };
        let Ok(count) = count.parse::<u64>() else {
            continue;
        };
        let part = PARTS
            .iter()
            .position(|(_, marks)| marks.iter().any(|mark| place.contains(mark)))
            .unwrap_or(PARTS.len() - 1);
        *samples.entry(part).or_default() += count;
    }
    let all: u64 = samples.values().sum();
    if all == 0 {
        bail!("perf saw no samples");
    }
    Ok(std::array::from_fn(|part| {
        samples.get(&part).copied().unwrap_or(0) as f64 / all as f64 * 100.0
    }))
}
