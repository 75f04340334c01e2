//! `belljar trace export`: traces in other tools' formats.
//!
//! Losses of a format are reported once on standard error. Called by `trace`.

/// For LogGOPSim and ATLAHS.
mod goal;
/// Formats that are written as the trace is read.
mod streamed;
/// For SimGrid.
mod ti;

use std::fs::{self};
use std::io::{self};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use belljar_files::{OutputFile, OutputFolder};
use belljar_formats::goal::{write_goal, write_goal_binary};
use belljar_formats::messages::LeftOut;
use belljar_formats::tables::Encoding;
use belljar_formats::{chrome, otf2, paraver, perfetto};
use belljar_sim::figures::counted_as;
use clap::{Args, ValueEnum};

use super::collected::warn;
use super::trace_file;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Open Trace Format 2, for Vampir, Scalasca and others.
    ///
    /// The archive is a folder whose anchor is `traces.otf2`.
    Otf2,
    /// Perfetto's protobuf, for its viewer and queries: a file.
    Perfetto,
    /// JSON of Chromium's trace viewer, for small traces: a file.
    Chrome,
    /// Paraver's records and names: a folder.
    ///
    /// It has `trace.prv`, `trace.pcf` and `trace.row`.
    Paraver,
    /// Comma-separated tables of calls, messages and others: a folder.
    Csv,
    /// The same tables as Apache Parquet: a folder.
    ///
    /// pandas, polars, DuckDB and others read it.
    Parquet,
    /// Textual GOAL schedule, for LogGOPSim and ATLAHS: a file.
    Goal,
    /// Binary GOAL schedule, as `txt2bin` makes it: a file.
    GoalBinary,
    /// Time-independent trace for SimGrid's `smpirun -replay`: a folder.
    ///
    /// It includes the run's network as a platform.
    Ti,
}

impl Format {
    /// Suffix of the names of files and folders in this format.
    fn extension(self) -> &'static str {
        match self {
            Self::Otf2 => "otf2",
            Self::Perfetto => "pftrace",
            Self::Chrome => "json",
            Self::Paraver => "paraver",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Goal => "goal",
            Self::GoalBinary => "bin",
            Self::Ti => "ti",
        }
    }
}

#[derive(Args)]
pub(crate) struct ExportArguments {
    /// Run directory or trace file.
    trace: PathBuf,
    /// Output format.
    #[arg(long, value_enum)]
    format: Format,
    /// New file or folder, by default named after the run.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// For `ti`: floating-point operations per cycle of work.
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    flops_per_cycle: f64,
    /// For `ti`: write collective operations as messages.
    ///
    /// They are the MPI library's messages. Without this option, only operations unknown to SimGrid become messages.
    #[arg(long)]
    messages: bool,
    /// For `ti`: override a scenario key; repeatable.
    ///
    /// With `network.latency="20 us"`, for example, the platform has another latency.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ExportArguments {
    /// Path of the output.
    fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| {
            let path = match self.trace.is_dir() {
                true => fs::canonicalize(&self.trace).unwrap_or(self.trace.clone()),
                false => self.trace.with_extension(""),
            };
            let name = path.file_name().unwrap_or("trace".as_ref());
            let mut name = PathBuf::from(name).into_os_string();
            name.push(".");
            name.push(self.format.extension());
            name.into()
        })
    }
}

/// `belljar trace export`.
pub(super) fn export(arguments: &ExportArguments) -> Result<ExitCode> {
    let trace = trace_file(&arguments.trace);
    warn(&trace)?;
    let out = arguments.out();
    match arguments.format {
        Format::Otf2 => streamed::write_folder(&trace, &out, otf2::write)?,
        Format::Perfetto => streamed::write_file(&trace, &out, perfetto::write)?,
        Format::Chrome => streamed::write_file(&trace, &out, chrome::write)?,
        Format::Paraver => streamed::write_folder(&trace, &out, paraver::write)?,
        Format::Csv => streamed::write_tables(&trace, &out, Encoding::Csv)?,
        Format::Parquet => streamed::write_tables(&trace, &out, Encoding::Parquet)?,
        Format::Goal => goal::write(&trace, &out, |messages, file| write_goal(messages, file))?,
        Format::GoalBinary => goal::write(&trace, &out, write_goal_binary)?,
        Format::Ti => ti::write(arguments, &trace, &out)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a folder that is new or empty.
fn folder(path: &Path) -> Result<OutputFolder> {
    match OutputFolder::create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
            "{} is there already and not empty; name another folder with --out",
            path.display()
        ),
        begun => Ok(begun?),
    }
}

/// Writes a file.
fn file(path: &Path, write: impl FnOnce(&mut OutputFile) -> io::Result<()>) -> Result<()> {
    let mut out = OutputFile::create(path)?;
    write(&mut out)?;
    Ok(out.finish()?)
}

/// Reports data that the format cannot represent.
fn say_left_out(left_out: LeftOut) {
    for (count, one, many) in [
        (
            left_out.alone,
            "send or receive lacks the other end; it is left out",
            "sends and receives lack the other end; they are left out",
        ),
        (
            left_out.to_themselves,
            "message of a rank to itself is left out",
            "messages of ranks to themselves are left out",
        ),
        (
            left_out.collectives,
            "part in a collective operation that not all members take part in alike is left out",
            "parts in collective operations that not all members take part in alike are left out",
        ),
        (
            left_out.probes,
            "wait by MPI_Probe or the like is left out: the receive that follows waits",
            "waits by MPI_Probe and the like are left out: the receives that follow wait",
        ),
        (
            left_out.accesses,
            "access to a window or lock of it is left out: the format has no one-sided communication",
            "accesses to windows and locks of them are left out: the format has no one-sided communication",
        ),
        (
            left_out.unordered,
            "part in a nonblocking collective operation starts all its messages at once, without the dependences among them",
            "parts in nonblocking collective operations start all their messages at once, without the dependences among them",
        ),
        (
            left_out.threads,
            "thread is merged into the rank of its process, in the order of the trace",
            "threads are merged into the rank of their process, in the order of the trace",
        ),
    ] {
        if count > 0 {
            note!("note: {}", counted_as(count, one, many));
        }
    }
}
