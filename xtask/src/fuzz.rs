//! `cargo xtask fuzz`: endless property tests.
//!
//! A failing input is kept and minimised, and the command for repeating it is printed. The targets are those of
//! the crate `belljar-fuzz`, except `engine`, which compares with this host's processor. Called by `main`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::shell::{cargo, run_with};

/// Fuzz targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Exact engine, with random programs compared with the host's processor.
    ///
    /// A difference is minimised to as few instructions as possible, and printed as assembly and as a row for
    /// `tests/sequences.rs`.
    Engine,
    /// Exact engine, with arbitrary code in every mode.
    ///
    /// Page tables and handlers are hostile; the code runs whole and in pieces.
    Code,
    /// Page walks through arbitrary tables, against a second walker.
    Walk,
    /// virtio devices with arbitrary registers, rings and descriptors.
    Virtio,
    /// Interrupt controllers, serial port, clock and power, by registers.
    Registers,
    /// Kernel files of every kind, loaded and entered.
    Boot,
    /// Trace files, read, listed and analysed.
    ///
    /// Both whole files and their structure alone are fuzzed.
    Archive,
    /// Analyses of programs and waiting, with trace files.
    Analyses,
    /// Trace files, exported into other tools' formats.
    Exports,
    /// OTF2 archives, imported.
    Otf2,
    /// GOAL schedules, imported.
    Goal,
    /// Time-independent traces of SimGrid, imported.
    Ti,
    /// Models fitted to traces and used for other sizes.
    Models,
    /// Trace files, replayed on other networks.
    Replays,
    /// Programs with unwind tables and debug information.
    Binary,
    /// MPI libraries' decision tables, and traffic on the wire.
    Tables,
    /// Files of probes, and profiles.
    Records,
    /// States of trace reduction, and the description of dropped calls.
    Collected,
    /// Scenario files and overrides.
    Scenario,
    /// An InfiniBand card: its registers, and packets of peers.
    Hca,
    /// Networks from GraphML files.
    Graphml,
    /// Saved states of a network, restored and run.
    Fabric,
    /// Saved states of an InfiniBand network, restored and run.
    Lossless,
    /// Saved states of a node, restored and run.
    Node,
    /// Messages between hosts of a run.
    Message,
    /// Requests on a run's control socket.
    Control,
    /// Recipes of images.
    Recipe,
    /// Records and packs of checkpoints.
    Checkpoint,
    /// Container images and root file systems, written as images.
    Root,
    /// Saved states of simulations of many jobs, restored and played.
    Mix,
    /// Saved states of jobs with contending messages, restored and played.
    Contention,
}

/// The command line.
#[derive(Args)]
pub(crate) struct FuzzArguments {
    target: Target,
    /// Time limit in seconds.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Seed of programs or mutations.
    #[arg(long, value_name = "S", default_value_t = 2)]
    seed: u64,
    /// Run only this input, such as an earlier failure.
    ///
    /// It does not apply to `engine`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "seed"])]
    input: Option<PathBuf>,
}

/// Compiler options that mark the branches of a run: those of cargo-fuzz without a sanitizer, which need no
/// nightly compiler.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
     -Cllvm-args=-sanitizer-coverage-pc-table -Cdebug-assertions -Coverflow-checks -Cforce-frame-pointers";
/// Given by name, so that build scripts are compiled without those flags.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// Seconds that one input may take.
const PATIENCE: u32 = 20;
const MEMORY_MIB: u32 = 4096;

/// Fuzzes until the time is up or an input fails.
pub(crate) fn run(arguments: &FuzzArguments) -> Result<()> {
    match arguments.target {
        Target::Engine if arguments.input.is_some() => {
            bail!("`fuzz engine` prints a row for tests/sequences.rs and takes no input")
        }
        Target::Engine => engine(arguments.seconds, arguments.seed),
        target => guided(target, arguments),
    }
}

fn engine(seconds: u64, seed: u64) -> Result<()> {
    run_with(
        &cargo(),
        &[
            "test",
            "--release",
            "--quiet",
            "--package",
            "belljar-exact",
            "--test",
            "sequences",
            "fuzz",
            "--",
            "--ignored",
            "--nocapture",
        ],
        &[
            ("BELLJAR_SECONDS", &seconds.to_string()),
            ("BELLJAR_SEED", &seed.to_string()),
        ],
    )
}

/// Runs libFuzzer, which searches for inputs that reach new code and keeps them in the corpus.
fn guided(target: Target, arguments: &FuzzArguments) -> Result<()> {
    let name = target.to_possible_value().context("it has a name")?;
    let fuzzer = Fuzzer {
        binary: build()?,
        name: name.get_name().to_owned(),
    };
    if let Some(input) = &arguments.input {
        return fuzzer.run(&[path_of(input)?]);
    }
    let folder = crate::root().join("target/fuzz");
    let corpus = folder.join("corpus").join(&fuzzer.name);
    let failures = folder.join("failures").join(&fuzzer.name);
    for folder in [&corpus, &failures] {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    fuzzer.write_seeds(&corpus)?;
    let before = files(&failures)?;
    let options = [
        path_of(&corpus)?,
        format!("-max_total_time={}", arguments.seconds),
        format!("-seed={}", arguments.seed),
        format!("-timeout={PATIENCE}"),
        format!("-rss_limit_mb={MEMORY_MIB}"),
        format!("-artifact_prefix={}/", path_of(&failures)?),
        "-max_len=4096".to_owned(),
        "-print_final_stats=1".to_owned(),
    ];
    let result = fuzzer.run(&options);
    let after = files(&failures)?;
    let found: Vec<_> = after.iter().filter(|path| !before.contains(path)).collect();
    for failure in &found {
        fuzzer.minimise(failure)?;
    }
    result.with_context(|| format!("the target `{}` failed", fuzzer.name))
}

fn build() -> Result<PathBuf> {
    let target = crate::root().join("target/fuzz");
    run_with(
        &cargo(),
        &[
            "build",
            "--release",
            "--quiet",
            "--package",
            "belljar-fuzz",
            "--features",
            "guided",
            "--bin",
            "guided",
            "--target",
            HOST,
            "--target-dir",
            &path_of(&target)?,
        ],
        &[("RUSTFLAGS", COVERAGE)],
    )?;
    Ok(target.join(HOST).join("release/guided"))
}

struct Fuzzer {
    binary: PathBuf,
    name: String,
}

impl Fuzzer {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("BELLJAR_FUZZ_TARGET", &self.name);
        command.env("RUST_BACKTRACE", "0");
        command
    }

    fn run(&self, arguments: &[String]) -> Result<()> {
        let status = self
            .command()
            .args(arguments)
            .status()
            .with_context(|| format!("cannot start {}", self.binary.display()))?;
        if !status.success() {
            bail!("{} {} failed ({status})", self.name, arguments.join(" "));
        }
        Ok(())
    }

    fn write_seeds(&self, corpus: &Path) -> Result<()> {
        let status = self
            .command()
            .env("BELLJAR_FUZZ_SEEDS", corpus)
            .status()
            .with_context(|| format!("cannot start {}", self.binary.display()))?;
        if !status.success() {
            bail!("the seeds cannot be written to {}", corpus.display());
        }
        Ok(())
    }

    /// Minimises a failing input, and prints the command for repeating it.
    fn minimise(&self, failure: &Path) -> Result<()> {
        let smaller = failure.with_extension("smaller");
        let options = [
            "-minimize_crash=1".to_owned(),
            "-max_total_time=20".to_owned(),
            format!("-timeout={PATIENCE}"),
            format!("-exact_artifact_path={}", path_of(&smaller)?),
            path_of(failure)?,
        ];
        // libFuzzer ends with a failure even after a successful reduction.
        let output = self.command().args(options).output();
        output.with_context(|| format!("cannot start {}", self.binary.display()))?;
        let best = if smaller.exists() { &smaller } else { failure };
        eprintln!(
            "failing input of {} bytes; again: cargo xtask fuzz {} --input {}",
            fs::metadata(best).map_or(0, |data| data.len()),
            self.name,
            best.display()
        );
        Ok(())
    }
}

fn path_of(path: &Path) -> Result<String> {
    let text = path.to_str();
    Ok(text.context("the path is not text")?.to_owned())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_the_crate_can_be_asked_for() {
        let list = fs::read_to_string(crate::root().join("fuzz/src/lib.rs")).unwrap();
        let names = list.lines().filter_map(|line| {
            let name = line.trim().strip_prefix("name: \"")?;
            name.strip_suffix("\",")
        });
        let names: Vec<&str> = names.collect();
        let targets = Target::value_variants().iter();
        let own = |target: &Target| target.to_possible_value().unwrap().get_name().to_owned();
        let mut targets: Vec<String> = targets.map(own).filter(|name| name != "engine").collect();
        targets.sort();
        let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        names.sort();
        assert_eq!(targets, names);
    }
}
