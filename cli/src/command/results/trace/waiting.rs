//! `belljar trace wait`, `path` and `diff`: waiting, the critical path, and differences of two traces.
//!
//! If a trace has call sites, they are printed with functions and lines. Called by `trace`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use belljar_analysis::{WaitBy, Waiting};
use belljar_archive::TraceReader;
use belljar_trace::TraceState;
use clap::Args;

use super::collected::warn;
use super::import::imported;
use super::sites::{RunFiles, files_of, names};
use super::{FilterArguments, filter, remark, results, several, trace_file};

#[derive(Args)]
pub(crate) struct WaitArguments {
    /// Run directories or trace files; several appear side by side.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Distinguish call sites by this number of frames.
    ///
    /// The default is all recorded frames.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..))]
    frames: Option<u8>,
    /// Print results by phase, too.
    ///
    /// Phases are before, in and after the main loop.
    #[arg(long)]
    phases: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArguments,
}

#[derive(Args)]
pub(crate) struct PathArguments {
    /// Run directory or trace file.
    trace: PathBuf,
    /// Print results by phase, too.
    ///
    /// Phases are before, in and after the main loop.
    #[arg(long)]
    phases: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct DiffArguments {
    /// Run directory or trace file.
    a: PathBuf,
    /// Second run directory or trace file.
    b: PathBuf,
    /// Print results by phase, too.
    ///
    /// Phases are before, in and after the main loop.
    #[arg(long)]
    phases: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Exit with code 1 if the traces differ.
    #[arg(long)]
    exit_code: bool,
}

/// `belljar trace wait`.
pub(super) fn wait(arguments: &WaitArguments) -> Result<ExitCode> {
    let of = |path: &Path| named_waiting(arguments, path);
    let [trace] = arguments.traces.as_slice() else {
        return several(&arguments.traces, arguments.json, of);
    };
    let path = trace_file(trace);
    warn(&path)?;
    let (waiting, state) = of(&path)?;
    results(&state, |out| match arguments.json {
        true => waiting.write_json(out),
        false => waiting.write(out),
    })
}

/// The waiting in a trace, with names of call sites.
fn named_waiting(arguments: &WaitArguments, path: &Path) -> Result<(Waiting, TraceState)> {
    let filter = filter(&arguments.filter, path)?;
    let by = WaitBy {
        frames: arguments.frames,
        phases: arguments.phases,
        delays: true,
        loops: true,
    };
    let (mut waiting, state) = belljar_analysis::waiting(path, &filter, by)?;
    waiting.own_clocks = imported(path);
    if tells_sites(path)? {
        waiting.name(&mut names(files_of(path).as_ref()));
    }
    Ok((waiting, state))
}

/// `belljar trace path`.
pub(super) fn path(arguments: &PathArguments) -> Result<ExitCode> {
    let file = trace_file(&arguments.trace);
    warn(&file)?;
    let (mut path, state) = belljar_analysis::critical_path(&file, arguments.phases)?;
    if !path.sites.is_empty() {
        path.name(&mut names(files_of(&file).as_ref()));
    }
    results(&state, |out| match arguments.json {
        true => path.write_json(out),
        false => path.write(out),
    })
}

/// `belljar trace diff`.
pub(super) fn diff(arguments: &DiffArguments) -> Result<ExitCode> {
    let [a, b] = [&arguments.a, &arguments.b].map(|path| trace_file(path));
    [&a, &b].into_iter().try_for_each(|path| warn(path))?;
    let sites = tells_sites(&a)? && tells_sites(&b)?;
    let files = [&a, &b].map(|path| sites.then(|| files_of(path)).flatten());
    let names = files
        .each_ref()
        .map(|files: &Option<RunFiles>| names(files.as_ref()));
    let (diff, [first, second]) = belljar_analysis::diff(&a, &b, arguments.phases, names)?;
    results(&first, |out| match arguments.json {
        true => diff.write_json(out),
        false => diff.write(out),
    })?;
    remark(&second);
    Ok(match arguments.exit_code && !diff.equal {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// True if a trace has call sites.
fn tells_sites(path: &Path) -> Result<bool> {
    Ok(TraceReader::open(path)?.contents().frames > 0)
}
