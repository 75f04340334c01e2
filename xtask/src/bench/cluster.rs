//! `cargo xtask bench hpl`: Linpack on four nodes, compared with four of QEMU's guests in
//! counted mode whose network is the host's loopback.
//!
//! QEMU's guests do not share a virtual time, so this compares only the time to the result.
//! Boot counts on both sides, except for clones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::qemu::{GuestConnection, Machine};
use super::{Bench, median};

const NODES: u32 = 4;
const MEMORY_MIB: u32 = 512;
/// From mostly boot and network to mostly arithmetic. QEMU has no latencies.
const CASES: [Case; 3] = [
    Case {
        order: 1000,
        level: "x86-64-v2",
        ways: &[("1 us", Boot::Each)],
    },
    Case {
        order: 3000,
        level: "x86-64-v2",
        ways: &[("1 us", Boot::Each)],
    },
    Case {
        order: 8000,
        level: "x86-64-v3",
        ways: &[
            ("1 us", Boot::Each),
            ("10 us", Boot::Each),
            ("10 us", Boot::Clones),
        ],
    },
];
/// Longest that one side may take.
const LIMIT: Duration = Duration::from_secs(1800);
/// Port of the multicast group of QEMU's guests.
const PORT: u16 = 17_791;

/// A matrix, the nodes' instruction set, and its variants: the latency of the links, and the
/// method of starting nodes. Each variant is a row.
struct Case {
    order: u32,
    level: &'static str,
    ways: &'static [(&'static str, Boot)],
}

/// Methods of starting nodes.
#[derive(Clone, Copy)]
enum Boot {
    /// Each boots, as QEMU's guests do.
    Each,
    /// Clones of a node that booted in an earlier run, the default of scenarios.
    Clones,
}

impl Boot {
    fn setting(self) -> &'static str {
        match self {
            Self::Each => ", boot = \"each\"",
            Self::Clones => "",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Each => "each boots",
            Self::Clones => "clones",
        }
    }
}

/// Measures and prints a line for each row.
pub(super) fn run(runs: usize) -> Result<()> {
    let bench = Bench::prepare()?;
    for case in &CASES {
        measure(&bench, case, runs)?;
    }
    Ok(())
}

/// Runs all rows of a case and then QEMU, repeatedly.
fn measure(bench: &Bench, case: &Case, runs: usize) -> Result<()> {
    let mut rows = vec![Vec::new(); case.ways.len()];
    let mut peer = Vec::new();
    for round in 0..runs {
        let mut scenario = PathBuf::new();
        for (row, &(latency, boot)) in rows.iter_mut().zip(case.ways) {
            scenario = write_scenario(bench, case, latency, boot)?;
            if round == 0 && matches!(boot, Boot::Clones) {
                // Makes the snapshot for the measured runs.
                bench.time_run(&scenario)?;
            }
            row.push(bench.time_run(&scenario)?);
        }
        peer.push(time_qemu(bench, &scenario, case.level)?);
    }
    for (ours, (latency, boot)) in rows.iter_mut().zip(case.ways) {
        let both = peer.iter().zip(ours.iter());
        let mut ratios: Vec<f64> = both.map(|(their, our)| their / our).collect();
        println!(
            "HPL, N = {}, four nodes of {}, links of {latency}, {}: ours {:.1} s   \
             qemu -icount {:.1} s   {:.2} times faster (goal 15)",
            case.order,
            case.level,
            boot.name(),
            median(ours),
            median(&mut peer.clone()),
            median(&mut ratios)
        );
    }
    Ok(())
}

fn write_scenario(bench: &Bench, case: &Case, latency: &str, boot: Boot) -> Result<PathBuf> {
    let (Case { order, level, .. }, boot) = (case, boot.setting());
    let root = crate::root();
    let input = fs::read_to_string(root.join("scenarios/hpl/HPL.dat"))?;
    let lines: Vec<String> = input
        .lines()
        .map(|line| match line.trim_end().strip_suffix("Ns") {
            Some(_) => format!("{order} Ns"),
            None => line.to_owned(),
        })
        .collect();
    let matrix = bench.folder.join("HPL.dat");
    fs::write(&matrix, lines.join("\n") + "\n")?;
    let path = bench.folder.join(format!("hpl-{order}.toml"));
    let recipe = root.join("images/bookworm-mpich.toml");
    let text = format!(
        "name = \"hpl\"\nimage = {{ recipe = {recipe:?} }}\n\
         nodes = {{ count = {NODES}, memory = \"{MEMORY_MIB} MiB\", clock = \"1 GHz\", level = {level:?}{boot} }}\n\
         network = {{ topology = \"star\", bandwidth = \"10 Gb/s\", latency = {latency:?} }}\n\
         workload = {{ command = \"mpiexec.hydra -n {NODES} xhpl\", limit = \"1000 s\", \
         files = {{ \"HPL.dat\" = {matrix:?} }} }}\n\
         trace = {{ enabled = false, library = false }}\n"
    );
    fs::write(&path, text)?;
    Ok(path)
}

fn time_qemu(bench: &Bench, scenario: &Path, level: &'static str) -> Result<f64> {
    let disk = bench.run_disk(scenario)?;
    let consoles: Vec<PathBuf> = (0..NODES)
        .map(|node| bench.folder.join(format!("console{node}")))
        .collect();
    let start = Instant::now();
    let mut guests = Guests(Vec::new());
    for node in (0..NODES).rev() {
        let machine = Machine {
            image: &bench.image,
            disk: &disk,
            level,
            memory_mib: MEMORY_MIB,
            node: (node, NODES),
            link: GuestConnection::Multicast { port: PORT },
            console: Some(&consoles[node as usize]),
        };
        let child = machine
            .command()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start qemu-system-x86_64")?;
        guests.0.push(child);
    }
    let first = guests.0.last_mut().context("there are no guests")?;
    wait(first, start + LIMIT)?;
    let seconds = start.elapsed().as_secs_f64();
    let console = fs::read(&consoles[0])?;
    if !String::from_utf8_lossy(&console).contains("PASSED") {
        bail!(
            "HPL did not pass under QEMU; its console says:\n{}",
            String::from_utf8_lossy(&console)
        );
    }
    Ok(seconds)
}

fn wait(child: &mut Child, until: Instant) -> Result<()> {
    while child.try_wait()?.is_none() {
        if Instant::now() > until {
            bail!("QEMU's guests did not end within {} s", LIMIT.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Running guests, which end with this value.
struct Guests(Vec<Child>);

impl Drop for Guests {
    fn drop(&mut self) {
        for guest in &mut self.0 {
            let _ = guest.kill();
            let _ = guest.wait();
        }
    }
}
