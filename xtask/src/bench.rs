//! `cargo xtask bench`: Belljar against QEMU's system emulation in counted mode, on the same kernel, image
//! and programs, in turns. Only the ratios are meaningful.
//!
//! The benchmark measures host time.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::packages::{self, BENCH, BUILD};
use crate::shell::{BuildProfile, build_belljar};

use qemu::{GuestConnection, Machine};

/// `cargo xtask bench hpl`: Linpack on four nodes, against QEMU.
mod cluster;
/// `cargo xtask bench engine`: the exact engine against the bare processor and QEMU.
mod engine;
/// `cargo xtask bench hosts`: the costs of several hosts.
mod hosts;
/// `cargo xtask bench kvm`: the costs of the kvm engine on this host's virtualisation.
mod kvm;
/// Linpack on one node, for `kvm` and `realism`.
mod linpack;
/// `cargo xtask bench observing`: the costs of call sites and profiles.
mod observing;
/// Charts as SVG.
mod plot;
/// The peer: QEMU's system emulation in counted mode.
mod qemu;
/// `cargo xtask bench realism`: cycles of kernels on this processor and in a guest that models it.
mod realism;
/// `cargo xtask bench replay`: the speed of replay, compared with SimGrid.
mod replay;
/// `cargo xtask bench scale`: the costs of many nodes.
mod scale;
/// `cargo xtask bench share`: the use of the host's time while guests run.
mod share;
/// `cargo xtask bench simulate`: the duration of mixes of jobs.
mod simulate;

/// Default number of runs of each side for each row.
const RUNS: usize = 5;

/// Options of the benchmarks.
#[derive(Args)]
pub(crate) struct BenchArguments {
    /// Rows to measure; all by default.
    ///
    /// `engine`, with optional names of kernels, measures the engine against the bare processor and QEMU.
    /// `hpl` measures four nodes that compute together, `share` the use of the host's time, `kvm` the
    /// costs of the kvm engine, and `scale`, with optional names of parts, the costs of many nodes.
    /// `hosts` measures the costs of several hosts, `replay` the messages that replay plays per second,
    /// compared with SimGrid, `simulate` the duration of mixes of ten thousand jobs, and `observing` the
    /// costs of call sites and profiles. `realism`, with optional names of kernels or `programs`, and of a processor,
    /// compares a modelled processor with this one.
    names: Vec<String>,
    /// Draw a chart into this file, as SVG.
    ///
    /// With `engine` it has the ratios to the bare processor, with `hosts` the time over the round trip,
    /// and with `scale` the growth of a node's costs.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write the table into this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs of each side for each row (default 5).
    ///
    /// With `hosts` the default is 2.
    #[arg(long)]
    runs: Option<usize>,
    /// Most seconds of each row of `engine` on each side.
    ///
    /// A row that takes longer is stopped, listed as skipped, and not run again.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    limit: u64,
}

/// A row: a workload, and a smaller one whose time is subtracted to exclude boot.
struct BenchmarkRow {
    name: &'static str,
    what: &'static str,
    command: &'static str,
    less: Option<&'static str>,
    goal: f64,
}

const ROWS: [BenchmarkRow; 3] = [
    BenchmarkRow {
        name: "boot",
        what: "boot to a workload's end and power-off",
        command: "true",
        less: None,
        goal: 1.0,
    },
    BenchmarkRow {
        name: "intloop",
        what: "integer loop, 200 million steps",
        command: "intloop 200000000",
        less: Some("true"),
        goal: 1.0,
    },
    BenchmarkRow {
        name: "dgemm",
        what: "packed SSE2 dgemm, 256 x 256, 60 times",
        command: "dgemm 256 60",
        less: Some("true"),
        goal: 10.0,
    },
];

/// A finished row.
struct Measured {
    name: &'static str,
    what: &'static str,
    ours: f64,
    peer: f64,
    ratio: f64,
    goal: f64,
}

/// Measures and prints the table.
pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let runs = arguments.runs.unwrap_or(RUNS).max(1);
    let (json_file, plot_file) = (arguments.json.as_deref(), arguments.plot.as_deref());
    packages::ensure(&[BUILD, BENCH])?;
    match arguments.names.first().map(String::as_str) {
        Some("hpl") => return cluster::run(runs),
        Some("share") => return share::run(),
        Some("realism") => return realism::run(&arguments.names[1..]),
        Some("replay") => return replay::run(runs),
        Some("simulate") => return simulate::run(runs),
        Some("observing") => return observing::run(runs),
        Some("kvm") => return kvm::run(runs),
        Some("scale") => return scale::run(runs, &arguments.names[1..], plot_file),
        Some("hosts") => return hosts::run(arguments.runs, json_file, plot_file),
        _ => {}
    }
    if let Some((first, kernels)) = arguments.names.split_first()
        && first == "engine"
    {
        let limit = Duration::from_secs(arguments.limit);
        return engine::run(runs, kernels, arguments.plot.clone(), limit);
    }
    for name in &arguments.names {
        if !ROWS.iter().any(|row| row.name == name) {
            let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            bail!("there is no row `{name}`; rows are {}", known.join(", "));
        }
    }
    let bench = Bench::prepare()?;
    let mut table = Vec::new();
    for row in ROWS {
        if arguments.names.is_empty() || arguments.names.iter().any(|name| name == row.name) {
            table.push(bench.measure(&row, runs)?);
            print_row(table.last().context("a row was just added")?);
        }
    }
    if let Some(path) = json_file {
        fs::write(path, json(&table))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn print_row(row: &Measured) {
    println!(
        "{:<9} {:<42} ours {:>8.3} s   qemu -icount {:>8.3} s   {:>6.2} times faster (goal {})",
        row.name, row.what, row.ours, row.peer, row.ratio, row.goal
    );
}

fn json(table: &[Measured]) -> String {
    let rows: Vec<String> = table
        .iter()
        .map(|row| {
            format!(
                "  {{\"name\": \"{}\", \"what\": \"{}\", \"ours_s\": {:.4}, \"peer_s\": {:.4}, \"ratio\": {:.4}}}",
                row.name, row.what, row.ours, row.peer, row.ratio
            )
        })
        .collect();
    format!("[\n{}\n]\n", rows.join(",\n"))
}

/// The level of the guests here.
const LEVEL: &str = "x86-64-v2";

struct Bench {
    belljar: PathBuf,
    image: PathBuf,
    folder: PathBuf,
}

impl Bench {
    fn prepare() -> Result<Self> {
        Self::prepared_with(BuildProfile::Release)
    }

    /// As [`prepare`](Self::prepare), for measurements of virtual time.
    fn prepared_with(profile: BuildProfile) -> Result<Self> {
        let belljar = build_belljar(profile)?;
        let output = Command::new(&belljar)
            .args([
                "image",
                "build",
                "--keep-lock",
                "images/bookworm-mpich.toml",
            ])
            .current_dir(crate::root())
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            bail!("the image cannot be built");
        }
        let folder = std::env::temp_dir().join(format!("belljar-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self {
            belljar,
            image: PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()),
            folder,
        })
    }

    /// Runs both sides in turns; returns the median of each, and of their ratios.
    fn measure(&self, row: &BenchmarkRow, runs: usize) -> Result<Measured> {
        let (mut ours, mut peer, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..runs {
            let our = self.net(row, Self::time_ours)?;
            let their = self.net(row, Self::time_qemu)?;
            ours.push(our);
            peer.push(their);
            ratios.push(their / our);
        }
        Ok(Measured {
            name: row.name,
            what: row.what,
            ours: median(&mut ours),
            peer: median(&mut peer),
            ratio: median(&mut ratios),
            goal: row.goal,
        })
    }

    fn net(&self, row: &BenchmarkRow, time: fn(&Self, &str) -> Result<f64>) -> Result<f64> {
        let whole = time(self, row.command)?;
        let less = row.less.map_or(Ok(0.0), |command| time(self, command))?;
        Ok((whole - less).max(1e-3))
    }

    /// A scenario of one node that runs `command`.
    fn scenario(&self, command: &str) -> Result<PathBuf> {
        let path = self.folder.join("bench.toml");
        let recipe = crate::root().join("images/bookworm-mpich.toml");
        let text = format!(
            "name = \"bench\"\nimage = {{ recipe = {recipe:?} }}\n\
             nodes = {{ count = 1, memory = \"1 GiB\", clock = \"1 GHz\", level = {LEVEL:?}, boot = \"each\" }}\n\
             workload = {{ command = {command:?} }}\n\
             trace = {{ enabled = false, library = false }}\n"
        );
        fs::write(&path, text)?;
        Ok(path)
    }

    fn time_ours(&self, command: &str) -> Result<f64> {
        self.time_run(&self.scenario(command)?)
    }

    /// The time of Belljar for a scenario.
    fn time_run(&self, scenario: &Path) -> Result<f64> {
        let mut run = Command::new(&self.belljar);
        run.arg("run")
            .arg(scenario)
            .arg("--quiet")
            .arg("--out")
            .arg(self.fresh_out());
        timed(&mut run)
    }

    /// A new run directory.
    fn fresh_out(&self) -> PathBuf {
        let out = self.folder.join("out");
        for stale in [out.clone(), out.with_extension("incomplete")] {
            let _ = fs::remove_dir_all(stale);
        }
        out
    }

    fn time_qemu(&self, command: &str) -> Result<f64> {
        let disk = self.run_disk(&self.scenario(command)?)?;
        let machine = Machine {
            image: &self.image,
            disk: &disk,
            level: LEVEL,
            memory_mib: 1024,
            node: (0, 1),
            link: GuestConnection::None,
            console: None,
        };
        timed(&mut machine.command())
    }

    /// A scenario's run disk, for QEMU.
    fn run_disk(&self, scenario: &Path) -> Result<PathBuf> {
        let disk = self.folder.join("run-disk.tar");
        let written = Command::new(&self.belljar)
            .arg("check")
            .arg(scenario)
            .arg("--run-disk")
            .arg(&disk)
            .output()?;
        if !written.status.success() {
            bail!(
                "belljar check failed: {}",
                String::from_utf8_lossy(&written.stderr)
            );
        }
        Ok(disk)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!(
            "{command:?} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(seconds)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}
