//! `cargo xtask bench scale`: the costs of many nodes.
//!
//! Making clones, their memory, the rounds, programs on many nodes, and the growth of these costs.
//! Costs are differences or ratios of runs on the same machine. Called by `bench`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Bench, median, plot};

/// Programs on many nodes, from their start to their end.
mod whole;

/// Number of clones that are made but not run.
const CLONES: u32 = 1000;
/// Number of clones for measuring memory.
const IDLE: u32 = 64;
/// Number of always busy nodes for measuring rounds.
const BUSY: u32 = 8;
/// Steps of the integer loop on each of them. A second measurement has twice as many, which excludes
/// the time before and after the loop.
const STEPS: u64 = 600_000_000;
/// Minimum latencies between nodes, in nanoseconds, and the permitted costs of rounds, in percent.
const LOOKAHEADS: [(u64, f64); 2] = [(10_000, 5.0), (1_000, 25.0)];
/// A latency between nodes with almost no rounds.
const NO_ROUNDS: u64 = 10_000_000;
/// Numbers of busy nodes for measuring growth.
const SIZES: [u32; 4] = [4, 16, 64, 256];
/// Maximum number of steps on all of them together.
const ALL_STEPS: u64 = 8 * STEPS;
/// Parts of the benchmark, in order.
const PARTS: [&str; 7] = [
    "clones",
    "memory",
    "rounds",
    "growth",
    "allreduce",
    "hpl",
    "pings",
];

/// Number of nodes, and the cost of one.
type Grown = (u32, f64);

/// Measures and prints the tables of `parts`, or of all, and draws the growth of costs into `plot`.
///
/// # Errors
///
/// If a part is unknown, or a run does not end.
pub(super) fn run(runs: usize, parts: &[String], plot: Option<&Path>) -> Result<()> {
    if let Some(name) = parts.iter().find(|name| !PARTS.contains(&name.as_str())) {
        bail!("there is no part `{name}`; parts are {}", PARTS.join(", "));
    }
    let scale = Scale {
        bench: Bench::prepare()?,
    };
    let mut lines = Vec::new();
    for part in PARTS {
        if !parts.is_empty() && !parts.iter().any(|name| name == part) {
            continue;
        }
        match part {
            "clones" => scale.clones()?,
            "memory" => scale.memory()?,
            "rounds" => scale.rounds(runs)?,
            "growth" => lines.push(relative("integer loop", &scale.growth(runs)?)),
            "allreduce" => lines.push(relative("allreduce-256", &scale.allreduce()?)),
            "hpl" => scale.hpl()?,
            _ => scale.pings()?,
        }
    }
    if let Some(path) = plot {
        let write = fs::write(path, plot::growth(&lines));
        write.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A line of costs relative to the first one.
fn relative(name: &str, grown: &[Grown]) -> plot::ChartLine {
    let first = grown.first().map_or(1.0, |first| first.1);
    let point = |&(nodes, cost): &Grown| (f64::from(nodes), cost / first);
    plot::ChartLine {
        name: name.to_owned(),
        points: grown.iter().map(point).collect(),
    }
}

struct Scale {
    bench: Bench,
}

/// Proportional set size of a run, in MiB.
struct Resident {
    most: f64,
    last: f64,
}

impl Scale {
    fn scenario(&self, nodes: u32, apart_ns: u64, command: &str, limit: &str) -> Result<PathBuf> {
        let recipe = crate::root().join("images/bookworm-mpich.toml");
        // Two links and a switch are between nodes.
        let (link, switch) = (apart_ns * 2 / 5, apart_ns / 5);
        let text = format!(
            "name = \"scale\"\nimage = {{ recipe = {recipe:?} }}\n\
             nodes = {{ count = {nodes}, memory = \"128 MiB\", clock = \"2 GHz\" }}\n\
             network = {{ topology = \"star\", bandwidth = \"100 Gb/s\", latency = \"{link} ns\", \
             switch-latency = \"{switch} ns\" }}\n\
             workload = {{ command = {command:?}, limit = {limit:?} }}\n\
             trace = {{ enabled = false, library = false }}\n"
        );
        let path = self.bench.folder.join("scale.toml");
        fs::write(&path, text)?;
        Ok(path)
    }

    fn start(&self, scenario: &Path, threads: u32, more: &[&str]) -> Result<(Child, PathBuf)> {
        let out = self.bench.fresh_out();
        let child = Command::new(&self.bench.belljar)
            .arg("run")
            .arg(scenario)
            .args(["--quiet", "--threads", &threads.to_string(), "--out"])
            .arg(&out)
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start belljar")?;
        Ok((child, out))
    }

    /// A figure about the host of a finished run.
    fn told(out: &Path, name: &str) -> Result<f64> {
        let mut unfinished = out.as_os_str().to_owned();
        unfinished.push(".incomplete");
        let text = fs::read_to_string(out.join("host.json"))
            .or_else(|_| fs::read_to_string(PathBuf::from(unfinished).join("host.json")))
            .context("the run left no figures")?;
        let key = format!("\"{name}\": ");
        let value = text
            .split(&key)
            .nth(1)
            .and_then(|rest| rest.split([',', '\n']).next())
            .and_then(|value| value.trim().parse().ok());
        value.with_context(|| format!("host.json does not tell {name}"))
    }

    fn clones(&self) -> Result<()> {
        // The snapshot exists the second time.
        let mut made = 0.0;
        for _ in 0..2 {
            let scenario = self.scenario(CLONES, 10_000, "true", "1 ms")?;
            let (mut child, out) = self.start(&scenario, 1, &[])?;
            child.wait()?;
            made = Self::told(&out, "prepared")?;
        }
        println!("{CLONES} clones made in {made:.2} s (goal 10)");
        Ok(())
    }

    /// Proportional set size at the end of a long sleep of all clones.
    fn memory(&self) -> Result<()> {
        let scenario = self.scenario(IDLE, 10_000, "sleep 200", "300 s")?;
        let (mut child, _) = self.start(&scenario, 4, &[])?;
        let Resident { most, last } = Self::watch(&mut child, 0)?;
        println!(
            "{IDLE} idle clones: {:.1} MiB resident for each, all of belljar included (goal 12); {:.1} MiB while they come up",
            last / f64::from(IDLE),
            most / f64::from(IDLE)
        );
        Ok(())
    }

    /// Measures a run's memory until it ends. The pause after a measurement is `rests` times as long
    /// as the measurement, because summing thousands of mappings delays the run, too.
    fn watch(child: &mut Child, rests: u32) -> Result<Resident> {
        let rollup = format!("/proc/{}/smaps_rollup", child.id());
        let mut resident = Resident {
            most: 0.0,
            last: 0.0,
        };
        while child.try_wait()?.is_none() {
            let begun = Instant::now();
            if let Some(now) = proportional(&rollup) {
                resident.most = resident.most.max(now);
                resident.last = now;
            }
            thread::sleep(Duration::from_millis(200).max(rests * begun.elapsed()));
        }
        Ok(resident)
    }

    /// Host seconds for `steps` steps of the loop on all nodes, one thread.
    fn busy(&self, nodes: u32, apart_ns: u64, steps: u64) -> Result<f64> {
        let mut seconds = [0.0; 2];
        for (factor, seconds) in (1..).zip(&mut seconds) {
            let steps = steps * factor;
            let command = format!(
                "i=1; while [ $i -lt {nodes} ]; do belljar-rsh node$i intloop {steps} >/dev/null & \
                 i=$((i+1)); done; intloop {steps} >/dev/null; wait"
            );
            let scenario = self.scenario(nodes, apart_ns, &command, "1000 s")?;
            let (mut child, out) = self.start(&scenario, 1, &[])?;
            if !child.wait()?.success() {
                bail!("{nodes} busy nodes did not get to their end");
            }
            *seconds = Self::told(&out, "seconds")? - Self::told(&out, "prepared")?;
        }
        Ok(seconds[1] - seconds[0])
    }

    fn rounds(&self, runs: usize) -> Result<()> {
        for (apart, goal) in LOOKAHEADS {
            let mut costs = Vec::new();
            for _ in 0..runs {
                let without = self.busy(BUSY, NO_ROUNDS, STEPS)?;
                let with = self.busy(BUSY, apart, STEPS)?;
                costs.push((1.0 - without / with) * 100.0);
            }
            println!(
                "{BUSY} busy nodes {} us apart: rounds cost {:.0} % of the run (goal {goal:.0})",
                apart as f64 / 1000.0,
                median(&mut costs)
            );
        }
        Ok(())
    }

    fn growth(&self, runs: usize) -> Result<Vec<Grown>> {
        println!("| busy nodes | host ms for a node's million steps |\n|---|---|");
        let mut grown = Vec::new();
        for nodes in SIZES {
            let steps = STEPS.min(ALL_STEPS / u64::from(nodes));
            let mut times = Vec::new();
            for _ in 0..runs {
                let seconds = self.busy(nodes, 10_000, steps)?;
                times.push(seconds * 1e3 / f64::from(nodes) / (steps as f64 / 1e6));
            }
            let time = median(&mut times);
            println!("| {nodes} | {time:.3} |");
            grown.push((nodes, time));
        }
        Ok(grown)
    }
}

/// Proportional set size in MiB.
fn proportional(rollup: &str) -> Option<f64> {
    let text = fs::read_to_string(rollup).ok()?;
    let line = text.lines().find(|line| line.starts_with("Pss:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
