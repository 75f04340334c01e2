//! `belljar trace matrix`: traffic between ranks.
//!
//! Messages need the MPI library's tables, which are in the run's image. Traffic on the wire was recorded by the run.
//! Called by `trace`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::{Matrix, TrafficOf, seen_traffic, traffic, untimed_traffic};
use belljar_cluster::results::wire::WIRE_FILE;
use belljar_files::{OutputFile, read_input_text};
use belljar_trace::TraceState;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::collected::warn;
use super::tables::tables_of_run;
use super::{FilterArguments, filter, results, trace_file};

/// Kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Calls; collective operations by their roots and groups.
    Call,
    /// Messages that the MPI library computes for the calls.
    ///
    /// Collective operations are those of MPICH 4.0 and Open MPI 4.1.
    Message,
    /// Recorded messages of the MPI library (`trace.messages = true`).
    Seen,
    /// Frames between nodes, headers included.
    Wire,
}

#[derive(Args)]
pub(crate) struct MatrixArguments {
    /// Run directory, or a trace file.
    ///
    /// A trace file needs `--by call` or `--library`.
    trace: PathBuf,
    /// Kind of traffic.
    #[arg(long, value_enum, default_value = "call")]
    by: By,
    /// Print a row for each pair, as CSV.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Draw the matrix into this file, too.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Select calls on the communicator with this number.
    ///
    /// The numbers are those of `belljar trace dump`: 0 is `MPI_COMM_WORLD`.
    #[arg(long, value_name = "NUMBER")]
    communicator: Option<u32>,
    /// Select calls of this job's processes.
    ///
    /// Jobs are numbered from 0, in the order of their starts.
    #[arg(long, value_name = "JOB")]
    job: Option<u32>,
    /// MPI library file whose tables define collective algorithms.
    ///
    /// The default is the library of the run's image.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Print only messages and bytes, without rates.
    ///
    /// Times are not read.
    #[arg(long)]
    counts: bool,
    #[command(flatten)]
    filter: FilterArguments,
}

/// `belljar trace matrix`.
pub(super) fn matrix(arguments: &MatrixArguments) -> Result<ExitCode> {
    let is_part =
        arguments.filter.is_given() || arguments.communicator.is_some() || arguments.job.is_some();
    if matches!(arguments.by, By::Wire) && is_part {
        bail!(
            "traffic on the wire is known for the whole run only; leave out --from, --to, --phase, --rank, --function, --communicator and --job"
        );
    }
    warn(&trace_file(&arguments.trace))?;
    let filter = filter(&arguments.filter, &trace_file(&arguments.trace))?;
    let of = TrafficOf {
        communicator: arguments.communicator,
        job: arguments.job,
    };
    if arguments.counts && (filter.needs_times() || matches!(arguments.by, By::Wire | By::Seen)) {
        bail!(
            "--counts reads no times, and no file but the trace; leave out --from, --to, --phase, --by wire and --by seen"
        );
    }
    let traffic = |trace: &Path, tables| match arguments.counts {
        true => untimed_traffic(trace, &filter, of, tables),
        false => traffic(trace, &filter, of, tables),
    };
    let (matrix, state) = match arguments.by {
        By::Wire => (wire(&arguments.trace)?, TraceState::Complete),
        By::Seen => {
            if of.communicator.is_some() {
                bail!("recorded messages lack the trace's communicators; leave out --communicator");
            }
            let seen = seen_traffic(&trace_file(&arguments.trace), &filter, of)?;
            seen.with_context(|| {
                format!(
                    "{} has no messages that were seen; run it again with --set trace.messages=true",
                    arguments.trace.display()
                )
            })?
        }
        By::Call => traffic(&trace_file(&arguments.trace), None)?,
        By::Message => {
            let trace = trace_file(&arguments.trace);
            let tables = tables_of_run(&trace, arguments.library.as_deref())?;
            traffic(&trace, Some(&tables))?
        }
    };
    let chosen = of != TrafficOf::default();
    if chosen && matrix.pairs.is_empty() && matrix.unknown.is_empty() {
        bail!(
            "{}: no message matches --communicator and --job",
            arguments.trace.display()
        );
    }
    if let Some(path) = &arguments.svg {
        let mut file = OutputFile::create(path)?;
        matrix.write_svg(&mut file)?;
        file.finish()?;
    }
    results(&state, |out| match (arguments.csv, arguments.json) {
        (true, _) => matrix.write_csv(out),
        (_, true) => matrix.write_json(out),
        _ => matrix.write(out),
    })
}

/// The required part of `summary.json`.
#[derive(Deserialize)]
struct Lasted {
    virtual_time_ps: u64,
}

/// The wire traffic that the run in `directory` recorded.
pub(in crate::command) fn wire(directory: &Path) -> Result<Matrix> {
    let read = |name: &str| {
        let path = directory.join(name);
        read_input_text(&path).with_context(|| {
            format!(
                "cannot read {}; a run leaves it at its end, and runs of earlier Belljars have none",
                path.display()
            )
        })
    };
    let summary = read("summary.json")?;
    let lasted: Lasted = serde_json::from_str(&summary)
        .with_context(|| format!("{}/summary.json", directory.display()))?;
    let matrix = Matrix::of_wire(&read(WIRE_FILE)?, lasted.virtual_time_ps);
    matrix.with_context(|| directory.join(WIRE_FILE).display().to_string())
}
