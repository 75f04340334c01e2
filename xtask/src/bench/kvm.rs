//! `cargo xtask bench kvm`: the costs of the kvm engine on this host's virtualisation.
//!
//! Linpack runs on one node, and natively on the host with the same binary and the image's
//! libraries. If the host has no usable KVM, or is emulated itself, rows stay empty, with
//! the reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::linpack::{self, Bare};
use super::{Bench, median, timed};

/// Order of the matrix, for about ten thousand million floating-point operations: a second
/// on one processor.
const ORDER: u32 = 2500;
/// Both sides use the kernels of OpenBLAS for the nodes' default level.
const KERNELS: &str = "Nehalem";
/// Model name of QEMU's emulated processors.
const EMULATED: &str = "QEMU TCG";

/// Measures and prints a table in Markdown.
pub(super) fn run(runs: usize) -> Result<()> {
    let bench = Bench::prepare()?;
    let doctor = Command::new(&bench.belljar).arg("doctor").output()?;
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let line = told
        .lines()
        .find(|line| line.contains("engine kvm"))
        .context("belljar doctor tells nothing of engine kvm")?;
    let mut rows = KvmMeasurements::default();
    if line.starts_with("ok") {
        rows.call = traced_call(line);
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if cpus.contains(EMULATED) {
            println!("Not measured but for a traced call: this host's processor is emulated.\n");
        } else {
            measure(&bench, "kvm", runs, &mut rows)?;
        }
    } else {
        println!("Not measured: {}\n", line.trim());
    }
    rows.print();
    Ok(())
}

/// Measurements, in the table's words.
#[derive(Default)]
struct KvmMeasurements {
    boot: Option<String>,
    call: Option<String>,
    linpack: Option<String>,
    overrun: Option<String>,
}

impl KvmMeasurements {
    fn print(&self) {
        println!("| what | this host |\n|---|---|");
        for (what, value) in [
            ("boot to shell", &self.boot),
            ("a traced call", &self.call),
            ("HPL, times the bare host", &self.linpack),
            ("overrun of a turn, mean and worst", &self.overrun),
        ] {
            println!("| {what} | {} |", value.as_deref().unwrap_or(""));
        }
    }
}

/// The cost in the doctor's line, between "costs" and the comma.
fn traced_call(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("a traced call costs ")?;
    rest.split_once(',').map(|(cost, _)| cost.to_owned())
}

fn measure(bench: &Bench, engine: &str, runs: usize, rows: &mut KvmMeasurements) -> Result<()> {
    let work = bench.folder.join("bare");
    let matrix = linpack::input(&work, ORDER)?;
    let bare = Bare::unpack(bench)?;
    let nothing = scenario(bench, engine, "true", &matrix)?;
    let hpl = scenario(bench, engine, "xhpl | grep PASSED", &matrix)?;
    let (mut boots, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let boot = bench.time_run(&nothing)?;
        let guest = bench.time_run(&hpl)? - boot;
        boots.push(boot);
        ratios.push(guest / timed(&mut bare.command(None, KERNELS, &work)?)?);
    }
    rows.boot = Some(format!("{:.2} s", median(&mut boots)));
    rows.linpack = Some(format!("{:.2}", median(&mut ratios)));
    rows.overrun = overrun(&bench.folder.join("out"))?;
    Ok(())
}

/// Mean and worst overrun of the last run, from its `host.json`, which has one key on each
/// line.
fn overrun(run: &Path) -> Result<Option<String>> {
    let told = fs::read_to_string(run.join("host.json"))?;
    let nanoseconds = |key: &str| {
        let (_, rest) = told.split_once(&format!("\"{key}\":"))?;
        let digits = rest.trim_start().split(|next: char| !next.is_ascii_digit());
        digits.into_iter().next()?.parse::<f64>().ok()
    };
    let both = nanoseconds("overrun_ns").zip(nanoseconds("worst_overrun_ns"));
    Ok(both.map(|(mean, worst)| format!("{:.1} us, {:.1} us", mean / 1e3, worst / 1e3)))
}

/// One booted node that runs `command`.
fn scenario(bench: &Bench, engine: &str, command: &str, matrix: &Path) -> Result<PathBuf> {
    let recipe = crate::root().join("images/bookworm-mpich.toml");
    let name = command.split(' ').next().unwrap_or(command);
    let path = bench.folder.join(format!("{name}.toml"));
    let text = format!(
        "name = \"bench\"\nengine = {engine:?}\nimage = {{ recipe = {recipe:?} }}\n\
         nodes = {{ count = 1, memory = \"512 MiB\", clock = \"1 GHz\", boot = \"each\" }}\n\
         workload = {{ command = {command:?}, limit = \"1000 s\", files = {{ \"HPL.dat\" = {matrix:?} }}, \
         environment = {{ OPENBLAS_CORETYPE = {KERNELS:?} }} }}\n\
         trace = {{ enabled = false, library = false }}\n"
    );
    fs::write(&path, text)?;
    Ok(path)
}
