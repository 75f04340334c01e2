//! `belljar report`: a run as one HTML file, or two runs side by side.
//!
//! Collects the files of a run directory and analyses its trace. The section of a missing file explains how to record it. Called
//! by `main`; `run --report` starts it as a process of its own.

/// The process of a report after a run.
pub(in crate::command) mod deferred;
/// The replay's side of a report of two runs.
mod replayed;

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cluster::results::link_log::LINKS_FILE;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_files::{OutputFile, open_input, read_input_text};
use belljar_profile::Split;
use belljar_report::{Detail, Report, RunData, RunOutput, Summary, TraceAnalyses};
use belljar_sim::figures::count;
use belljar_trace::VERSION;
use clap::Args;

use super::profile;
use super::trace::collected::warn;
use super::trace::efficiency::add_ideal;
use super::trace::generated::never_ran;
use super::trace::matrix::wire;
use super::trace::sites::{RunFiles, names};
use super::trace::tables::tables_of_run;
use super::trace::{time, trace_file};
use crate::command::output::say;
use crate::command::predicting::replay::PLAN_FILE;
use crate::command::running::explore::EXPLANATION_FILE;
use crate::command::terminal::progress;

/// The directory whose path standard input has, once a run has ended.
const FROM_INPUT: &str = "-";
/// The report of a run in its directory.
const REPORT_FILE: &str = "report.html";
/// Bytes of a console or an output in the report, counted from its end.
const MOST_TEXT: u64 = 64 << 10;
/// Largest number of calls for the replay on an ideal network: programs of larger traces need much memory.
const MOST_PLAYED: u64 = 2_000_000;
/// Maximum number of consoles.
const MOST_CONSOLES: usize = 64;

#[derive(Args)]
#[command(after_help = "Examples: belljar report belljar-runs/hpl-4\n          \
                  belljar report belljar-runs/slow belljar-runs/fast --out both.html")]
pub(crate) struct ReportArguments {
    /// Run directory or trace file.
    directory: PathBuf,
    /// Second run, shown side by side.
    other: Option<PathBuf>,
    /// Output file (default `report.html` in the run directory).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Select single calls from this time, such as `1.5 s`.
    ///
    /// The times are virtual. A report cannot hold all single calls of a long run.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Select single calls before this virtual time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

/// `belljar report`.
pub(crate) fn report(arguments: &ReportArguments) -> Result<ExitCode> {
    if arguments.directory == Path::new(FROM_INPUT) {
        return after_a_run();
    }
    let mut detail = Detail::default();
    if let Some(from) = time("--from", arguments.from.as_deref())? {
        detail.from = from.as_ps();
    }
    if let Some(to) = time("--to", arguments.to.as_deref())? {
        detail.to = to.as_ps();
    }
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| match arguments.directory.is_dir() {
            true => arguments.directory.join(REPORT_FILE),
            false => PathBuf::from(REPORT_FILE),
        });
    let other = arguments.other.as_deref();
    progress::of_traces(|| make(&arguments.directory, other, detail, &out))?;
    say(out.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the report of the run whose directory is the line on standard input. A failed report is no failure of the run.
fn after_a_run() -> Result<ExitCode> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let Some(directory) = line.strip_suffix('\n').map(Path::new) else {
        return Ok(ExitCode::SUCCESS);
    };
    let out = directory.join(REPORT_FILE);
    match progress::of_traces(|| make(directory, None, Detail::default(), &out)) {
        Ok(()) => say(format_args!("report: {}", out.display()))?,
        Err(error) => warning!("cannot write the report of this run: {error:#}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the report of a run, or of two, to `out`.
///
/// # Errors
/// If there is no data for a report, or a file cannot be read or written.
fn make(directory: &Path, other: Option<&Path>, detail: Detail, out: &Path) -> Result<()> {
    let detail = Detail {
        budget: detail.budget / if other.is_some() { 2 } else { 1 },
        ..detail
    };
    let run = gather(directory, detail)?;
    let other_run = other.map(|other| gather(other, detail)).transpose()?;
    let both = other_run
        .as_ref()
        .is_some_and(|other| other.traced.is_some())
        && run.traced.is_some();
    let diff = match other.filter(|_| both) {
        Some(other) => {
            let unnamed = [(); 2].map(|()| names(None));
            let (diff, _) =
                belljar_analysis::diff(&trace_file(directory), &trace_file(other), false, unnamed)?;
            Some(diff)
        }
        None => None,
    };
    let changed = match other {
        Some(other) => replayed::changed(directory, other)?,
        None => Vec::new(),
    };
    let report = Report {
        run,
        other: other_run,
        diff,
        changed,
    };
    let mut file = OutputFile::create(out)?;
    report.write(&mut file)?;
    Ok(file.finish()?)
}

/// Collects all data of the run in a directory, or of a trace.
fn gather(path: &Path, detail: Detail) -> Result<RunData> {
    let directory = path.is_dir().then_some(path);
    let trace = trace_file(path);
    if !trace.exists() && directory.is_none_or(|own| !own.join("summary.json").exists()) {
        bail!(
            "{} is neither a run directory nor a trace; name the folder that belljar run printed last",
            path.display()
        );
    }
    let mut run = RunData {
        name: path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned(),
        ..RunData::default()
    };
    let files = RunFiles::of(&trace.with_file_name(SCENARIO_FILE)).ok();
    if let Some(directory) = directory {
        run.scenario = text_of(&directory.join(SCENARIO_FILE));
        run.summary = match replayed::summary(directory)? {
            None => summary(&directory.join("summary.json"))?,
            replay => replay,
        };
        run.outputs = outputs(directory);
        run.links = Some(directory.join(LINKS_FILE)).filter(|links| links.exists());
        run.profile = profile_of(directory, files.as_ref())?;
    }
    if trace.exists() {
        warn(&trace)?;
        let tables = tables_of_run(&trace, None).ok();
        let names = names(files.as_ref());
        let (mut traced, matrices) = TraceAnalyses::read(&trace, tables.as_ref(), names, detail)?;
        ideal(&mut traced, &trace);
        (run.traced, run.matrices) = (Some(traced), matrices);
        if let Some(Ok(wire)) = directory.map(wire) {
            run.matrices.push(("wire", wire));
        }
    }
    if let (Some(summary), Some(traced)) = (&mut run.summary, &run.traced)
        && summary.mpi_calls == 0
    {
        let calls = traced.statistics.ranks.iter().map(|rank| rank.calls);
        summary.mpi_calls = calls.fold(0, u64::saturating_add);
    }
    run.facts = facts(&run, directory);
    if let Some(origin) = never_ran(&trace)? {
        run.facts.insert(0, ("warning".to_owned(), origin));
    }
    Ok(run)
}

/// Adds the efficiencies on an ideal network, or the reason why they are unknown.
fn ideal(traced: &mut TraceAnalyses, trace: &Path) {
    let calls = traced.statistics.ranks.iter().map(|rank| rank.calls);
    let calls = calls.fold(0, u64::saturating_add);
    let failure = match calls > MOST_PLAYED {
        true => Some(format!(
            "the trace has {} calls, more than the {} that a report replays: use belljar trace stat --efficiency",
            count(calls),
            count(MOST_PLAYED)
        )),
        false => add_ideal(&mut traced.statistics, trace)
            .err()
            .map(|error| format!("{error:#}")),
    };
    if let (Some(failure), Some(efficiency)) = (failure, &mut traced.statistics.efficiency) {
        let warning = format!("serialisation and transfer efficiency are unknown: {failure}");
        efficiency.warnings.push(warning);
    }
}

fn profile_of(
    directory: &Path,
    files: Option<&RunFiles>,
) -> Result<Option<belljar_profile::Named>> {
    if !profile::is_there(directory) {
        return Ok(None);
    }
    let (tally, _) = profile::read(
        directory,
        profile::tally(belljar_profile::Filter::default(), files),
    )?;
    Ok(Some(profile::name(&tally, Split::None, files)))
}

fn summary(path: &Path) -> Result<Option<Summary>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = read_input_text(path).with_context(|| format!("cannot read {}", path.display()))?;
    let summary = serde_json::from_str(&text);
    summary
        .with_context(|| format!("{} is not a summary of a run", path.display()))
        .map(Some)
}

/// A file's text; empty if it does not exist.
fn text_of(path: &Path) -> String {
    tail(path).map_or_else(String::new, |(text, _)| text)
}

/// The end of a file, and the number of bytes before it.
fn tail(path: &Path) -> Option<(String, u64)> {
    let mut file = open_input(path).ok()?;
    let length = file.metadata().ok()?.len();
    let left_out = length.saturating_sub(MOST_TEXT);
    file.seek(SeekFrom::Start(left_out)).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST_TEXT).read_to_end(&mut bytes).ok()?;
    Some((String::from_utf8_lossy(&bytes).into_owned(), left_out))
}

/// The workload's output, and the nodes' consoles.
fn outputs(directory: &Path) -> Vec<RunOutput> {
    let consoles = (0..MOST_CONSOLES).map(|node| format!("console/node{node}.log"));
    let names = [EXPLANATION_FILE, "stdout", "stderr"]
        .map(str::to_owned)
        .into_iter()
        .chain(consoles);
    let outputs = names.filter_map(|name| {
        let (text, left_out) = tail(&directory.join(&name))?;
        Some(RunOutput {
            name,
            text,
            left_out,
        })
    });
    outputs.collect()
}

/// The fact with the modelled processors, as the plan calls it.
const PROCESSOR_FACT: &str = "processor";

/// Properties of the run: its command, nodes and network.
fn facts(run: &RunData, directory: Option<&Path>) -> Vec<(String, String)> {
    let plan = directory.map_or_else(String::new, |directory| text_of(&directory.join(PLAN_FILE)));
    let mut facts: Vec<(String, String)> = Vec::new();
    for line in plan.lines() {
        let (name, value) = line.split_at_checked(11).unwrap_or((line, ""));
        match (name.trim(), facts.last_mut()) {
            ("", Some((_, before))) => {
                before.push('\n');
                before.push_str(value);
            }
            (name, _) => facts.push((name.to_owned(), value.to_owned())),
        }
    }
    let modelled = run
        .traced
        .as_ref()
        .map(|traced| &traced.statistics.processors);
    if let Some(modelled) = modelled.filter(|modelled| !modelled.is_empty())
        && !facts.iter().any(|(name, _)| name == PROCESSOR_FACT)
    {
        facts.push((PROCESSOR_FACT.to_owned(), modelled.join(", ")));
    }
    if let Some(summary) = &run.summary {
        facts.push(("ending".to_owned(), summary.ending.clone()));
        let time = match summary.virtual_time_ps {
            0 => "that of calls alone".to_owned(),
            time => belljar_analysis::time_words(time),
        };
        facts.push(("virtual time".to_owned(), time));
        let by = summary.traced_by.as_ref();
        let by = by.map_or_else(String::new, |by| format!(", seen by {by}"));
        let calls = format!("{}{by}", count(summary.mpi_calls));
        facts.push(("MPI calls".to_owned(), calls));
        if let Some(congestion) = summary.congestion() {
            let words = format!(
                "{} marked packets, {} notifications, {} of delays of queue pairs",
                count(congestion.marked),
                count(congestion.notifications_received),
                belljar_analysis::time_words(congestion.delay_ps)
            );
            facts.push(("congestion".to_owned(), words));
        }
        facts.extend(
            summary
                .warnings
                .iter()
                .map(|warning| ("warning".to_owned(), warning.clone())),
        );
    }
    facts.push((
        "belljar".to_owned(),
        format!("{}, trace format {VERSION}", env!("CARGO_PKG_VERSION")),
    ));
    facts
}
