//! `cargo xtask bench realism`: cycles of kernels on this processor, and in a guest that models it.
//!
//! Both sides run the same static binary, which times each repeat itself. Natively a repeat's time is that of its
//! thread, in cycles of a chain of additions that is timed with it, so the result depends neither on the clock nor on
//! other processes; memory's time depends on both. A kernel whose native repeats differ by more than a tenth is
//! printed, but not judged.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Bench, median};
use crate::shell::BuildProfile;

/// Linpack.
mod linpack;

/// Kernels by the level of their guest, as in `bench engine`.
const KERNELS: [(&str, &[&str]); 2] = [
    (
        "x86-64-v2",
        &[
            "xorshift",
            "crc32",
            "sieve",
            "sort",
            "sha-rounds",
            "bytecode",
            "fib",
            "nbody",
            "dgemm",
            "stencil",
            "triad",
            "chase-near",
            "chase-far",
            "tree",
            "rep-movsb",
            "strings",
        ],
    ),
    ("x86-64-v3", &["dgemm-avx2", "triad-avx2"]),
];

/// The word for programs in place of kernels, and their names: no parameter of a processor comes from them.
const PROGRAMS: &str = "programs";
const PROGRAM_NAMES: [(&str, &[&str]); 1] = [(
    "x86-64-v2",
    &[
        "product",
        "relaxation",
        "streams",
        "sorting",
        "sparse",
        "forces",
        "hashing",
    ],
)];

/// Repeats natively; in a guest they hardly differ.
const NATIVE_REPEATS: usize = 15;
const GUEST_REPEATS: usize = 2;
/// The highest spread of native repeats of a judged kernel.
const MOST_SPREAD: f64 = 0.1;
/// The start of a line of the driver.
const MARK: &str = "REALISM ";
/// The default processor.
const PROCESSOR: &str = "zen5";

/// Cycles of each repeat, by kernel, with the kernel's checksum.
type Cycles = BTreeMap<String, (Vec<f64>, String)>;

/// A kernel on both sides.
struct Compared {
    name: String,
    native: f64,
    /// The middle half of the native repeats, relative to their median.
    spread: f64,
    guest: f64,
}

impl Compared {
    fn ratio(&self) -> f64 {
        self.guest / self.native
    }

    fn is_judged(&self) -> bool {
        self.spread <= MOST_SPREAD
    }
}

/// Measures and prints the table. `names` are kernels, or `programs`; a name that ends in `.toml`, or that of a built-in
/// processor, is the modelled processor; `none` is the default model of time.
pub(super) fn run(names: &[String]) -> Result<()> {
    let programs = names.iter().any(|name| name == PROGRAMS);
    let table = if programs {
        &PROGRAM_NAMES[..]
    } else {
        &KERNELS[..]
    };
    let names: Vec<String> = names
        .iter()
        .filter(|name| *name != PROGRAMS)
        .cloned()
        .collect();
    let known = |name: &&String| {
        let is_in = |(_, kernels): &(&str, &[&str])| kernels.contains(&name.as_str());
        table.iter().any(is_in) || programs && *name == linpack::LINPACK
    };
    let kernels: Vec<&String> = names.iter().filter(known).collect();
    let others: Vec<&String> = names.iter().filter(|name| !known(name)).collect();
    let processor = match others[..] {
        [] => PROCESSOR,
        [one] => one.as_str(),
        _ => bail!(
            "{} and {} are no kernels; only one processor can be modelled",
            others[0],
            others[1]
        ),
    };
    let bench = Bench::prepared_with(BuildProfile::Dev)?;
    let defines: &[&str] = if programs { &["-DPROGRAMS"] } else { &[] };
    compile_with(&bench, "driver", "driver.c", defines)?;
    let wanted = |name: &str| kernels.is_empty() || kernels.iter().any(|one| *one == name);
    let mut rows = Vec::new();
    for &(level, names) in table {
        let names: Vec<&str> = names.iter().copied().filter(|name| wanted(name)).collect();
        if names.is_empty() {
            continue;
        }
        let guest = in_guest(&bench, level, processor, &names)?;
        let native = natively(&bench, &names)?;
        for name in names {
            rows.push(compare(name, &native, &guest)?);
        }
    }
    if programs && wanted(linpack::LINPACK) {
        let [native, guest] = linpack::both(&bench, processor)?;
        rows.push(compare(linpack::LINPACK, &native, &guest)?);
    }
    print(processor, &rows);
    Ok(())
}

/// Compiles a program of this bench into its folder.
fn compile_with(bench: &Bench, name: &str, source: &str, defines: &[&str]) -> Result<()> {
    let root = crate::root();
    let path = root.join("xtask/src/bench/realism").join(source);
    let status = Command::new("gcc")
        .args(["-O2", "-fno-math-errno", "-static", "-I"])
        .arg(root.join("images/programs"))
        .arg("-o")
        .arg(bench.folder.join(name))
        .arg(&path)
        .args(defines)
        .arg("-lm")
        .status()
        .context("cannot start gcc")?;
    if !status.success() {
        bail!("gcc cannot compile {}", path.display());
    }
    Ok(())
}

fn natively(bench: &Bench, names: &[&str]) -> Result<Cycles> {
    let output = Command::new(bench.folder.join("driver"))
        .args(["native", &NATIVE_REPEATS.to_string()])
        .args(names)
        .env(
            "GLIBC_TUNABLES",
            format!("{}:{}", super::engine::HUGE_PAGES, super::engine::V2),
        )
        .output()?;
    read(&String::from_utf8_lossy(&output.stdout))
}

fn in_guest(bench: &Bench, level: &str, processor: &str, names: &[&str]) -> Result<Cycles> {
    let path = bench.folder.join("realism.toml");
    let recipe = crate::root().join("images/bookworm-mpich.toml");
    let driver = bench.folder.join("driver");
    let command = format!("./driver guest {GUEST_REPEATS} {}", names.join(" "));
    let timing = timing(processor);
    let text = format!(
        "name = \"realism\"\nimage = {{ recipe = {recipe:?} }}\n\
         nodes = {{ count = 1, memory = \"1 GiB\", clock = \"1 GHz\", level = {level:?}{timing} }}\n\
         workload = {{ command = {command:?}, limit = \"3000 s\", files = {{ driver = {driver:?} }} }}\n\
         trace = {{ enabled = false, library = false }}\n"
    );
    fs::write(&path, text)?;
    output_of(bench, &path)
}

/// The key of a scenario's nodes for a processor, after others.
fn timing(processor: &str) -> String {
    if processor == "none" {
        return String::new();
    }
    let path = fs::canonicalize(processor);
    let file = path.map_or(processor.to_owned(), |path| path.display().to_string());
    format!(", timing = {{ processor = {file:?} }}")
}

/// The cycles that a run prints.
fn output_of(bench: &Bench, path: &Path) -> Result<Cycles> {
    let out = bench.fresh_out();
    let output = Command::new(&bench.belljar)
        .arg("run")
        .arg(path)
        .args(["--quiet", "--out"])
        .arg(&out)
        .output()?;
    if !output.status.success() {
        bail!(
            "belljar failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    read(&fs::read_to_string(out.join("stdout"))?)
}

/// The driver's lines in `text`.
fn read(text: &str) -> Result<Cycles> {
    let mut all = Cycles::new();
    for line in text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(MARK))
    {
        let (values, sum) = line
            .split_once(" sum ")
            .context("a line of the driver has no sum")?;
        let mut words = values.split_whitespace();
        let name = words.next().context("a line of the driver has no name")?;
        let cycles: Result<Vec<f64>, _> = words.map(str::parse).collect();
        let cycles = cycles.with_context(|| format!("`{line}` has other values than cycles"))?;
        if cycles.is_empty() {
            bail!("`{line}` has no cycles");
        }
        all.insert(name.to_owned(), (cycles, sum.to_owned()));
    }
    Ok(all)
}

fn compare(name: &str, native: &Cycles, guest: &Cycles) -> Result<Compared> {
    let of = |cycles: &Cycles, side: &str| {
        let found = cycles.get(name).cloned();
        found.with_context(|| format!("the driver printed no cycles of {name} {side}"))
    };
    let ((mut bare, _), (mut modelled, _)) = (of(native, "natively")?, of(guest, "in the guest")?);
    bare.sort_by(f64::total_cmp);
    let quarter = bare.len() / 4;
    let middle = median(&mut bare);
    Ok(Compared {
        name: name.to_owned(),
        native: middle,
        spread: (bare[bare.len() - 1 - quarter] - bare[quarter]) / middle,
        guest: median(&mut modelled),
    })
}

fn print(processor: &str, table: &[Compared]) {
    println!("processor {processor}: cycles in a guest over native ones");
    for row in table {
        println!(
            "{:<12} native {:>8.2} Mcycles, spread {:>4.1} %   guest {:>8.2}   ratio {:.2}{}",
            row.name,
            row.native / 1e6,
            row.spread * 100.0,
            row.guest / 1e6,
            row.ratio(),
            if row.is_judged() {
                ""
            } else {
                "   not judged: the native repeats differ"
            }
        );
    }
    let judged: Vec<f64> = table
        .iter()
        .filter(|row| row.is_judged())
        .map(Compared::ratio)
        .collect();
    if judged.is_empty() {
        return;
    }
    let within = |part: f64| {
        judged
            .iter()
            .filter(|ratio| (1.0 / (1.0 + part)..=1.0 + part).contains(*ratio))
            .count()
    };
    let mut factors: Vec<f64> = judged.iter().map(|ratio| ratio.max(1.0 / ratio)).collect();
    let worst = factors.iter().copied().fold(1.0, f64::max);
    println!(
        "of {} judged kernels, {} are within 10 %, {} within 15 %, {} within 20 %; median factor {:.2}, worst {worst:.2}",
        judged.len(),
        within(0.1),
        within(0.15),
        within(0.2),
        median(&mut factors)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_driver_are_read_and_compared() {
        let native =
            read("x\nREALISM fib 100 120 100 110 100 sum 0a\nREALISM tree 5 sum 1\n").unwrap();
        let guest = read("REALISM fib 90 110 sum 0a\r\n").unwrap();
        let fib = compare("fib", &native, &guest).unwrap();
        assert_eq!((fib.native, fib.guest), (100.0, 100.0));
        // The middle half of five is from the second to the fourth.
        assert!((fib.spread - 0.1).abs() < 1e-9 && fib.is_judged());
        let missing = compare("tree", &native, &guest).map(|row| row.name);
        assert!(
            missing
                .unwrap_err()
                .to_string()
                .contains("tree in the guest")
        );
        assert!(read("REALISM fib x sum 1").is_err());
        assert!(read("REALISM fib 1").is_err());
        assert!(read("REALISM fib sum 1").is_err());
    }
}
