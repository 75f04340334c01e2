//! `belljar trace hang`: why a job came to no end.
//!
//! The run may have been broken off: its trace then ends without a footer. Commands that run scenarios print the verdict for such a
//! run, and a run in progress calls the analysis by its watch. Called by `trace`, and at the end of runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use belljar_analysis::Hang;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::run::stuck::{CallAnalysis, CallsSoFar};
use belljar_cluster::scenario::Scenario;
use belljar_files::{open_input, read_input_text};
use belljar_trace::{LOST_FILE, LostProcess, TraceError};
use clap::Args;

use super::collected::warn;
use super::sites::{names, traced_files};
use super::{results, trace_file};

#[derive(Args)]
pub(crate) struct HangArguments {
    /// Run directory or trace file.
    trace: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar trace hang`.
pub(super) fn hang(arguments: &HangArguments) -> Result<ExitCode> {
    let path = trace_file(&arguments.trace);
    warn(&path)?;
    if let Some(missing) = unrecorded(&path) {
        warning!("{missing}: messages that the trace lacks may make ranks look stuck");
    }
    let files = traced_files(&path)?;
    let names = files.as_ref().map(|files| names(Some(files)));
    let (hang, state) = belljar_analysis::hang(&path, end_of_run(&path), &lost(&path)?, names)?;
    results(&state, |out| match arguments.json {
        true => hang.write_json(out),
        false => hang.write(out),
    })
}

/// A sentence on stuck ranks of the run in a directory; `None` if there are none, or if the trace does not have all calls.
pub(in crate::command) fn verdict(directory: &Path) -> Option<String> {
    let path = trace_file(directory);
    if unrecorded(&path).is_some() {
        return None;
    }
    // A run that has just ended cannot open files of images.
    let hang = belljar_analysis::hang(&path, end_of_run(&path), &lost(&path).ok()?, None);
    hang.ok()?.0.sentence()
}

/// The analysis of a run in progress.
pub(in crate::command) struct RankAnalysis;

impl CallAnalysis for RankAnalysis {
    fn stuck_ranks(&mut self, calls: &CallsSoFar<'_>) -> Option<String> {
        hang_so_far(calls).ok().filter(Hang::is_total)?.sentence()
    }

    fn queues(&mut self, calls: &CallsSoFar<'_>) -> Result<String, String> {
        let hang = hang_so_far(calls).map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        let written = hang.write(&mut text);
        written.map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn hang_so_far(calls: &CallsSoFar<'_>) -> Result<Hang, TraceError> {
    belljar_analysis::hang_in(calls.trace, &calls.path, calls.now.as_ps(), calls.lost)
}

/// MPI processes that had ended before the run of a trace did, if the run recorded them.
pub(in crate::command) fn lost(trace: &Path) -> Result<Vec<LostProcess>> {
    let path = trace.with_file_name(LOST_FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = read_input_text(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
}

/// The virtual time at which the run of a trace ended, in picoseconds, if its summary is there.
pub(super) fn end_of_run(trace: &Path) -> Option<u64> {
    summary(trace)?["virtual_time_ps"].as_u64()
}

/// The virtual time in picoseconds at which a run ended before its workload did. `path` is a file of its directory.
pub(in crate::command) fn end_without_workload(path: &Path) -> Option<u64> {
    let summary = summary(path)?;
    let end = summary["virtual_time_ps"].as_u64();
    end.filter(|end| *end > 0 && summary["exit_code"].is_null())
}

/// True if the workload of the run ended. `path` is a file of its directory.
pub(super) fn has_ended_workload(path: &Path) -> bool {
    exit_code(path).is_some()
}

/// The exit code of the run's workload; `None` if it had not ended, or the run has no summary. `path` is a file of its directory.
pub(super) fn exit_code(path: &Path) -> Option<i64> {
    summary(path)?["exit_code"].as_i64()
}

/// True if a run directory has the summary of a run; imported traces have one without nodes. `path` is a file of it.
pub(super) fn is_of_run(path: &Path) -> bool {
    let summary = summary(path);
    summary.is_some_and(|summary| summary["nodes"].as_array().is_some_and(|it| !it.is_empty()))
}

/// The summary beside a file of a run directory.
fn summary(path: &Path) -> Option<serde_json::Value> {
    let summary: File = open_input(path.with_file_name("summary.json")).ok()?;
    serde_json::from_reader(summary).ok()
}

/// The key of the scenario by which the trace lacks calls.
pub(in crate::command) fn unrecorded(trace: &Path) -> Option<String> {
    let path = trace.with_file_name(SCENARIO_FILE);
    let text = read_input_text(&path).ok()?;
    let recorded = Scenario::parse(&path, &text, &[]).ok()?.trace;
    let keys = [
        ("trace.functions", !recorded.functions.is_empty()),
        ("trace.from", recorded.from.is_some()),
        ("trace.until", recorded.until.is_some()),
        ("trace.sample", !recorded.sample.is_empty()),
        ("trace.collect", recorded.collect.is_some()),
    ];
    let (key, _) = keys.into_iter().find(|(_, is_set)| *is_set)?;
    Some(format!("{key} leaves out calls"))
}
