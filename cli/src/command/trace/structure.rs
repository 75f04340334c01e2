//! `belljar trace graph` and `belljar trace loops`: how a program is built, by its calls.
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

/// How much of a call makes it another event.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// The function alone.
    Function,
    /// And communicator, partners and roots.
    Peer,
    /// And tags.
    Tag,
    /// And counts and datatypes.
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

/// Whose graphs are wanted.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    /// One for each thread.
    Ranks,
    /// One for each class of threads with equal graphs.
    Classes,
    /// One for all.
    Merged,
}

#[derive(Args)]
pub(crate) struct GraphArguments {
    /// A run directory, or a trace file.
    trace: PathBuf,
    /// What makes a call another node; each takes those before into account, too.
    #[arg(long, value_enum, default_value = "peer")]
    by: By,
    /// Whose graphs.
    #[arg(long, value_enum, default_value = "classes")]
    of: Of,
    /// Every kind of call as a node of its own, and chains not as one.
    #[arg(long)]
    unfolded: bool,
    /// For Graphviz.
    #[arg(long, conflicts_with_all = ["graphml", "json"])]
    dot: bool,
    /// For networkx, Gephi and yEd.
    #[arg(long, conflicts_with = "json")]
    graphml: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// What follows what and how often alone, of which no times are read: several times as fast, also where the file's times are damaged.
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
        (of, !arguments.unfolded),
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
    /// A run directory, or a trace file; of several, figures stand next to each other.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// What makes a call another one; each takes those before into account, too.
    #[arg(long, value_enum, default_value = "peer")]
    by: By,
    /// Calls that only ask for something, as MPI_Comm_rank and MPI_Wtime, too.
    #[arg(long)]
    all: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Iterations and calls alone, of which no times are read: several times as fast, also where the file's times are damaged.
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
