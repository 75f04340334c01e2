//! `belljar trace`, and the table that ends a run.
//!
//! Results go to standard output. Notes about incomplete traces go to standard error. The note about a reduced trace precedes
//! the results, other notes follow them. The analyses are the tracer's. Called by `main`, and by `conclusion` at the end of a
//! run.

/// Errors of MPI use.
pub(in crate::command) mod check;
/// Traces of some iterations.
pub(in crate::command) mod collected;
/// Traces in the current format.
mod convert;
/// Efficiencies on an ideal network, and of several runs.
pub(in crate::command) mod efficiency;
/// Traces in other tools' formats.
mod export;
/// Traces of runs that never ran.
pub(in crate::command) mod generated;
/// Jobs that came to no end.
pub(in crate::command) mod hang;
/// Traces that other tools wrote.
pub(in crate::command) mod import;
/// Traffic between ranks.
pub(in crate::command) mod matrix;
/// Nodes of the traced run.
mod nodes;
/// Call sites.
pub(in crate::command) mod sites;
/// Sums over calls.
mod stat;
/// Structure of a program's calls.
mod structure;
/// The decision tables of a run's MPI library.
pub(in crate::command) mod tables;
/// Waiting, the critical path, and differences of two traces.
mod waiting;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use belljar_analysis::{
    AnalysisError, Comparable, DumpFormat, Filter, InPhase, ProgramPhase, Several, TimesMode,
    Unmatched, processors_warning,
};
use belljar_archive::TraceReader;
use belljar_cluster::scenario::quantity::Duration;
use belljar_images::toml_error::nearest;
use belljar_sim::Time;
use belljar_trace::{TRACE_FILE, TraceState};
use clap::{Args, Subcommand, ValueEnum};

use crate::command::output::{Harmless, Results, read_or_not, show};
use crate::command::terminal::progress;
use check::CheckTraceArguments;
use collected::{CollectArguments, warn};
use convert::ConvertArguments;
use export::ExportArguments;
use hang::HangArguments;
use import::ImportArguments;
use matrix::MatrixArguments;
pub(in crate::command) use sites::RunFiles;
use sites::SitesArguments;
use stat::StatArguments;
pub(in crate::command) use stat::print_statistics;
use structure::{GraphArguments, LoopsArguments};
use waiting::{DiffArguments, PathArguments, WaitArguments};

#[derive(Subcommand)]
pub(crate) enum TraceCommand {
    /// List the calls.
    Dump(DumpArguments),
    /// Summarise calls by function, rank, size and partner.
    Stat(StatArguments),
    /// Print which ranks waited for which, and why.
    ///
    /// The causes are late senders and receivers, barriers and collective operations.
    #[command(after_help = "Example: belljar trace wait belljar-runs/hpl-4 --function 'MPI_*Recv'")]
    Wait(WaitArguments),
    /// Print why a job came to no end.
    ///
    /// The trace shows which ranks wait for each other in calls that did not return, or for ranks that have ended.
    #[command(after_help = "Example: belljar trace hang belljar-runs/solver.incomplete")]
    Hang(HangArguments),
    /// Print errors of MPI use.
    ///
    /// The exit code is 1 if there are errors, and 0 if there are warnings and notes alone.
    #[command(after_help = "Example: belljar trace check belljar-runs/solver")]
    Check(CheckTraceArguments),
    /// Print the critical path by rank and function.
    #[command(after_help = "Example: belljar trace path belljar-runs/hpl-4")]
    Path(PathArguments),
    /// Print traffic between ranks.
    ///
    /// It is counted by calls, by the MPI library's messages, or on the wire.
    #[command(
        after_help = "Example: belljar trace matrix belljar-runs/hpl-4 --by message --svg hpl.svg"
    )]
    Matrix(MatrixArguments),
    /// Compare two traces.
    ///
    /// Prints the first differing call, and the changes by function, rank and cause of waiting.
    #[command(after_help = "Example: belljar trace diff belljar-runs/slow belljar-runs/fast")]
    Diff(DiffArguments),
    /// Print the event flow graph of the calls.
    ///
    /// It has the order, frequency and times of kinds of calls.
    #[command(
        after_help = "Example: belljar trace graph belljar-runs/hpl-4 --dot | dot -Tsvg > hpl.svg"
    )]
    Graph(GraphArguments),
    /// Print the program's loops with iterations and times.
    #[command(after_help = "Example: belljar trace loops belljar-runs/hpl-4")]
    Loops(LoopsArguments),
    /// Summarise calls by call site, with functions and lines.
    ///
    /// The run must have recorded frames: --set trace.frames=3.
    #[command(
        after_help = "Example: belljar trace sites belljar-runs/hpl-4 --frames 1 --transitions"
    )]
    Sites(SitesArguments),
    /// Reduce a trace to some iterations of its main loop.
    ///
    /// The other iterations become sums, so the statistics stay the same.
    #[command(
        after_help = "Example: belljar trace collect belljar-runs/hpl-4 --iterations 10 --out hpl-4.kept"
    )]
    Collect(CollectArguments),
    /// Convert a trace to the current format version.
    #[command(after_help = "Example: belljar trace convert belljar-runs/hpl-4 hpl-4.bjt")]
    Convert(ConvertArguments),
    /// Export a trace in another tool's format.
    #[command(
        after_help = "Examples: belljar trace export belljar-runs/hpl-4 --format otf2 --out hpl.otf2\n          \
                      belljar trace export belljar-runs/hpl-4 --format ti --out hpl.ti"
    )]
    Export(ExportArguments),
    /// Import a trace of another tool as a run directory.
    ///
    /// The formats are OTF2 archives (as Score-P writes them), GOAL schedules, and time-independent traces of SimGrid.
    #[command(
        after_help = "Examples: belljar trace import scorep-run/traces.otf2 --out scorep\n          \
                      belljar trace import lulesh.goal --out lulesh && belljar replay lulesh"
    )]
    Import(ImportArguments),
}

#[derive(Args)]
pub(crate) struct FilterArguments {
    /// Select calls of this rank; repeatable.
    #[arg(long, value_name = "RANK")]
    rank: Vec<u32>,
    /// Select functions by name or pattern, such as `MPI_I*`; repeatable.
    #[arg(long, value_name = "NAME")]
    function: Vec<String>,
    /// Select calls from this virtual time, such as `1.5 s`.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Select calls before this virtual time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Select calls before, in or after the main loop.
    ///
    /// `belljar trace loops` defines the main loop.
    #[arg(long, value_enum)]
    phase: Option<PhaseChoice>,
}

impl FilterArguments {
    /// True if a filter is set.
    pub(in crate::command) fn is_given(&self) -> bool {
        let has_times = self.from.is_some() || self.to.is_some();
        !self.rank.is_empty() || !self.function.is_empty() || has_times || self.phase.is_some()
    }
}

/// A phase of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::command) enum PhaseChoice {
    /// Before the main loop.
    Before,
    /// In the main loop.
    MainLoop,
    /// After the main loop.
    After,
}

impl PhaseChoice {
    pub(in crate::command) fn phase(self) -> ProgramPhase {
        match self {
            Self::Before => ProgramPhase::Before,
            Self::MainLoop => ProgramPhase::MainLoop,
            Self::After => ProgramPhase::After,
        }
    }
}

#[derive(Args)]
pub(crate) struct DumpArguments {
    /// Run directory or trace file.
    trace: PathBuf,
    /// Print JSON, one object a line.
    #[arg(long)]
    json: bool,
    /// Print the call site of each call.
    ///
    /// The run needs `trace.frames`.
    #[arg(long)]
    sites: bool,
    #[command(flatten)]
    filter: FilterArguments,
}

/// `belljar trace`.
pub(crate) fn run(command: &TraceCommand) -> Result<ExitCode> {
    progress::of_traces(|| carry_out(command))
}

fn carry_out(command: &TraceCommand) -> Result<ExitCode> {
    match command {
        TraceCommand::Dump(arguments) => dump(arguments),
        TraceCommand::Stat(arguments) => stat::stat(arguments),
        TraceCommand::Wait(arguments) => waiting::wait(arguments),
        TraceCommand::Hang(arguments) => hang::hang(arguments),
        TraceCommand::Check(arguments) => check::check(arguments),
        TraceCommand::Path(arguments) => waiting::path(arguments),
        TraceCommand::Matrix(arguments) => matrix::matrix(arguments),
        TraceCommand::Diff(arguments) => waiting::diff(arguments),
        TraceCommand::Graph(arguments) => structure::graph(arguments),
        TraceCommand::Loops(arguments) => structure::loops(arguments),
        TraceCommand::Sites(arguments) => sites::sites(arguments),
        TraceCommand::Collect(arguments) => collected::collect(arguments),
        TraceCommand::Convert(arguments) => convert::convert(arguments),
        TraceCommand::Export(arguments) => export::export(arguments),
        TraceCommand::Import(arguments) => import::import(arguments),
    }
}

/// The trace of a run directory, or the file itself.
pub(in crate::command) fn trace_file(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join(TRACE_FILE)
    } else {
        path.to_owned()
    }
}

/// The filter that options name, for the trace at `path`.
fn filter(arguments: &FilterArguments, path: &Path) -> Result<Filter> {
    let phase = arguments.phase.map(|choice| -> Result<InPhase> {
        let phases = Arc::new(belljar_analysis::phases(path)?);
        let wanted = choice.phase();
        Ok(InPhase { phases, wanted })
    });
    let filter = Filter {
        phase: phase.transpose()?,
        ranks: arguments.rank.clone(),
        functions: arguments.function.clone(),
        from: time("--from", arguments.from.as_deref())?,
        to: time("--to", arguments.to.as_deref())?,
    };
    match belljar_analysis::unmatched(path, &filter)? {
        None => Ok(filter),
        Some(unmatched) => bail!("{}: {}", path.display(), in_words(unmatched)),
    }
}

/// The part of a filter that matches nothing, with values that match.
fn in_words(unmatched: Unmatched) -> String {
    match unmatched {
        Unmatched::Function { pattern, known } => {
            let near = nearest(&pattern, known.iter().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean {near}?"),
                None => "see the functions with belljar trace stat".to_owned(),
            };
            format!("--function {pattern} matches no call; {hint}")
        }
        Unmatched::Rank { rank, highest } => match highest {
            Some(highest) => format!("--rank {rank} has no calls; the highest rank is {highest}"),
            None => format!("--rank {rank} has no calls, and neither has any other"),
        },
        Unmatched::Together => {
            "no call matches the filter (--rank, --function, --from, --to and --phase together)"
                .to_owned()
        }
    }
}

/// The same, and how times are read: they are skipped for `counts`.
fn counted(arguments: &FilterArguments, path: &Path, counts: bool) -> Result<(Filter, TimesMode)> {
    let wanted = filter(arguments, path)?;
    if counts && wanted.needs_times() {
        bail!("--counts reads no times; leave out --from, --to and --phase");
    }
    let times = if counts {
        TimesMode::Unread
    } else {
        TimesMode::Read
    };
    Ok((wanted, times))
}

/// The virtual time of an option, if it is given.
pub(in crate::command) fn time(option: &'static str, text: Option<&str>) -> Result<Option<Time>> {
    let Some(text) = text else {
        return Ok(None);
    };
    let span: Duration = text.parse().context(option)?;
    Ok(Some(Time::ZERO + span.0))
}

/// Notes on standard error that a trace is incomplete.
fn remark(state: &TraceState) {
    if let TraceState::Incomplete { offset, reason } = state {
        warning!(
            "the trace is incomplete: {reason} (at byte {offset}); what comes before is whole"
        );
    }
}

/// `belljar trace dump`.
fn dump(arguments: &DumpArguments) -> Result<ExitCode> {
    let format = if arguments.json {
        DumpFormat::Json
    } else {
        DumpFormat::Text
    };
    if io::stdout().is_terminal() {
        // Its lines and the progress would share the terminal.
        progress::clear();
    }
    let mut out = io::BufWriter::new(Harmless::new(io::stdout().lock()));
    let path = trace_file(&arguments.trace);
    warn(&path)?;
    let filter = filter(&arguments.filter, &path)?;
    let files = arguments.sites.then(|| sites::files_of(&path)).flatten();
    let names = arguments.sites.then(|| sites::names(files.as_ref()));
    let result = belljar_analysis::dump(&path, &filter, format, names, &mut out);
    let result = result.and_then(|state| {
        out.flush()?;
        Ok(state)
    });
    match result {
        Err(AnalysisError::Output(error)) => read_or_not(Err(error))?,
        result => remark(&result?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the results of `of` for several traces, side by side.
fn several<T: Comparable>(
    traces: &[PathBuf],
    json: bool,
    of: impl Fn(&Path) -> Result<(T, TraceState)>,
) -> Result<ExitCode> {
    several_of(traces, json, of, |_| {})
}

/// The same; `compare` sees all results before they are shown.
fn several_of<T: Comparable>(
    traces: &[PathBuf],
    json: bool,
    of: impl Fn(&Path) -> Result<(T, TraceState)>,
    compare: impl FnOnce(&mut [(String, T)]),
) -> Result<ExitCode> {
    let mut found = Vec::new();
    let mut first: Option<Vec<String>> = None;
    for trace in traces {
        let path = trace_file(trace);
        warn(&path)?;
        let processors = TraceReader::open(&path)?.header().processors().to_vec();
        let both = [
            first.get_or_insert_with(|| processors.clone()).clone(),
            processors,
        ];
        if let Some(warning) = processors_warning(&both) {
            warning!("{}: {warning}", trace.display());
        }
        let (own, state) = of(&path)?;
        remark(&state);
        found.push((trace.display().to_string(), own));
    }
    compare(&mut found);
    let found = Several(found);
    show(|out| match json {
        true => found.write_json(out),
        false => found.write(out),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes results to standard output, then notes about their trace.
fn results(
    state: &TraceState,
    write: impl FnOnce(&mut Results<'_>) -> io::Result<()>,
) -> Result<ExitCode> {
    show(write)?;
    remark(state);
    Ok(ExitCode::SUCCESS)
}
