//! `cargo xtask bench engine`: the exact engine against the bare processor and against
//! QEMU, over the kernels of `images/programs/kernels.c` and a few whole programs.
//!
//! The same static binary runs everywhere, under a real kernel in both emulations.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Bench, median};
use series::{MeasuredCommand, Seconds, Series, Side, SkippedStep};

/// One row of commands after another, in one guest or on the bare processor.
mod series;

/// A kernel, with its repeats against the bare processor and against the slower QEMU.
struct BenchmarkKernel {
    name: &'static str,
    kind: KernelKind,
    repeats: u32,
    few: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KernelKind {
    Integer,
    Packed,
    Scalar,
    Memory,
    Strings,
}

impl KernelKind {
    fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Packed => "packed FP",
            Self::Scalar => "scalar FP",
            Self::Memory => "memory",
            Self::Strings => "strings",
        }
    }
}

const fn kernel(name: &'static str, kind: KernelKind, repeats: u32, few: u32) -> BenchmarkKernel {
    BenchmarkKernel {
        name,
        kind,
        repeats,
        few,
    }
}

/// Repeats take the bare processor about a second, and QEMU some seconds.
const KERNELS: [BenchmarkKernel; 18] = [
    kernel("xorshift", KernelKind::Integer, 40, 20),
    kernel("crc32", KernelKind::Integer, 80, 30),
    kernel("sieve", KernelKind::Integer, 200, 60),
    kernel("sort", KernelKind::Integer, 50, 15),
    kernel("sha-rounds", KernelKind::Integer, 120, 30),
    kernel("bytecode", KernelKind::Integer, 120, 30),
    kernel("fib", KernelKind::Integer, 160, 30),
    kernel("tree", KernelKind::Integer, 120, 30),
    kernel("nbody", KernelKind::Scalar, 400, 20),
    kernel("dgemm", KernelKind::Packed, 160, 8),
    kernel("dgemm-avx2", KernelKind::Packed, 240, 8),
    kernel("stencil", KernelKind::Scalar, 120, 8),
    kernel("triad", KernelKind::Packed, 240, 15),
    kernel("triad-avx2", KernelKind::Packed, 240, 15),
    kernel("chase-near", KernelKind::Memory, 50, 10),
    kernel("chase-far", KernelKind::Memory, 10, 4),
    kernel("rep-movsb", KernelKind::Strings, 140, 2),
    kernel("strings", KernelKind::Strings, 60, 10),
];

/// Name, meaning and command of a whole program. Only QEMU can run them, too, as the
/// image's programs have no native side.
type Program = (&'static str, &'static str, &'static str);

const PROGRAMS: [Program; 2] = [
    ("forkexec", "fork and exec, 300 times", "forkexec 300"),
    (
        "mpi",
        "an MPI launch, two ranks",
        "mpiexec.hydra -n 2 hello",
    ),
];

/// A guest of 1 GiB gives large arrays huge pages, so they get them natively, too.
pub(super) const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";

/// glibc selects its string functions by the processor. Natively it is restricted to the
/// features of x86-64-v2 guests, so that the same code runs.
pub(super) const V2: &str = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-FMA,-BMI1,-BMI2,-LZCNT,-MOVBE,-AVX_Fast_Unaligned_Load";

/// Levels of guests: the level of most kernels, and the one with AVX2.
const LEVELS: [&str; 2] = ["x86-64-v2", "x86-64-v3"];

/// The measured ratios of a row, one for each run.
#[derive(Default)]
struct Ratios {
    name: &'static str,
    kind: &'static str,
    what: &'static str,
    /// Ours over native.
    native: Vec<f64>,
    /// QEMU's over ours.
    qemu: Vec<f64>,
}

/// Measures, prints and writes the tables.
pub(super) fn run(
    runs: usize,
    names: &[String],
    plot: Option<PathBuf>,
    limit: Duration,
) -> Result<()> {
    let bench = Bench::prepare()?;
    compile(&bench)?;
    let wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let kernels: Vec<&BenchmarkKernel> = KERNELS.iter().filter(|row| wanted(row.name)).collect();
    let programs: Vec<_> = PROGRAMS.iter().filter(|row| wanted(row.0)).collect();
    if kernels.is_empty() && programs.is_empty() {
        bail!("there are no such rows; see KERNELS and PROGRAMS in xtask/src/bench/engine.rs");
    }
    let mut table = rows(&kernels, &programs);
    let mut skipped = Vec::new();
    for run in 1..=runs {
        eprintln!("run {run} of {runs}");
        measure(
            &bench,
            (&kernels, &programs),
            limit,
            &mut table,
            &mut skipped,
        )?;
    }
    table.iter().for_each(print);
    summarise(&table);
    for SkippedStep { side, name, reason } in &skipped {
        println!("skipped: {name} on {}: {reason}", side.name());
    }
    if let Some(path) = plot {
        fs::write(&path, super::plot::svg(&points(&table)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn rows(kernels: &[&BenchmarkKernel], programs: &[&Program]) -> Vec<Ratios> {
    let kernel = |kernel: &&BenchmarkKernel| Ratios {
        name: kernel.name,
        kind: kernel.kind.name(),
        ..Ratios::default()
    };
    let program = |(name, what, _): &&Program| Ratios {
        name,
        kind: "program",
        what,
        ..Ratios::default()
    };
    let kernels = kernels.iter().map(kernel);
    kernels.chain(programs.iter().map(program)).collect()
}

fn compile(bench: &Bench) -> Result<()> {
    let binary = bench.folder.join("kernels");
    let status = Command::new("gcc")
        .args(["-O2", "-fno-math-errno", "-static", "-o"])
        .arg(&binary)
        .arg(crate::root().join("images/programs/kernels.c"))
        .status()
        .context("cannot start gcc")?;
    if !status.success() {
        bail!("gcc cannot compile images/programs/kernels.c");
    }
    Ok(())
}

fn level(kernel: &BenchmarkKernel) -> &'static str {
    if kernel.name.ends_with("avx2") {
        "x86-64-v3"
    } else {
        "x86-64-v2"
    }
}

/// Measures everything once, on all three. Rows that were skipped are not run again.
fn measure(
    bench: &Bench,
    (kernels, programs): (&[&BenchmarkKernel], &[&Program]),
    limit: Duration,
    table: &mut [Ratios],
    skipped: &mut Vec<SkippedStep>,
) -> Result<()> {
    let series = |side, level| Series {
        bench,
        side,
        level,
        limit,
    };
    let natively: Vec<_> = kernels.iter().map(natively).collect();
    let bare = series(Side::Bare, LEVELS[0]).run(&natively, skipped)?;
    let (mut ours, mut qemu) = (Seconds::new(), Seconds::new());
    for level in LEVELS {
        // Programs first: the first MPI launch on a node is the usual case of users'
        // jobs.
        let programs = programs.iter().filter(|_| level == LEVELS[0]);
        let mut steps: Vec<MeasuredCommand> =
            programs.map(|row| step(row.0, row.2.to_owned())).collect();
        let mut few: Vec<MeasuredCommand> = steps.iter().map(MeasuredCommand::clone).collect();
        for kernel in kernels.iter().filter(|kernel| self::level(kernel) == level) {
            steps.push(step(kernel.name, command(kernel, kernel.repeats)));
            few.push(step(kernel.name, command(kernel, kernel.few)));
        }
        if !steps.is_empty() {
            ours.extend(series(Side::Belljar, level).run(&steps, skipped)?);
            qemu.extend(series(Side::Qemu, level).run(&few, skipped)?);
        }
    }
    for row in table {
        let Some(mine) = ours.get(row.name) else {
            continue;
        };
        row.native
            .extend(bare.get(row.name).map(|bare| mine / bare));
        let kernel = kernels.iter().find(|kernel| kernel.name == row.name);
        let more = kernel.map_or(1.0, |one| f64::from(one.repeats) / f64::from(one.few));
        row.qemu
            .extend(qemu.get(row.name).map(|qemu| qemu * more / mine));
    }
    Ok(())
}

fn step(name: &'static str, command: String) -> MeasuredCommand {
    MeasuredCommand { name, command }
}

fn command(kernel: &BenchmarkKernel, repeats: u32) -> String {
    format!("./kernels {} {repeats}", kernel.name)
}

/// The kernel on the bare processor.
fn natively(kernel: &&BenchmarkKernel) -> MeasuredCommand {
    let tunables = if level(kernel) == "x86-64-v2" {
        format!("{HUGE_PAGES}:{V2}")
    } else {
        HUGE_PAGES.to_owned()
    };
    let command = command(kernel, kernel.repeats);
    step(kernel.name, format!("GLIBC_TUNABLES={tunables} {command}"))
}

fn print(row: &Ratios) {
    println!(
        "{:<11} {:<10} {:<26} {} times native   QEMU {} times slower than Belljar",
        row.name,
        row.kind,
        row.what,
        spread(&row.native),
        spread(&row.qemu)
    );
}

/// Median, minimum and maximum of all runs.
fn spread(values: &[f64]) -> String {
    if values.is_empty() {
        return format!("{:>24}", "-");
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let middle = median(&mut values.to_vec());
    format!("{middle:>7.2} {:>16}", format!("({least:.2} to {most:.2})"))
}

fn summarise(table: &[Ratios]) {
    let rows = || table.iter();
    let mut native: Vec<f64> = rows().filter_map(|row| middle(&row.native)).collect();
    if !native.is_empty() {
        let worst = native.iter().copied().fold(0.0, f64::max);
        println!(
            "times native: median {:.2} (goal 1.4), worst {worst:.2} (goal 2.5)",
            median(&mut native)
        );
    }
    for (kinds, goal) in [
        (&["integer"][..], 2.5),
        (&["packed FP", "strings"][..], 30.0),
    ] {
        let of_kind = rows().filter(|row| kinds.contains(&row.kind));
        let mut ratios: Vec<f64> = of_kind.filter_map(|row| middle(&row.qemu)).collect();
        if !ratios.is_empty() {
            println!(
                "{} against QEMU: median {:.1} times faster (goal {goal})",
                kinds.join(" and "),
                median(&mut ratios)
            );
        }
    }
}

fn middle(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(&mut values.to_vec()))
}

fn points(table: &[Ratios]) -> Vec<(String, f64)> {
    // The chart's first bar is at its bottom.
    table
        .iter()
        .rev()
        .filter_map(|row| Some((row.name.to_owned(), middle(&row.native)?)))
        .collect()
}
