//! `belljar replay`: a traced job on another network, another placement, other processors.
//!
//! The run's own scenario gives the network of the trace; the options change it into the network of the replay. Called by `main`.

/// By loop of the program.
mod by_loop;
/// `belljar replay calibrate`.
mod calibrate;
/// Warnings about a replay's own figures.
mod doubts;
/// Hostfiles, rankfiles and lists with the hosts of ranks.
pub(in crate::command) mod hostfile;
/// Jobs whose nodes have InfiniBand cards.
pub(in crate::command) mod infiniband;
/// The run to replay, and the settings of its trace and of the replay.
pub(in crate::command) mod job;
/// Warnings about networks of replays.
pub(in crate::command) mod network_warnings;
/// `belljar place`.
pub(crate) mod place;
/// Placement of ranks.
mod placement;
/// The plan of a replay, in words.
mod plan;
/// Results as text and as JSON.
mod render;
/// Own work on another processor.
mod rescaling;
/// Calls that never return.
mod stuck;
/// Tolerance of latency and bandwidth.
mod tolerance;
/// Many replays of one run.
mod vary;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cluster::results::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_files::Registration;
use belljar_replay::{Outcome, without, write_trace};
use belljar_trace::TRACE_FILE;
use clap::{Args, Subcommand};

use crate::command::output::show;
use crate::command::results::trace::generated::{ORIGIN_FILE, origin_text};
use crate::command::terminal::interrupt;
use crate::command::terminal::watch::Watch;
use by_loop::{LoopOutcome, by_loop};
use calibrate::CalibrateArguments;
use job::{Job, JobArguments};
use placement::PlacementArguments;
pub(in crate::command) use plan::PLAN_FILE;
use render::Said;

/// Results of a replay, in its directory.
pub(in crate::command) const REPLAY_FILE: &str = "replay.json";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ReplayArguments {
    #[command(subcommand)]
    command: Option<ReplayCommand>,
    #[command(flatten)]
    job: Option<JobArguments>,
    #[command(flatten)]
    play: PlayArguments,
}

#[derive(Subcommand)]
enum ReplayCommand {
    /// Calibrate hosts' message costs for `belljar replay --costs`.
    ///
    /// Traces of runs give the costs of hosts' processors for messages.
    #[command(
        after_help = "Example: belljar replay calibrate pingpong-1 pingpong-2 --out costs.toml"
    )]
    Calibrate(CalibrateArguments),
}

#[derive(Args)]
struct PlayArguments {
    #[command(flatten)]
    placement: PlacementArguments,
    /// Write the replay as a run directory.
    ///
    /// All commands of `belljar trace` accept its trace.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the influence of network and processors, too.
    ///
    /// Replays the run without latency, with unlimited bandwidth, without processors' work for messages, and with processors
    /// twice as fast.
    #[arg(long)]
    bounds: bool,
    /// Print the tolerance of latency and bandwidth, too.
    ///
    /// The limits are 1, 2 and 5 % more time, in the model loggops.
    #[arg(long)]
    tolerance: bool,
    /// Print the time of each loop of the program, too.
    #[arg(long)]
    loops: bool,
    /// Replay with each value of a key; print a table.
    ///
    /// Replays run on all processors at once. A key is one of the scenario, such as `network.latency=["1 us", "20 us"]`, a whole
    /// network, such as `network=[{topology="torus",dimensions=[2,2]},{topology="star"}]`, or one of the options `collectives`,
    /// `compute-scale`, `costs`, `hostfile`, `mapping`, `model`, `processor`, `ranks-per-node` and `topology`. Repeat the option for all
    /// combinations of several keys.
    #[arg(long, value_name = "KEY=[VALUE, ...]", conflicts_with_all = ["out", "bounds", "tolerance", "loops"])]
    vary: Vec<String>,
    /// Write the table of `--vary` as comma-separated values, too.
    #[arg(long, value_name = "FILE", requires = "vary")]
    csv_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar replay`.
pub(crate) fn replay(arguments: &ReplayArguments) -> Result<ExitCode> {
    let play = &arguments.play;
    match (&arguments.command, &arguments.job) {
        (Some(ReplayCommand::Calibrate(arguments)), _) => calibrate::calibrate(arguments),
        (None, Some(job)) if !play.vary.is_empty() => vary::vary(job, play),
        (None, Some(job)) => one(job, play),
        (None, None) => bail!("name a run directory"),
    }
}

/// Replays a run once.
fn one(job: &JobArguments, arguments: &PlayArguments) -> Result<ExitCode> {
    let job = job.job()?;
    let program = &job.program;
    let wanted = job.wanted(&arguments.placement)?;
    let mut warnings = job.network_warnings(job.arguments, &wanted)?;
    warnings.extend(
        job.rescaled(job.arguments)?
            .into_iter()
            .flat_map(|found| found.warnings),
    );
    for warning in &warnings {
        warning!("{warning}");
    }
    let calibration = belljar_replay::calibrate(program, &job.traced()?)?;
    let watch = Watch::over(program);
    let outcome = belljar_replay::replay(program, &calibration, &wanted, || watch.step())?;
    drop(watch);
    let bounds = match arguments.bounds && !outcome.broken_off {
        true => without(program, &calibration, &wanted)?,
        false => Vec::new(),
    };
    let loops = match arguments.loops && !outcome.broken_off {
        true => loops(&job, &outcome)?,
        false => Vec::new(),
    };
    let changed = is_changed(&job, arguments);
    let tolerance = match arguments.tolerance && !outcome.broken_off {
        true => tolerance::of(&job, &arguments.placement)?,
        false => None,
    };
    let mut doubts = doubts::doubts(program, &calibration, &wanted, changed, &outcome);
    if arguments.tolerance && tolerance.is_none() {
        doubts.push(
            "the tolerance is unknown: calls never return in the model loggops, or the replay was broken off".to_owned(),
        );
    }
    let lacks = [&job.warnings[..], &warnings].concat();
    let said = Said {
        lacks: &lacks,
        doubts: &doubts,
        outcome: &outcome,
        fit: calibration.fit(program),
        bounds: &bounds,
        tolerance: tolerance.as_ref(),
        loops: &loops,
        costs: wanted.costs,
        clocks: &wanted.clocks,
        options: &plan::options(job.arguments, &arguments.placement),
    };
    if let Some(out) = &arguments.out {
        keep(&job, out, &said)?;
    }
    let stuck = match arguments.json {
        true => Vec::new(),
        false => stuck::told(&job, &outcome)?,
    };
    show(|out| match arguments.json {
        true => render::json(&said, out),
        false => render::text(&said, &stuck, out),
    })?;
    Ok(ending(&outcome))
}

/// True if options change the network, the placement, the work or the algorithms of the trace.
fn is_changed(job: &Job<'_>, arguments: &PlayArguments) -> bool {
    let options = plan::options(job.arguments, &arguments.placement);
    let mut names = options.keys();
    let changes = names.any(|name| !["model", "costs"].contains(name));
    changes || !job.arguments.overrides().is_empty()
}

/// Times of the program's loops.
fn loops(job: &Job<'_>, outcome: &Outcome) -> Result<Vec<LoopOutcome>> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let _registration = Registration::of_folder(folder.path());
    let played = folder.path().join(TRACE_FILE);
    write_trace(&job.trace, &played, &job.program, outcome)?;
    by_loop(&job.trace, &played)
}

/// Writes the replay as a run directory: the scenario with its changes, and the trace.
fn keep(job: &Job<'_>, out: &Path, said: &Said<'_>) -> Result<()> {
    let changed = job.scenario_to_keep()?;
    let directory = RunDirectory::create(Some(out), "replay")?;
    let registration = Registration::of_folder(directory.path());
    for (input, name) in &changed.inputs {
        directory.copy(input, name)?;
    }
    directory.write(SCENARIO_FILE, &changed.text)?;
    directory.write(PLAN_FILE, &plan::text(job, said.options)?)?;
    if let Some(origin) = origin_text(&job.trace)? {
        directory.write(ORIGIN_FILE, &origin)?;
    }
    let mut whole = Vec::new();
    render::json(said, &mut whole)?;
    directory.write(REPLAY_FILE, &String::from_utf8_lossy(&whole))?;
    let to = directory.path().join(TRACE_FILE);
    write_trace(&job.trace, &to, &job.program, said.outcome)?;
    drop(registration);
    // An interrupted replay keeps the name of an incomplete directory.
    if !said.outcome.broken_off {
        directory.complete(Some("checkpoint"))?;
    }
    Ok(())
}

fn ending(outcome: &Outcome) -> ExitCode {
    if outcome.broken_off {
        return interrupt::report("all figures are of the calls that had returned by then");
    }
    match outcome.stuck.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
