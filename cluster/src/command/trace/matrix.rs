//! `belljar trace matrix`: who sends how much to whom.
//!
//! Messages need the MPI library's tables, which are in the run's image; what passed the wire the run wrote down itself.
//! Called by `trace`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::{Filter, Matrix, TrafficOf, seen_traffic, traffic};
use belljar_archive::TraceReader;
use belljar_cluster::mpirun::GuestRoot;
use belljar_cluster::mpirun::tables::{tables_in, tables_of};
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::results::wire::WIRE_FILE;
use belljar_cluster::scenario::Scenario;
use belljar_collectives::Tables;
use belljar_trace::{Implementation, TraceState};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::{FilterArguments, filter, results, trace_file};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// What the program called; collective operations as their roots and groups say.
    Call,
    /// The messages that the MPI library sends, also for collective operations (MPICH 4.0 and Open MPI 4.1).
    Message,
    /// The messages that the run saw the MPI library send (`trace.messages = true`).
    Seen,
    /// What the nodes' network cards sent, headers included, from node to node.
    Wire,
}

#[derive(Args)]
pub(crate) struct MatrixArguments {
    /// A run directory, or for `--by call` and with `--library` a trace file.
    trace: PathBuf,
    /// What is counted.
    #[arg(long, value_enum, default_value = "call")]
    by: By,
    /// A row for each pair, as CSV.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Draw it into this file, too.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Only calls on communicators of this number, as `belljar trace dump` has them: 0 is `MPI_COMM_WORLD`.
    #[arg(long, value_name = "NUMBER")]
    communicator: Option<u32>,
    /// Only calls of this job's processes, counted from 0 in the order of their starts.
    #[arg(long, value_name = "JOB")]
    job: Option<u32>,
    /// The MPI library whose tables say how collective operations are carried out; that of the run's image when absent.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    #[command(flatten)]
    filter: FilterArguments,
}

/// `belljar trace matrix`.
pub(super) fn matrix(arguments: &MatrixArguments) -> Result<ExitCode> {
    let filter = filter(&arguments.filter, &trace_file(&arguments.trace))?;
    let of = TrafficOf {
        communicator: arguments.communicator,
        job: arguments.job,
    };
    let (matrix, state) = match arguments.by {
        By::Wire => {
            if filter != Filter::default() || of != TrafficOf::default() {
                bail!(
                    "what passed the wire is known of the whole run only; leave out --from, --to, --phase, --rank, --function, --communicator and --job"
                );
            }
            (wire(&arguments.trace)?, TraceState::Complete)
        }
        By::Seen => {
            if of.communicator.is_some() {
                bail!(
                    "messages that were seen do not tell the trace's communicators; leave out --communicator"
                );
            }
            let seen = seen_traffic(&trace_file(&arguments.trace), &filter, of)?;
            seen.with_context(|| {
                format!(
                    "{} has no messages that were seen; run it again with --set trace.messages=true",
                    arguments.trace.display()
                )
            })?
        }
        By::Call => traffic(&trace_file(&arguments.trace), &filter, of, None)?,
        By::Message => {
            let tables = tables(arguments)?;
            let trace = trace_file(&arguments.trace);
            traffic(&trace, &filter, of, Some(&tables))?
        }
    };
    if let Some(path) = &arguments.svg {
        draw(&matrix, path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    results(&state, |out| match (arguments.csv, arguments.json) {
        (true, _) => matrix.write_csv(out),
        (_, true) => matrix.write_json(out),
        _ => matrix.write(out),
    })
}

fn draw(matrix: &Matrix, path: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    matrix.write_svg(&mut file)?;
    file.flush()
}

/// The tables by which the run's MPI library carried out collective operations.
fn tables(arguments: &MatrixArguments) -> Result<Tables> {
    if let Some(library) = &arguments.library {
        return Ok(tables_of(library)?);
    }
    let trace = trace_file(&arguments.trace);
    let path = trace.with_file_name(SCENARIO_FILE);
    let text = fs::read_to_string(&path).with_context(|| {
        format!(
            "cannot read {}, which says which image has the MPI library; name the library's file with --library",
            path.display()
        )
    })?;
    for name in choosing(&text) {
        eprintln!(
            "warning: {} names {name}; what it makes the MPI library choose is not taken into account",
            path.display()
        );
    }
    let scenario = Scenario::parse(&path, &text, &[])?;
    let image = Plan::image_of(&scenario, &path)?;
    Ok(tables_in(
        &GuestRoot::open(&image)?,
        implementation(&trace)?,
    )?)
}

/// Variables in a scenario that make MPI libraries choose other algorithms than by their own rules.
fn choosing(scenario: &str) -> BTreeSet<&str> {
    let words = scenario.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    let names = ["MPIR_CVAR_", "OMPI_MCA_coll", "coll_tuned_", "coll_libnbc_"];
    words
        .filter(|word| names.iter().any(|name| word.starts_with(name)))
        .collect()
}

/// The MPI library of the first call in a trace.
fn implementation(trace: &Path) -> Result<Implementation> {
    let mut reader = TraceReader::open(trace)?;
    let first = reader.next();
    Ok(first.map_or(Implementation::Mpich, |event| event.implementation))
}

/// What `summary.json` says that is needed here.
#[derive(Deserialize)]
struct Lasted {
    virtual_time_ps: u64,
}

/// What the run in `directory` says that passed the wire.
fn wire(directory: &Path) -> Result<Matrix> {
    let read = |name: &str| {
        let path = directory.join(name);
        fs::read_to_string(&path).with_context(|| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_choose_algorithms_are_found() {
        let scenario = "command = 'mpirun --mca coll_tuned_use_dynamic_rules 1 ./a'\n\
                        environment = { MPIR_CVAR_BCAST_INTRA_ALGORITHM = 'binomial', HOME = '/' }";
        let found: Vec<&str> = choosing(scenario).into_iter().collect();
        assert_eq!(
            found,
            [
                "MPIR_CVAR_BCAST_INTRA_ALGORITHM",
                "coll_tuned_use_dynamic_rules"
            ]
        );
        assert!(choosing("command = 'mpirun ./a'").is_empty());
    }
}
