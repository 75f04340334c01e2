//! Creation of graphs of ranks, of classes, or of all threads from collected data.
//!
//! Cycles are converted to picoseconds by each thread's clock rate before threads are merged. In the graph of all, nodes
//! are the same if they have the same text. Used by `flow`.

use std::collections::BTreeMap;

use belljar_job::Communicators;
use belljar_sim::Frequency;
use belljar_trace::TraceHeader;

use super::collect::Cycles;
use super::label::Labels;
use super::{
    Class, END, FlowCall, FlowEdge, FlowGraph, FlowGraphs, FlowNode, FlowThread, Flows, GraphsOf,
    PerThread, START, Spread, Temporal, threads,
};

impl Spread {
    /// Adds cycles of a processor.
    pub(crate) fn add(&mut self, cycles: &Cycles, frequency: Frequency) {
        let ps = |cycles| frequency.time_of(cycles).as_ps();
        if cycles.count > 0 {
            self.with(&Self {
                count: cycles.count,
                min_ps: ps(cycles.min),
                mean_ps: 0,
                max_ps: ps(cycles.max),
                total_ps: ps(cycles.total),
            });
        }
    }

    /// Adds another spread.
    pub(crate) fn with(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ps = match self.count {
            0 => other.min_ps,
            _ => self.min_ps.min(other.min_ps),
        };
        self.max_ps = self.max_ps.max(other.max_ps);
        self.count = self.count.saturating_add(other.count);
        self.total_ps = self.total_ps.saturating_add(other.total_ps);
        self.mean_ps = self.total_ps / self.count;
    }
}

impl PerThread {
    /// Adds one thread's count.
    pub(crate) fn add(&mut self, count: u64) {
        self.min = match self.total {
            0 => count,
            _ => self.min.min(count),
        };
        self.max = self.max.max(count);
        self.total = self.total.saturating_add(count);
    }
}

impl Temporal {
    /// Creates it from a first thread.
    fn of(labels: &Labels) -> Self {
        match labels.list() {
            Some(list) => Self::Regular(list.to_vec()),
            None => Self::Irregular,
        }
    }

    /// Merges another thread's labels.
    fn with(&mut self, labels: &Labels) {
        let same = match (&*self, labels.list()) {
            (Self::Regular(own), Some(others)) => own == others,
            (Self::Irregular, None) => true,
            _ => false,
        };
        if !same {
            *self = Self::Differs;
        }
    }
}

/// A graph under construction.
#[derive(Default)]
struct GraphDraft {
    graph: FlowGraph,
    /// Nodes by their text, and by their index among a thread's nodes with this text.
    index: BTreeMap<(String, usize), u32>,
    edges: BTreeMap<(u32, u32), FlowEdge>,
}

impl GraphDraft {
    fn new() -> Self {
        let mut own = Self::default();
        own.graph.nodes = vec![FlowNode::default(); 2];
        for end in [START, END] {
            own.graph.nodes[end as usize].labels = Temporal::Regular(Vec::new());
        }
        own
    }

    /// Adds the threads of a class.
    fn add(&mut self, flows: &Flows, class: &Class, header: &TraceHeader) {
        let first = &flows.threads()[class.threads[0]].1;
        let mut same = BTreeMap::new();
        let mut number = |node: usize| match &first.nodes[node].signature {
            None => node as u32,
            Some(signature) => {
                let text = signature.words(&class.partners(node));
                let which = same.entry(text.clone()).or_insert(0);
                *which += 1;
                self.node(signature.function(), (text, *which))
            }
        };
        let nodes: Vec<u32> = (0..first.nodes.len()).map(&mut number).collect();
        for thread in &class.threads {
            let (key, flow) = &flows.threads()[*thread];
            let frequency = header.frequency(key.0);
            for (node, number) in flow.nodes.iter().zip(&nodes) {
                let own = &mut self.graph.nodes[*number as usize];
                if *number > END {
                    match own.visits.total {
                        0 => own.labels = Temporal::of(&node.labels),
                        _ => own.labels.with(&node.labels),
                    }
                }
                own.visits.add(node.visits);
                own.in_mpi.add(&node.time, frequency);
            }
            for edge in &flow.edges {
                let pair = (nodes[edge.from as usize], nodes[edge.to as usize]);
                match self.edges.get_mut(&pair) {
                    Some(own) => own.labels.with(&edge.labels),
                    None => self.start_edge(pair.0, pair.1, &edge.labels),
                }
                if let Some(own) = self.edges.get_mut(&pair) {
                    own.threads += 1;
                    own.count.add(edge.count);
                    own.between.add(&edge.between, frequency);
                }
            }
        }
    }

    fn start_edge(&mut self, from: u32, to: u32, labels: &Labels) {
        let edge = FlowEdge {
            from,
            to,
            threads: 0,
            count: PerThread::default(),
            between: Spread::default(),
            labels: Temporal::of(labels),
        };
        self.edges.insert((from, to), edge);
    }

    fn node(&mut self, function: &'static str, key: (String, usize)) -> u32 {
        let next = self.graph.nodes.len() as u32;
        let text = key.0.clone();
        let number = *self.index.entry(key).or_insert(next);
        if number == next {
            self.graph.nodes.push(FlowNode {
                calls: vec![FlowCall { function, text }],
                ..FlowNode::default()
            });
        }
        number
    }

    fn finish(
        self,
        threads: Vec<FlowThread>,
        communicators: &Communicators,
        folded: bool,
    ) -> FlowGraph {
        let mut graph = self.graph;
        graph.name = threads::words(&threads, communicators);
        graph.threads = threads;
        graph.edges = self.edges.into_values().collect();
        if folded { graph.folded() } else { graph }
    }
}

impl Flows {
    /// Returns threads by their numbers.
    pub(crate) fn members(
        &self,
        numbers: &[usize],
        communicators: &Communicators,
    ) -> Vec<FlowThread> {
        let members = numbers.iter().map(|number| {
            let (key, flow) = &self.threads()[*number];
            FlowThread::new(*key, flow.rank, communicators)
        });
        members.collect()
    }

    /// Returns the graphs.
    pub(crate) fn graphs(
        &self,
        header: &TraceHeader,
        communicators: &Communicators,
        of: GraphsOf,
        folded: bool,
    ) -> FlowGraphs {
        let graph = |classes: &[Class]| {
            let mut making = GraphDraft::new();
            let mut numbers = Vec::new();
            for class in classes {
                making.add(self, class, header);
                numbers.extend(&class.threads);
            }
            making.finish(self.members(&numbers, communicators), communicators, folded)
        };
        let threads = self.threads();
        let graphs = match of {
            GraphsOf::Classes => self.classes.chunks(1).map(graph).collect(),
            GraphsOf::Merged if threads.is_empty() => Vec::new(),
            GraphsOf::Merged => vec![graph(&self.classes)],
            GraphsOf::Ranks => {
                let own = threads.iter().enumerate();
                let own =
                    own.map(|(number, thread)| graph(&[Class::of(number, thread, communicators)]));
                own.collect()
            }
        };
        FlowGraphs {
            by: self.collector.detail,
            of,
            untimed: false,
            folded,
            threads: threads.len() as u64,
            calls: threads.iter().map(|(_, flow)| flow.calls).sum(),
            graphs,
        }
    }
}
