//! `cargo xtask bench engine`: the exact engine beside the bare processor and beside
//! QEMU, over the kernels of `images/programs/kernels.c` and a few whole programs.
//!
//! The same static binary runs everywhere, under a real kernel in both emulations.
//! From every time in a guest the time of an empty workload is taken off.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Bench, Workload, median, timed};

/// A kernel: repeats beside the bare processor, and beside QEMU, which may be slow.
struct Kernel {
    name: &'static str,
    kind: Kind,
    repeats: u32,
    few: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Packed,
    Scalar,
    Memory,
    Strings,
}

impl Kind {
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

const fn kernel(name: &'static str, kind: Kind, repeats: u32, few: u32) -> Kernel {
    Kernel {
        name,
        kind,
        repeats,
        few,
    }
}

/// Repeats are such that the bare processor needs a second or so, and QEMU some.
const KERNELS: [Kernel; 18] = [
    kernel("xorshift", Kind::Integer, 40, 20),
    kernel("crc32", Kind::Integer, 80, 30),
    kernel("sieve", Kind::Integer, 200, 60),
    kernel("sort", Kind::Integer, 50, 15),
    kernel("sha-rounds", Kind::Integer, 120, 30),
    kernel("bytecode", Kind::Integer, 120, 30),
    kernel("fib", Kind::Integer, 160, 30),
    kernel("tree", Kind::Integer, 120, 30),
    kernel("nbody", Kind::Scalar, 400, 20),
    kernel("dgemm", Kind::Packed, 160, 8),
    kernel("dgemm-avx2", Kind::Packed, 240, 8),
    kernel("stencil", Kind::Scalar, 120, 8),
    kernel("triad", Kind::Packed, 240, 15),
    kernel("triad-avx2", Kind::Packed, 240, 15),
    kernel("chase-near", Kind::Memory, 50, 10),
    kernel("chase-far", Kind::Memory, 10, 4),
    kernel("rep-movsb", Kind::Strings, 140, 2),
    kernel("strings", Kind::Strings, 60, 10),
];

/// A whole program, of which only QEMU is a peer: image commands, so no native side.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("forkexec", "fork and exec, 300 times", "forkexec 300"),
    (
        "mpi",
        "an MPI launch, two ranks",
        "mpiexec.hydra -n 2 hello",
    ),
];

/// A guest of 1 GiB gives large arrays huge pages, so they get them natively, too.
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";

/// glibc chooses its string functions by what the processor has. Natively it is told
/// to do without what guests of x86-64-v2 lack, so that the same code runs.
const V2: &str = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-FMA,-BMI1,-BMI2,-LZCNT,-MOVBE,-AVX_Fast_Unaligned_Load";

struct Times {
    name: &'static str,
    kind: &'static str,
    what: &'static str,
    /// Ours over native.
    native: Option<f64>,
    /// QEMU's over ours.
    qemu: Option<f64>,
}

/// Measures, prints and writes the tables.
pub(super) fn run(runs: usize, names: &[String], plot: Option<PathBuf>) -> Result<()> {
    let bench = Bench::prepare()?;
    let binary = compile(&bench)?;
    let mut table = Vec::new();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    for kernel in KERNELS.iter().filter(|kernel| wanted(kernel.name)) {
        let times = measure(&bench, &binary, kernel, runs)?;
        print(&times);
        table.push(times);
    }
    for (name, what, command) in PROGRAMS.iter().filter(|row| wanted(row.0)) {
        let ratio = against_qemu(&bench, &Workload::new(command), runs)?;
        let times = Times {
            name,
            kind: "program",
            what,
            native: None,
            qemu: Some(ratio),
        };
        print(&times);
        table.push(times);
    }
    summarise(&table);
    if let Some(path) = plot {
        fs::write(&path, super::plot::svg(&points(&table)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn compile(bench: &Bench) -> Result<PathBuf> {
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
    Ok(binary)
}

fn level(kernel: &Kernel) -> &'static str {
    if kernel.name.ends_with("avx2") {
        "x86-64-v3"
    } else {
        "x86-64-v2"
    }
}

fn workload(kernel: &Kernel, binary: &std::path::Path, repeats: u32) -> Workload {
    Workload {
        command: format!("./kernels {} {repeats}", kernel.name),
        level: level(kernel),
        file: Some(binary.to_path_buf()),
    }
}

fn measure(bench: &Bench, binary: &std::path::Path, kernel: &Kernel, runs: usize) -> Result<Times> {
    let work = workload(kernel, binary, kernel.repeats);
    let few = workload(kernel, binary, kernel.few);
    let (mut native, mut qemu) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let bare = timed(&mut native_command(kernel, binary))?;
        let ours = net(bench, &work, Bench::time_ours)?;
        native.push(ours / bare);
        let theirs = net(bench, &few, Bench::time_qemu)?;
        qemu.push(theirs / f64::from(kernel.few) * f64::from(kernel.repeats) / ours);
    }
    Ok(Times {
        name: kernel.name,
        kind: kernel.kind.name(),
        what: "",
        native: Some(median(&mut native)),
        qemu: Some(median(&mut qemu)),
    })
}

/// The kernel on the bare processor.
fn native_command(kernel: &Kernel, binary: &std::path::Path) -> Command {
    let mut native = Command::new(binary);
    native.args([kernel.name, &kernel.repeats.to_string()]);
    let tunables = if level(kernel) == "x86-64-v2" {
        format!("{HUGE_PAGES}:{V2}")
    } else {
        HUGE_PAGES.to_owned()
    };
    native.env("GLIBC_TUNABLES", tunables);
    native
}

fn against_qemu(bench: &Bench, work: &Workload, runs: usize) -> Result<f64> {
    let mut ratios = Vec::new();
    for _ in 0..runs {
        let theirs = net(bench, work, Bench::time_qemu)?;
        ratios.push(theirs / net(bench, work, Bench::time_ours)?);
    }
    Ok(median(&mut ratios))
}

fn net(bench: &Bench, work: &Workload, time: fn(&Bench, &Workload) -> Result<f64>) -> Result<f64> {
    let whole = time(bench, work)?;
    let empty = Workload {
        command: "true".to_owned(),
        ..work.clone()
    };
    Ok((whole - time(bench, &empty)?).max(1e-3))
}

fn print(times: &Times) {
    let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    println!(
        "{:<11} {:<10} {:<26} {:>6} times native   QEMU {:>7} times slower than Belljar",
        times.name,
        times.kind,
        times.what,
        show(times.native),
        show(times.qemu)
    );
}

fn summarise(table: &[Times]) {
    let mut native: Vec<f64> = table.iter().filter_map(|row| row.native).collect();
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
        let rows = table.iter().filter(|row| kinds.contains(&row.kind));
        let mut ratios: Vec<f64> = rows.filter_map(|row| row.qemu).collect();
        if !ratios.is_empty() {
            println!(
                "{} beside QEMU: median {:.1} times faster (goal {goal})",
                kinds.join(" and "),
                median(&mut ratios)
            );
        }
    }
}

fn points(table: &[Times]) -> Vec<(String, f64)> {
    // The chart's first bar stands at its bottom.
    table
        .iter()
        .rev()
        .filter_map(|row| Some((row.name.to_owned(), row.native?)))
        .collect()
}
