//! Programs on many nodes, from their start to their end.
//!
//! Times are from the run's own report about its host; its memory is measured while it runs. Called by
//! `bench scale`.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Grown, Scale};

/// SimBricks' figure: 40 hosts of one core each, 790 times slower than real time, on a machine of 96
/// hardware threads (Li, Li and Kaufmann, "SimBricks: End-to-End Network System Evaluation with Modular
/// Simulation", SIGCOMM 2022): host threads' seconds for a second of one node.
const SIMBRICKS: f64 = 790.0 * 96.0 / 40.0;
/// Numbers of ranks of the allreduce, up to the scenario's.
const RANKS: [u32; 4] = [4, 16, 64, 256];
/// Number of pinged nodes.
const PINGED: u32 = 1024;
/// Pause between measurements of a run's memory, as a multiple of their duration.
const RESTS: u32 = 20;
/// Host threads.
const THREADS: u32 = 4;

/// A finished run.
struct Whole {
    nodes: u32,
    /// Host seconds after the nodes were made.
    seconds: f64,
    /// Processor seconds, including the time to make the nodes.
    processor: f64,
    /// Virtual seconds.
    passed: f64,
    /// Maximum resident memory, in GiB.
    resident: f64,
}

impl Whole {
    /// Processor seconds for a second of one node.
    fn per_node(&self) -> f64 {
        self.processor / self.passed / f64::from(self.nodes)
    }

    fn print(&self, what: &str) {
        println!(
            "| {what} | {:.0} s | {:.0} s | {:.2} s | {:.1} GiB | {:.1} s | {:.0} |",
            self.seconds,
            self.processor,
            self.passed,
            self.resident,
            self.per_node(),
            SIMBRICKS / self.per_node()
        );
    }
}

impl Scale {
    /// The scenario's loop over an increasing number of nodes.
    pub(super) fn allreduce(&self) -> Result<Vec<Grown>> {
        header();
        let mut grown = Vec::new();
        for ranks in RANKS {
            let count = format!("nodes.count={ranks}");
            let whole = self.whole("allreduce-256", ranks, &["--set", &count])?;
            whole.print(&format!("`allreduce-256`, {ranks} nodes"));
            grown.push((ranks, whole.per_node()));
        }
        Ok(grown)
    }

    /// Linpack over 64 nodes.
    pub(super) fn hpl(&self) -> Result<()> {
        header();
        self.whole("hpl-64", 64, &[])?.print("`hpl-64`");
        Ok(())
    }

    /// Node 0 pings all the others.
    pub(super) fn pings(&self) -> Result<()> {
        let command = "i=1; while [ $i -lt $BELLJAR_NODES ]; do \
                       ping -c 1 -W 5 node$i >/dev/null || exit 1; i=$((i+1)); done";
        let scenario = self.scenario(PINGED, 10_000, command, "100 s")?;
        header();
        self.measure(scenario, PINGED, &[])?
            .print(&format!("a ping to each of {PINGED} nodes"));
        Ok(())
    }

    fn whole(&self, name: &str, nodes: u32, more: &[&str]) -> Result<Whole> {
        let scenario = crate::root().join(format!("scenarios/{name}.toml"));
        self.measure(scenario, nodes, more)
    }

    fn measure(&self, scenario: PathBuf, nodes: u32, more: &[&str]) -> Result<Whole> {
        let (mut child, out) = self.start(&scenario, THREADS, more)?;
        let resident = Self::watch(&mut child, RESTS)?.most;
        let status = child.wait()?;
        if !status.success() {
            let what = scenario.display();
            bail!("{what} did not get to its end with {nodes} nodes: {status}");
        }
        let told = |name| Self::told(&out, name);
        let (all, prepared) = (told("seconds")?, told("prepared")?);
        Ok(Whole {
            nodes,
            seconds: all - prepared,
            processor: told("processor_seconds")?,
            passed: told("speed")? * all,
            resident: resident / 1024.0,
        })
    }
}

fn header() {
    println!(
        "| what, to its end, {THREADS} threads | host time | processor time | virtual time | most memory \
         | processor seconds for a second of a node | times less than SimBricks' {SIMBRICKS:.0} |"
    );
    println!("|---|---|---|---|---|---|---|");
}
