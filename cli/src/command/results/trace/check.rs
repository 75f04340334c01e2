//! `belljar trace check`: errors of MPI use in a recorded run.
//!
//! Standard error of the workload is read, too, if it is next to the trace: MPI libraries report there why they aborted. Called by
//! `trace`, and by `check-mpi` after its run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use belljar_analysis::{JobEnd, RunFacts};
use belljar_files::read_input_text;
use clap::Args;

use super::collected::{refuse, warn};
use super::hang::{end_of_run, exit_code, has_ended_workload, is_of_run, lost, unrecorded};
use super::sites::{names, traced_files};
use super::{results, trace_file};

#[derive(Args)]
pub(crate) struct CheckTraceArguments {
    /// Run directory or trace file.
    trace: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar trace check`.
pub(super) fn check(arguments: &CheckTraceArguments) -> Result<ExitCode> {
    check_run(&arguments.trace, arguments.json)
}

/// Checks the run in a directory, or a trace file. The exit code is 1 if there are errors.
///
/// # Errors
/// If the trace cannot be read.
pub(in crate::command) fn check_run(trace: &Path, json: bool) -> Result<ExitCode> {
    let path = trace_file(trace);
    warn(&path)?;
    refuse(&path, "a check of MPI use")?;
    let ended = lost(&path)?;
    let run = RunFacts {
        end: is_of_run(&path).then(|| JobEnd {
            exit_code: exit_code(&path),
            ended: ended.clone(),
        }),
        end_ps: end_of_run(&path),
        stderr: read_input_text(path.with_file_name("stderr")).ok(),
        missing: unrecorded(&path),
        // A launcher ends the processes of a workload that fails, and their last calls are still what they waited in.
        lost: match has_ended_workload(&path) {
            true => Vec::new(),
            false => ended,
        },
    };
    let files = traced_files(&path)?;
    let names = files.as_ref().map(|files| names(Some(files)));
    let (check, state) = belljar_analysis::check(&path, &run, names)?;
    results(&state, |out| match json {
        true => check.write_json(out),
        false => check.write(out),
    })?;
    Ok(match check.has_errors() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}
