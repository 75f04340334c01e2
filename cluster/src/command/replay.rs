//! `belljar replay`: a traced job on another network, another placement, other processors.
//!
//! The run's own scenario says on what it was traced, and what the options change of it says on what it is played. Called by `main`.

/// Files that say where ranks are.
pub(super) mod hostfile;
/// What is played, and on what.
pub(super) mod job;
/// `belljar place`.
pub(crate) mod place;
/// Where ranks are placed.
mod placement;
/// What came of it, for people and for programs.
mod render;
/// Calls that never return.
mod stuck;
/// How far a replay is, and its end by the user.
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use belljar_cluster::results::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_replay::{Calibration, Outcome, calibrate, without, write_trace};
use belljar_trace::TRACE_FILE;
use clap::Args;

use super::output::show;
use job::{Job, JobArguments};
use placement::PlacementArguments;
use watch::Watch;

/// What a replay said, in its directory.
const REPLAY_FILE: &str = "replay.json";

#[derive(Args)]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    placement: PlacementArguments,
    /// Write the replay as a run directory here: its trace is one for all commands of `belljar trace`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Say what the result depends on, too: play it again without latency, with unlimited bandwidth, without processors' work for messages, and with
    /// processors twice as fast.
    #[arg(long)]
    bounds: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar replay`.
pub(crate) fn replay(arguments: &ReplayArguments) -> Result<ExitCode> {
    let job = arguments.job.job()?;
    let program = &job.program;
    let calibration = calibrate(program, &job.traced()?)?;
    let wanted = job.wanted(&arguments.placement)?;
    let mut watch = Watch::over(program)?;
    let outcome = belljar_replay::replay(program, &calibration, &wanted, || watch.call())?;
    watch.finish();
    let fit = calibration.fit(program);
    let bounds = match arguments.bounds && !outcome.broken_off {
        true => without(program, &calibration, &wanted)?,
        false => Vec::new(),
    };
    if let Some(out) = &arguments.out {
        keep(&job, out, &calibration, &outcome)?;
    }
    let stuck = match arguments.json {
        true => Vec::new(),
        false => stuck::told(&job, &outcome)?,
    };
    show(|out| match arguments.json {
        true => render::json(&outcome, fit, &bounds, out),
        false => render::text(&outcome, &stuck, (fit, &bounds), out),
    })?;
    Ok(ending(&outcome))
}

/// Writes the replay as a run directory: the scenario with what was changed of it, and the trace.
fn keep(job: &Job<'_>, out: &Path, calibration: &Calibration, outcome: &Outcome) -> Result<()> {
    let changed = job.scenario_to_keep()?;
    let directory = RunDirectory::create(Some(out), "replay")?;
    for (input, name) in &changed.inputs {
        directory.copy(input, name)?;
    }
    directory.write(SCENARIO_FILE, &changed.text)?;
    let mut whole = Vec::new();
    render::json(outcome, calibration.fit(&job.program), &[], &mut whole)?;
    directory.write(REPLAY_FILE, &String::from_utf8_lossy(&whole))?;
    let to = directory.path().join(TRACE_FILE);
    write_trace(&job.trace, &to, &job.program, outcome)?;
    // What was broken off keeps the name of what is not complete.
    if !outcome.broken_off {
        directory.complete("checkpoint")?;
    }
    Ok(())
}

fn ending(outcome: &Outcome) -> ExitCode {
    match outcome.stuck.is_empty() && !outcome.broken_off {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
