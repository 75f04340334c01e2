//! Arguments of `belljar explore`, and their meaning.
//!
//! Values are checked before the first run. Used by `main` and by `explore`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use belljar_cluster::scenario::quantity::Duration as ScenarioTime;
use clap::{Args, ValueEnum};

use super::faults::{FaultChoice, FaultKind};

/// Arguments of `belljar explore`.
#[derive(Args)]
pub(crate) struct ExploreArguments {
    /// Most runs, such as 200, or most time, such as 10min.
    #[arg(long, value_name = "RUNS|TIME", default_value = "1000")]
    pub(super) budget: String,
    /// Result files that must not differ between orders.
    ///
    /// Names in the run directory such as `stdout` or `files/*.dat`.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(super) compare: Vec<String>,
    /// Relative difference up to which compared numbers are equal.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(super) tolerance: f64,
    /// Shell command on each run directory; a failure fails the run.
    #[arg(long, value_name = "COMMAND")]
    pub(super) predicate: Option<String>,
    /// Seed, overriding the scenario.
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Order in which orders of messages are run.
    ///
    /// `few-changes` begins with small differences from the base run. `random` follows random priorities of senders from --seed, for
    /// large numbers of orders.
    #[arg(long, value_enum, value_name = "ORDER", default_value = "few-changes")]
    pub(super) search: SearchOrder,
    /// Virtual time between checkpoints of the base run.
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub(super) checkpoint_every: String,
    /// Virtual time that a run may last longer than the base run.
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    pub(super) patience: String,
    /// Keep the directories of runs that passed.
    #[arg(long)]
    pub(super) keep: bool,
    /// Print the results as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Failures to inject, each in a run of its own: kill, die, restart, pause, link, loss.
    ///
    /// A rank is killed; its node stops, starts again or pauses; its node's link fails for a time; a frame of its message is lost.
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    pub(super) faults: Vec<FaultKind>,
    /// Ranks that failures concern (default all).
    #[arg(long, value_name = "RANK", value_delimiter = ',', requires = "faults")]
    pub(super) fault_ranks: Vec<u32>,
    /// Times of failures for each rank and kind, spread over the rank's calls.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = fault_times, requires = "faults")]
    pub(super) fault_times: usize,
    /// Length of pauses, of failures of links and of times without power.
    #[arg(long, value_name = "TIME", default_value = "10ms", requires = "faults")]
    pub(super) fault_length: String,
    /// Runs with random detours of single processors, for races between threads.
    ///
    /// The detours follow from --seed.
    #[arg(long, value_name = "RUNS", default_value_t = 0)]
    pub(super) detours: usize,
    /// Disable the seccomp filter around threads that run guests.
    ///
    /// Use it only with trusted guests.
    #[arg(long)]
    pub(super) no_sandbox: bool,
    /// Results folder.
    ///
    /// The default is a new folder in `belljar-runs`.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Scenario with options of run, or program with options of mpirun.
    ///
    /// A first word that ends in .toml is a scenario.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "PROGRAM|SCENARIO"
    )]
    pub(super) program: Vec<String>,
}

/// The order in which orders of messages are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SearchOrder {
    /// Few changes of the base run first.
    FewChanges,
    /// Random priorities of senders.
    Random,
}

/// The limit of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    Runs(usize),
    Time(std::time::Duration),
}

fn fault_times(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(times @ 1..=10_000) => Ok(times),
        _ => Err("it must be a number from 1 to 10000".to_owned()),
    }
}

/// The failures to inject.
pub(super) fn fault_choice(arguments: &ExploreArguments) -> Result<FaultChoice> {
    let length_ps = time("fault-length", &arguments.fault_length)?;
    if length_ps == 0 {
        bail!("--fault-length is 0; it must be above zero, such as 10ms");
    }
    let mut kinds = arguments.faults.clone();
    kinds.sort();
    kinds.dedup();
    Ok(FaultChoice {
        kinds,
        ranks: arguments.fault_ranks.clone(),
        times: arguments.fault_times,
        length_ps,
    })
}

/// The words of the base run's command.
pub(super) fn base_words(arguments: &ExploreArguments) -> Vec<String> {
    let is_scenario = arguments.program[0].ends_with(".toml");
    let seed = arguments
        .seed
        .map(|seed| ["--set".to_owned(), format!("seed={seed}")]);
    let seed = seed.into_iter().flatten();
    let command = if is_scenario { "run" } else { "mpirun" };
    let mut words = vec![command.to_owned()];
    match is_scenario {
        true => words.extend(arguments.program.iter().cloned().chain(seed)),
        false => words.extend(seed),
    }
    if !is_scenario {
        // Options of the base run come before the program.
        words.push(String::new());
        words.extend(arguments.program.iter().cloned());
    }
    words
}

pub(super) fn budget(text: &str) -> Result<Budget> {
    if let Ok(runs) = text.parse::<usize>() {
        if runs == 0 {
            bail!("--budget is 0; it must be at least 1 run");
        }
        return Ok(Budget::Runs(runs));
    }
    let ps = time("budget", text)?;
    Ok(Budget::Time(std::time::Duration::from_nanos(ps / 1000)))
}

/// The picoseconds of a time.
pub(super) fn time(option: &str, text: &str) -> Result<u64> {
    let parsed: Result<ScenarioTime, _> = text.parse();
    let parsed = parsed.map_err(|error| anyhow::anyhow!("--{option} {text}: {error}"))?;
    Ok(parsed.0.as_ps())
}

/// The folder of the results, made new.
pub(super) fn folder(wanted: Option<&Path>) -> Result<PathBuf> {
    let path = match wanted {
        Some(path) => path.to_owned(),
        None => {
            let runs = Path::new("belljar-runs");
            let names = (1_u32..).map(|number| match number {
                1 => runs.join("explore"),
                _ => runs.join(format!("explore-{number}")),
            });
            let mut free = names.filter(|path| !path.exists());
            free.next().context("no unused name; give one with --out")?
        }
    };
    if path.exists() {
        bail!(
            "{} exists already; give another folder with --out",
            path.display()
        );
    }
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}
