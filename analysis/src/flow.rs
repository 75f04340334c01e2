//! Event flow graphs: which kind of call follows which, how often, and when.
//!
//! Nodes are kinds of calls, edges go from one to the one that follows it, with a count and the time between: what
//! is left of a trace if only neighbours in it are kept. Temporal labels of edges tell at which visits of a node
//! which way was gone; where no label is irregular, the sequence of calls can be had back from the graph. Threads with
//! equal graphs are one class. After X. Aguilar, K. Fürlinger and E. Laure, "MPI trace compression using event flow
//! graphs" (Euro-Par 2014) and "Automatic on-line detection of MPI application structure with event flow graphs"
//! (Euro-Par 2015). Gathered by [`FlowCollector`], made by `graph`, shown by `render`, `dot` and `graphml`; called
//! by `belljar trace graph`, and by `loops`.

/// Threads with equal graphs.
mod classes;
/// Gathers graphs, call by call.
pub(crate) mod collect;
/// Graphs as DOT has them.
mod dot;
/// Chains of nodes as one.
mod fold;
/// From what was gathered to graphs.
mod graph;
/// Graphs as GraphML has them.
mod graphml;
/// At which visits something happened.
pub(crate) mod label;
/// The other side of a call, as threads with equal graphs have it.
mod partner;
/// Graphs as text and as JSON.
mod render;
/// What makes two calls the same.
mod signature;
/// Which threads something is about.
pub(crate) mod threads;

use std::path::Path;

use belljar_job::{Collector, Communicators};
use belljar_trace::{TraceError, TraceHeader, TraceState};
use serde::Serialize;

use crate::counted::Times;
use crate::dump::Filter;

pub(crate) use classes::Class;
pub use collect::FlowCollector;
use collect::{Flow, ThreadKey};
pub use label::Label;
pub use signature::Detail;
pub use threads::FlowThread;

/// The node at which every graph begins.
pub(crate) const START: u32 = 0;
/// The node at which every graph ends.
pub(crate) const END: u32 = 1;

/// Whose graphs are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GraphsOf {
    /// Those of each thread.
    Ranks,
    /// One for each class of threads with equal graphs.
    #[default]
    Classes,
    /// One for all threads.
    Merged,
}

/// Event flow graphs of a trace. Times are virtual, in picoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowGraphs {
    /// How much of a call makes it another node.
    pub by: Detail,
    /// Whose graphs they are.
    pub of: GraphsOf,
    /// Whether no times were read: all are 0 then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// Whether chains are nodes.
    pub folded: bool,
    /// Threads that called MPI.
    pub threads: u64,
    /// Their calls.
    pub calls: u64,
    /// The graphs, in the order of their first threads.
    pub graphs: Vec<FlowGraph>,
}

/// The event flow graph of some threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowGraph {
    /// Whose it is, in words.
    pub name: String,
    /// Whose it is.
    pub threads: Vec<FlowThread>,
    /// The beginning, the end, and then kinds of calls in the order of their first.
    pub nodes: Vec<FlowNode>,
    /// By the nodes that they leave and come to.
    pub edges: Vec<FlowEdge>,
}

/// A kind of call, or a chain of such.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowNode {
    /// What is called, one after the other; nothing at the beginning and the end.
    pub calls: Vec<FlowCall>,
    /// How often.
    pub visits: PerThread,
    /// Time in each of its calls.
    pub in_mpi: Spread,
    /// Time between calls of the chain.
    pub between: Spread,
    /// At which of the thread's calls it is visited.
    pub labels: Temporal,
}

/// A call of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowCall {
    /// The function.
    pub function: &'static str,
    /// The call for people, with partners relative to the own rank (`+1`), or as they are (`0`).
    pub text: String,
}

/// One node after another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowEdge {
    /// The node before, by its place in the list of nodes.
    pub from: u32,
    /// The node after.
    pub to: u32,
    /// Threads that took it.
    pub threads: u64,
    /// How often.
    pub count: PerThread,
    /// Time from the return of one to the entry of the next.
    pub between: Spread,
    /// At which visits of the node before.
    pub labels: Temporal,
}

/// A count of threads. Those that it is not about have no part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PerThread {
    /// Of all.
    pub total: u64,
    /// The least of one thread.
    pub min: u64,
    /// The greatest of one thread.
    pub max: u64,
}

/// Some times, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many; the rest is 0 when there is none.
    pub count: u64,
    /// The shortest.
    pub min_ps: u64,
    /// The mean, cut.
    pub mean_ps: u64,
    /// The longest.
    pub max_ps: u64,
    /// All together.
    pub total_ps: u64,
}

/// When something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Temporal {
    /// At these visits, in all threads.
    Regular(Vec<Label>),
    /// At too many distances to list.
    #[default]
    Irregular,
    /// Differently in different threads.
    Differs,
}

/// All threads' graphs, and their classes.
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    pub(crate) collector: FlowCollector,
    pub(crate) classes: Vec<Class>,
}

impl Flows {
    /// What was gathered from a trace with these communicators.
    pub(crate) fn new(mut collector: FlowCollector, communicators: &Communicators) -> Self {
        collector.end();
        let classes = classes::classes(&collector.threads.all, communicators);
        Self { collector, classes }
    }

    /// The threads and their graphs.
    pub(crate) fn threads(&self) -> &[(ThreadKey, Flow)] {
        &self.collector.threads.all
    }
}

impl FlowCollector {
    /// The graphs of a trace with this header and these communicators, with chains as nodes if `folded`.
    pub fn finish(
        self,
        header: &TraceHeader,
        communicators: &Communicators,
        of: GraphsOf,
        folded: bool,
    ) -> FlowGraphs {
        Flows::new(self, communicators).graphs(header, communicators, of, folded)
    }
}

/// Event flow graphs of the wanted calls of the trace at `path`, and whether it is complete. The trace is read once, its times where they are wanted.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
pub fn flow_graphs(
    path: &Path,
    filter: &Filter,
    detail: Detail,
    (of, folded): (GraphsOf, bool),
    times: Times,
) -> Result<(FlowGraphs, TraceState), TraceError> {
    let mut reader = times.open(path)?;
    let header = reader.header().clone();
    let mut communicators = Collector::new();
    let mut flows = FlowCollector::new(detail);
    for event in reader.by_ref().map(|event| times.seen(event)) {
        communicators.observe(&event, &header);
        if filter.wants(&event, &header) {
            flows.observe(&event);
        }
    }
    let communicators = times.resolve(communicators, path)?;
    let graphs = FlowGraphs {
        untimed: times == Times::Unread,
        ..flows.finish(&header, &communicators, of, folded)
    };
    Ok((graphs, reader.state().clone()))
}

#[cfg(test)]
mod tests;
