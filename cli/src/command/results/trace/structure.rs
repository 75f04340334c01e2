//! `belljar trace graph` and `belljar trace loops`: the structure of a program's calls.
//!
//! Called by `trace`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use belljar_analysis::{Detail, GraphsOf, LoopStructure};
use belljar_trace::TraceState;
use clap::{Args, ValueEnum};

use super::collected::warn;
use super::{FilterArguments, counted, results, several, trace_file};

/// Arguments that distinguish calls.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// The function alone.
    Function,
    /// Also communicator, partners and roots.
    Peer,
    /// Also tags.
    Tag,
    /// Also counts and datatypes.
    Size,
}

impl By {
    fn detail(self) -> Detail {
        match self {
            Self::Function => Detail::Function,
            Self::Peer => Detail::Peer,
            Self::Tag => Detail::Tag,
            Self::Size => Detail::Size,
        }
    }
}

/// Number of graphs.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    /// One for each thread.
    Ranks,
    /// One for each class of threads with equal graphs.
    Classes,
    /// One for all threads.
    Merged,
}

#[derive(Args)]
pub(crate) struct GraphArguments {
    /// Run directory or trace file.
    trace: PathBuf,
    /// Arguments that make calls different nodes.
    ///
    /// Each value includes the values before it.
    #[arg(long, value_enum, default_value = "peer")]
    by: By,
    /// Number of graphs.
    #[arg(long, value_enum, default_value = "classes")]
    of: Of,
    /// Show each kind of call; do not fold chains.
    #[arg(long)]
    unfolded: bool,
    /// Print DOT for Graphviz.
    #[arg(long, conflicts_with_all = ["graphml", "json"])]
    dot: bool,
    /// Print GraphML for networkx, Gephi and yEd.
    #[arg(long, conflicts_with = "json")]
    graphml: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print only order and frequency.
    ///
    /// Times are not read, so this is several times as fast, and works on files with damaged times.
    #[arg(long)]
    counts: bool,
    #[command(flatten)]
    filter: FilterArguments,
}

/// `belljar trace graph`.
pub(super) fn graph(arguments: &GraphArguments) -> Result<ExitCode> {
    let of = match arguments.of {
        Of::Ranks => GraphsOf::Ranks,
        Of::Classes => GraphsOf::Classes,
        Of::Merged => GraphsOf::Merged,
    };
    let path = trace_file(&arguments.trace);
    warn(&path)?;
    let (wanted, times) = counted(&arguments.filter, &path, arguments.counts)?;
    let (graphs, state) = belljar_analysis::flow_graphs(
        &path,
        &wanted,
        arguments.by.detail(),
        of,
        !arguments.unfolded,
        times,
    )?;
    results(&state, |out| {
        match (arguments.dot, arguments.graphml, arguments.json) {
            (true, ..) => graphs.write_dot(out),
            (_, true, _) => graphs.write_graphml(out),
            (.., true) => graphs.write_json(out),
            _ => graphs.write(out),
        }
    })
}

#[derive(Args)]
pub(crate) struct LoopsArguments {
    /// Run directories or trace files; several appear side by side.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Arguments that make calls different.
    ///
    /// Each value includes the values before it.
    #[arg(long, value_enum, default_value = "peer")]
    by: By,
    /// Include queries such as MPI_Comm_rank and MPI_Wtime.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print only iterations and calls.
    ///
    /// Times are not read, so this is several times as fast, and works on files with damaged times.
    #[arg(long)]
    counts: bool,
    #[command(flatten)]
    filter: FilterArguments,
}

/// `belljar trace loops`.
pub(super) fn loops(arguments: &LoopsArguments) -> Result<ExitCode> {
    let of = |path: &Path| -> Result<(LoopStructure, TraceState)> {
        let (wanted, times) = counted(&arguments.filter, path, arguments.counts)?;
        let detail = arguments.by.detail();
        Ok(belljar_analysis::loops(
            path,
            &wanted,
            detail,
            arguments.all,
            times,
        )?)
    };
    let [trace] = arguments.traces.as_slice() else {
        return several(&arguments.traces, arguments.json, of);
    };
    let path = trace_file(trace);
    warn(&path)?;
    let (loops, state) = of(&path)?;
    results(&state, |out| match arguments.json {
        true => loops.write_json(out),
        false => loops.write(out),
    })
}
