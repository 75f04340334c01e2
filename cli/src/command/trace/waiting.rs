//! `belljar trace wait`, `path` and `diff`: who waits for whom, what determines how long the program takes, and what changed.
//!
//! Where a trace tells where calls were made, call sites are told with their functions and lines. Called by `trace`.

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
    /// A run directory, or a trace file; of several, figures stand next to each other.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Tell call sites apart by this many frames, of those that the trace has; without it, by all.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..))]
    frames: Option<u8>,
    /// By phase of the program, too: before, in and after its main loop.
    #[arg(long)]
    phases: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArguments,
}

#[derive(Args)]
pub(crate) struct PathArguments {
    /// A run directory, or a trace file.
    trace: PathBuf,
    /// By phase of the program, too: before, in and after its main loop.
    #[arg(long)]
    phases: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct DiffArguments {
    /// A run directory, or a trace file.
    a: PathBuf,
    /// Another one.
    b: PathBuf,
    /// By phase of the program, too: before, in and after its main loop.
    #[arg(long)]
    phases: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// End with exit code 1 when the traces are not equal.
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

/// Who waits for whom in a trace, with names of call sites.
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

/// Whether a trace tells where calls were made.
fn tells_sites(path: &Path) -> Result<bool> {
    Ok(TraceReader::open(path)?.contents().frames > 0)
}
