//! `cargo xtask bench scale`: what many nodes cost: making clones, their memory, the rounds,
//! and how all that grows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Bench, median};

/// Clones that are made and not run.
const CLONES: u32 = 1000;
/// Clones whose memory is looked at.
const IDLE: u32 = 64;
/// Nodes that are busy all the time while rounds are measured.
const BUSY: u32 = 8;
/// Steps of the integer loop on each of them; twice as many the second time, so that what
/// comes before and behind does not count.
const STEPS: u64 = 600_000_000;
/// Least times between nodes, in nanoseconds, and what rounds may cost there, in percent.
const LOOKAHEADS: [(u64, f64); 2] = [(10_000, 5.0), (1_000, 25.0)];
/// A time between nodes with which there are hardly any rounds.
const NO_ROUNDS: u64 = 10_000_000;
/// Numbers of busy nodes for growth.
const SIZES: [u32; 3] = [4, 16, 64];

/// Measures and prints the tables.
pub(super) fn run(runs: usize) -> Result<()> {
    let scale = Scale {
        bench: Bench::prepare()?,
    };
    scale.clones()?;
    scale.memory()?;
    scale.rounds(runs)?;
    scale.growth(runs)
}

struct Scale {
    bench: Bench,
}

impl Scale {
    fn scenario(&self, nodes: u32, apart_ns: u64, command: &str, limit: &str) -> Result<PathBuf> {
        let recipe = crate::root().join("images/bookworm-mpich.toml");
        // Two links and a switch lie between nodes.
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

    fn start(&self, scenario: &Path, threads: u32) -> Result<(Child, PathBuf)> {
        let out = self.bench.fresh_out();
        let child = Command::new(&self.bench.belljar)
            .arg("run")
            .arg(scenario)
            .args(["--quiet", "--threads", &threads.to_string(), "--out"])
            .arg(&out)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start belljar")?;
        Ok((child, out))
    }

    /// A figure that a finished run tells of its host.
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
        // The snapshot is there the second time.
        let mut made = 0.0;
        for _ in 0..2 {
            let scenario = self.scenario(CLONES, 10_000, "true", "1 ms")?;
            let (mut child, out) = self.start(&scenario, 1)?;
            child.wait()?;
            made = Self::told(&out, "prepared")?;
        }
        println!("{CLONES} clones made in {made:.2} s (goal 10)");
        Ok(())
    }

    /// Resident memory, shared pages in parts, at the end of a long sleep of all clones.
    fn memory(&self) -> Result<()> {
        let scenario = self.scenario(IDLE, 10_000, "sleep 200", "300 s")?;
        let (mut child, _) = self.start(&scenario, 4)?;
        let rollup = format!("/proc/{}/smaps_rollup", child.id());
        let (mut most, mut last) = (0.0, 0.0);
        while child.try_wait()?.is_none() {
            thread::sleep(Duration::from_millis(200));
            if let Some(resident) = proportional(&rollup) {
                (most, last) = (resident.max(most), resident);
            }
        }
        println!(
            "{IDLE} idle clones: {:.1} MiB resident for each, all of belljar included (goal 12); {:.1} MiB while they come up",
            last / f64::from(IDLE),
            most / f64::from(IDLE)
        );
        Ok(())
    }

    /// Host seconds for `STEPS` steps of the loop on all nodes, one thread.
    fn busy(&self, nodes: u32, apart_ns: u64) -> Result<f64> {
        let mut seconds = [0.0; 2];
        for (factor, seconds) in (1..).zip(&mut seconds) {
            let steps = STEPS * factor;
            let command = format!(
                "i=1; while [ $i -lt {nodes} ]; do belljar-rsh node$i intloop {steps} >/dev/null & \
                 i=$((i+1)); done; intloop {steps} >/dev/null; wait"
            );
            let scenario = self.scenario(nodes, apart_ns, &command, "1000 s")?;
            let (mut child, out) = self.start(&scenario, 1)?;
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
                let without = self.busy(BUSY, NO_ROUNDS)?;
                let with = self.busy(BUSY, apart)?;
                costs.push((with / without - 1.0) * 100.0);
            }
            println!(
                "{BUSY} busy nodes {} us apart: rounds cost {:.0} % (goal {goal:.0})",
                apart as f64 / 1000.0,
                median(&mut costs)
            );
        }
        Ok(())
    }

    fn growth(&self, runs: usize) -> Result<()> {
        println!("| busy nodes | host ms for a node's million steps |\n|---|---|");
        for nodes in SIZES {
            let mut times = Vec::new();
            for _ in 0..runs {
                let seconds = self.busy(nodes, 10_000)?;
                times.push(seconds * 1e3 / f64::from(nodes) / (STEPS as f64 / 1e6));
            }
            println!("| {nodes} | {:.3} |", median(&mut times));
        }
        Ok(())
    }
}

/// Proportional set size in MiB.
fn proportional(rollup: &str) -> Option<f64> {
    let text = fs::read_to_string(rollup).ok()?;
    let line = text.lines().find(|line| line.starts_with("Pss:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
