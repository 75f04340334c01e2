//! `belljar trace collect`, and notes about reduced traces.
//!
//! The same reduction as `trace.collect` of a run, for a finished trace. Called by `belljar trace`, and by commands that
//! read traces.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::Table;
use belljar_archive::{TraceReader, TraceWriter};
use belljar_cluster::scenario::Iterations;
use belljar_files::{OutputFolder, write_file};
use belljar_sim::figures::{counted, decimal, percent, plural, share};
use belljar_thinning::{Both, COLLECTED_FILE, Collected, Collector};
use belljar_trace::{TRACE_FILE, TraceError, TraceState};
use clap::Args;

use super::generated::never_ran;
use super::{remark, trace_file};
use crate::command::output::show;

/// Maximum number of listed transitions with their errors.
const MOST_LINES: usize = 12;

#[derive(Args)]
pub(crate) struct CollectArguments {
    /// Run directory or trace file.
    trace: PathBuf,
    /// Number of iterations of the main loop to keep.
    #[arg(long, value_name = "N")]
    iterations: u64,
    /// New run directory.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Warns on standard error of a reduced trace, and of a trace of a synthetic run.
pub(in crate::command) fn warn(path: &Path) -> Result<()> {
    if let Some(origin) = never_ran(path)? {
        warning!("{origin}");
    }
    if let Some(collected) = Collected::of_trace(path)? {
        warning!("{}", words(&collected));
    }
    Ok(())
}

/// Refuses a reduced trace for the command `what`, which needs all iterations.
pub(in crate::command) fn refuse(path: &Path, what: &str) -> Result<()> {
    match Collected::of_trace(path)? {
        Some(collected) if lacks(&collected) => bail!(
            "{} lacks calls that {what} needs: {}; run it without trace.collect",
            path.display(),
            words(&collected)
        ),
        _ => Ok(()),
    }
}

/// True if a part is known to be missing.
fn lacks(collected: &Collected) -> bool {
    collected.threads.is_empty() || collected.calls().1 > 0
}

fn words(collected: &Collected) -> String {
    if collected.threads.is_empty() {
        return "iterations of the main loop may be missing; which would be known at the run's end"
            .to_owned();
    }
    let (kept, all) = collected.iterations();
    let halved = match collected.halved_messages() {
        0 => String::new(),
        some => format!(
            ", not the same ones of all ranks: of at least {} one side is missing, and waiting times are wrong",
            counted(some, "message")
        ),
    };
    format!(
        "{kept} of {} of the main loop {} kept{halved}",
        counted(all, "iteration"),
        plural(kept, "was", "were")
    )
}

/// `belljar trace collect`.
pub(super) fn collect(arguments: &CollectArguments) -> Result<ExitCode> {
    let from = trace_file(&arguments.trace);
    refuse(&from, "a smaller trace")?;
    let wanted: Iterations = format!("{} iterations", arguments.iterations)
        .parse()
        .map_err(anyhow::Error::msg)
        .context("--iterations")?;
    let unfinished = OutputFolder::create(&arguments.out)?;
    let to = unfinished.path().join(TRACE_FILE);
    let (collected, state) = reduce(&from, &to, wanted.0)?;
    let file = unfinished.path().join(COLLECTED_FILE);
    write_file(&file, collected.text())?;
    if arguments.trace.is_dir() {
        copy_rest(&arguments.trace, unfinished.path())?;
    }
    let length = |path: &Path| fs::metadata(path).map_or(0, |it| it.len());
    let sizes = [length(&from), length(&to), length(&file)];
    unfinished.finish()?;
    show(|out| write(&collected, sizes, out))?;
    remark(&state);
    Ok(ExitCode::SUCCESS)
}

/// Reduces the trace at `from` into the new file `to`.
fn reduce(from: &Path, to: &Path, wanted: u64) -> Result<(Collected, TraceState), TraceError> {
    let mut reader = TraceReader::open(from)?;
    let file = File::create_new(to).map_err(|source| TraceError::Io {
        action: "create",
        path: to.to_owned(),
        source,
    })?;
    let mut writer = TraceWriter::over(file, to, reader.header(), reader.contents())?;
    let mut collector = Collector::new(wanted);
    for event in reader.by_ref() {
        collector.take(event, &mut |event| writer.push(event))?;
    }
    match reader.summary() {
        Some(summary) => drop(writer.finish(summary)?),
        None => writer.flush()?,
    }
    Ok((collector.collected(), reader.state().clone()))
}

/// Copies the files of a run directory that are neither the trace nor in folders.
fn copy_rest(from: &Path, to: &Path) -> Result<()> {
    let failed = |path: &Path| format!("cannot copy {}", path.display());
    for entry in fs::read_dir(from).with_context(|| failed(from))? {
        let entry = entry.with_context(|| failed(from))?;
        let (name, path) = (entry.file_name(), entry.path());
        let is_file = entry.file_type().with_context(|| failed(&path))?.is_file();
        if is_file && name != TRACE_FILE && name != COLLECTED_FILE {
            fs::copy(&path, to.join(&name)).with_context(|| failed(&path))?;
        }
    }
    Ok(())
}

/// Prints the saved space, and the errors of kept means.
fn write(
    collected: &Collected,
    [before, after, sums]: [u64; 3],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let (kept, dropped) = collected.calls();
    let all = kept.saturating_add(dropped);
    writeln!(out, "{}", words(collected))?;
    writeln!(out, "calls: {kept} of {all} ({})", percent(kept, all))?;
    writeln!(
        out,
        "bytes: {after} of {before} ({}), and {sums} of sums",
        percent(after, before)
    )?;
    writeln!(out, "\nMeans of the calls that were kept, against all")?;
    let functions = collected.functions().into_iter();
    let functions = functions.map(|(name, it)| (name.to_owned(), it.cycles));
    errors("function", functions.collect(), out)?;
    writeln!(out, "\nMeans of the time between calls, against all")?;
    let transitions = collected.transitions().into_iter();
    let transitions = transitions.map(|((from, to), it)| (format!("{from} to {to}"), it));
    errors("transition", transitions.collect(), out)
}

/// A table of means in cycles, those with most cycles first.
fn errors(head: &str, mut rows: Vec<(String, Both)>, out: &mut dyn io::Write) -> io::Result<()> {
    rows.retain(|(_, it)| it.dropped.count > 0);
    rows.sort_by_key(|(name, it)| (std::cmp::Reverse(it.all().sum), name.clone()));
    let mut table = Table::new([head, "calls", "kept", "mean kept", "mean of all", "off by"]);
    for (name, it) in rows.iter().take(MOST_LINES) {
        let all = it.all();
        let off = it.error().map(|error| share(error, 1));
        table.row(vec![
            name.clone(),
            all.count.to_string(),
            it.kept.count.to_string(),
            format!("{} cycles", decimal(it.kept.mean(), 0)),
            format!("{} cycles", decimal(all.mean(), 0)),
            off.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.write(out)?;
    if let Some(more) = rows.len().checked_sub(MOST_LINES).filter(|more| *more > 0) {
        writeln!(out, "  and {more} more")?;
    }
    Ok(())
}
