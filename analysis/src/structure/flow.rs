//! Event flow graphs: the successors of each kind of call, with counts and times.
//!
//! Nodes are kinds of calls, edges lead from one to the next, with a count and the time between. The graph is the part of a trace that remains if
//! only adjacent calls are kept. Temporal labels of edges list the visits of a node at which each edge was taken. If no label is irregular, the
//! sequence of calls can be reconstructed from the graph. Threads with equal graphs are one class. After X. Aguilar, K. Fürlinger and E. Laure, "MPI
//! trace compression using event flow graphs" (Euro-Par 2014) and "Automatic on-line detection of MPI application structure with event flow graphs"
//! (Euro-Par 2015). Collected by [`FlowCollector`](flow::FlowCollector), created by `graph`, shown by `render`, `dot` and `graphml`; used by `belljar trace graph`, and by
//! `loops`.

/// Threads with equal graphs.
mod classes;
/// Collects graphs, call by call.
pub(crate) mod collect;
/// Graphs in DOT.
mod dot;
/// Folding of chains into nodes.
mod fold;
/// Creation of graphs from collected data.
mod graph;
/// Graphs in GraphML.
mod graphml;
/// Labels of the visits at which something happened.
pub(crate) mod label;
/// The peer of a call, as threads with equal graphs have it.
mod partner;
/// Graphs as text and as JSON.
mod render;
/// Equality of two calls.
mod signature;
/// Descriptions of sets of threads.
pub(crate) mod threads;

use std::path::Path;

use belljar_job::{Collector, Communicators};
use belljar_trace::{TraceError, TraceHeader, TraceState};
use serde::Serialize;

use crate::counted::TimesMode;
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

/// The threads that share a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GraphsOf {
    /// One graph for each thread.
    Ranks,
    /// One graph for each class of threads with equal graphs.
    #[default]
    Classes,
    /// One graph for all threads.
    Merged,
}

/// Event flow graphs of a trace. Times are virtual, in picoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowGraphs {
    /// The detail by which calls become distinct nodes.
    pub by: Detail,
    /// The threads that share a graph.
    pub of: GraphsOf,
    /// True if no times were read, so that all are 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// True if chains are nodes.
    pub folded: bool,
    /// Threads that called MPI.
    pub threads: u64,
    /// The number of their calls.
    pub calls: u64,
    /// The graphs, in the order of their first threads.
    pub graphs: Vec<FlowGraph>,
}

/// The event flow graph of some threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowGraph {
    /// The name of its threads.
    pub name: String,
    /// Its threads.
    pub threads: Vec<FlowThread>,
    /// The beginning, the end, and then kinds of calls in the order of their first appearance.
    pub nodes: Vec<FlowNode>,
    /// Edges by their source and destination nodes.
    pub edges: Vec<FlowEdge>,
}

/// A kind of call, or a chain of such.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowNode {
    /// The calls, one after the other; empty at the beginning and the end.
    pub calls: Vec<FlowCall>,
    /// The number of visits.
    pub visits: PerThread,
    /// Time in each of its calls.
    pub in_mpi: Spread,
    /// Time between calls of the chain.
    pub between: Spread,
    /// The thread's calls at which it is visited.
    pub labels: Temporal,
}

/// A call of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowCall {
    /// The function.
    pub function: &'static str,
    /// The call as text, with partners relative to the own rank (`+1`), or absolute (`0`).
    pub text: String,
}

/// A transition from one node to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowEdge {
    /// The node before, by its index in the list of nodes.
    pub from: u32,
    /// The node after.
    pub to: u32,
    /// Threads that took it.
    pub threads: u64,
    /// The number of times.
    pub count: PerThread,
    /// Time from the return of one to the entry of the next.
    pub between: Spread,
    /// The visits of the node before at which it was taken.
    pub labels: Temporal,
}

/// A count of threads. Other threads are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PerThread {
    /// The sum over all threads.
    pub total: u64,
    /// The minimum of one thread.
    pub min: u64,
    /// The maximum of one thread.
    pub max: u64,
}

/// Statistics of times, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Their number; the rest is 0 if there are none.
    pub count: u64,
    /// The shortest.
    pub min_ps: u64,
    /// The mean, rounded down.
    pub mean_ps: u64,
    /// The longest.
    pub max_ps: u64,
    /// The total.
    pub total_ps: u64,
}

/// The visits at which something happened.
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
    /// Creates graphs from the data of a trace with these communicators.
    pub(crate) fn new(mut collector: FlowCollector, communicators: &Communicators) -> Self {
        collector.end();
        let classes = classes::classes(&collector.threads.all, communicators);
        Self { collector, classes }
    }

    /// Returns the threads and their graphs.
    pub(crate) fn threads(&self) -> &[(ThreadKey, Flow)] {
        &self.collector.threads.all
    }
}

impl FlowCollector {
    /// Returns the graphs of a trace with this header and these communicators, with chains as nodes if `folded`.
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

/// Creates event flow graphs of the selected calls of the trace at `path`, and returns whether it is complete. The trace is read once, its times only
/// if wanted.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn flow_graphs(
    path: &Path,
    filter: &Filter,
    detail: Detail,
    of: GraphsOf,
    folded: bool,
    times: TimesMode,
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
        untimed: times == TimesMode::Unread,
        ..flows.finish(&header, &communicators, of, folded)
    };
    Ok((graphs, reader.state().clone()))
}

#[cfg(test)]
mod tests;
