//! Collection of event flow graphs, call by call.
//!
//! Each thread that calls MPI has a graph, in the process's own numbers. Memory grows with the kinds of calls and the
//! pairs of them that follow one another, not with the number of calls. A call is first searched for among the successors
//! of the call before, where nearly all are found. Used by `flow`, and by `loops` in both of its passes.

use std::collections::BTreeMap;

use belljar_trace::Event;

use super::label::Labels;
use super::signature::{Detail, Signature};
use super::{END, START};

/// A thread of a process: its node, the process's number there, and its own number.
pub(crate) type ThreadKey = (u32, u32, u32);

/// Number of a node's successors that are compared with a call before it is looked up.
const TRIED: usize = 4;

/// Minimum, maximum and sum of times, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cycles {
    pub(crate) count: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) total: u64,
}

impl Default for Cycles {
    fn default() -> Self {
        Self {
            count: 0,
            min: u64::MAX,
            max: 0,
            total: 0,
        }
    }
}

impl Cycles {
    /// Adds a time.
    pub(crate) fn add(&mut self, cycles: u64) {
        self.count += 1;
        self.min = self.min.min(cycles);
        self.max = self.max.max(cycles);
        self.total = self.total.saturating_add(cycles);
    }

    /// Adds `count` times with the sum `total`, all within `extremes`.
    pub(crate) fn add_several(&mut self, count: u64, total: u64, extremes: (u64, u64)) {
        self.count = self.count.saturating_add(count);
        self.min = self.min.min(extremes.0);
        self.max = self.max.max(extremes.1);
        self.total = self.total.saturating_add(total);
    }
}

/// A kind of call of a thread.
#[derive(Clone, Debug)]
pub(crate) struct FlowGraphNode {
    /// `None` for the beginning and the end.
    pub(crate) signature: Option<Signature>,
    pub(crate) visits: u64,
    pub(crate) time: Cycles,
    /// The thread's calls at which it is visited.
    pub(crate) labels: Labels,
    /// Outgoing edges; once the graph is complete, in descending order of their counts.
    out: Vec<u32>,
}

/// A transition from one kind of call to another.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) count: u64,
    pub(crate) between: Cycles,
    /// The visits of `from` at which it was taken.
    pub(crate) labels: Labels,
}

/// The event flow graph of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) rank: u32,
    /// The entry of its first call, in cycles.
    pub(crate) first: u64,
    /// The exit of its last call, in cycles.
    pub(crate) last: u64,
    pub(crate) calls: u64,
    /// The beginning, the end, and then kinds of calls in the order of their first appearance.
    pub(crate) nodes: Vec<FlowGraphNode>,
    /// Once the graph is complete, in the order of nodes.
    pub(crate) edges: Vec<Edge>,
    index: BTreeMap<Signature, u32>,
    pairs: BTreeMap<(u32, u32), u32>,
    at: u32,
    left: Option<u64>,
}

impl Flow {
    fn new(event: &Event) -> Self {
        let mut own = Self {
            rank: event.rank,
            first: event.entry,
            last: event.entry,
            calls: 0,
            nodes: Vec::new(),
            edges: Vec::new(),
            index: BTreeMap::new(),
            pairs: BTreeMap::new(),
            at: START,
            left: None,
        };
        own.add_node(None);
        own.add_node(None);
        own.nodes[START as usize].visits = 1;
        own
    }

    fn add_node(&mut self, signature: Option<Signature>) -> u32 {
        self.nodes.push(FlowGraphNode {
            signature,
            visits: 0,
            time: Cycles::default(),
            labels: Labels::default(),
            out: Vec::new(),
        });
        self.nodes.len() as u32 - 1
    }

    /// Returns the node of a call that comes after one at `from`, and the edge to it if that was among the first tried.
    pub(crate) fn find(
        &self,
        from: u32,
        event: &Event,
        detail: Detail,
    ) -> (Option<u32>, Option<u32>) {
        for edge in self.nodes[from as usize].out.iter().take(TRIED) {
            let to = self.edges[*edge as usize].to;
            let signature = self.nodes[to as usize].signature.as_ref();
            if signature.is_some_and(|signature| signature.is_of(event, detail)) {
                return (Some(to), Some(*edge));
            }
        }
        let signature = Signature::of(event, detail);
        (self.index.get(&signature).copied(), None)
    }

    fn observe(&mut self, event: &Event, detail: Detail) {
        let from = self.at;
        let (node, edge) = self.find(from, event, detail);
        let node = node.unwrap_or_else(|| {
            let signature = Signature::of(event, detail);
            let node = self.add_node(Some(signature.clone()));
            self.index.insert(signature, node);
            node
        });
        let edge = edge.unwrap_or_else(|| self.edge(from, node));
        let between = self.left.map(|left| event.entry.saturating_sub(left));
        self.take(edge, between);
        let to = &mut self.nodes[node as usize];
        to.visits = to.visits.saturating_add(1);
        to.labels
            .push_run(self.calls.saturating_add(1), event.calls());
        self.calls = self.calls.saturating_add(event.calls());
        if let (Some(cycles), Some(extremes)) = (event.duration(), event.durations()) {
            to.time.add_several(event.calls(), cycles, extremes);
        }
        if event.calls() > 1 {
            self.repeat(node, event.calls() - 1, event.outside());
        }
        self.at = node;
        self.left = event.exit;
        self.last = self.last.max(event.exit.unwrap_or(event.entry));
    }

    fn edge(&mut self, from: u32, to: u32) -> u32 {
        let next = self.edges.len() as u32;
        let edge = *self.pairs.entry((from, to)).or_insert(next);
        if edge == next {
            self.nodes[from as usize].out.push(edge);
            self.edges.push(Edge {
                from,
                to,
                count: 0,
                between: Cycles::default(),
                labels: Labels::default(),
            });
        }
        edge
    }

    /// Adds `count` more calls of the latest node, with `between` cycles between them in total.
    fn repeat(&mut self, node: u32, count: u64, between: u64) {
        let edge = self.edge(node, node);
        let visits = &mut self.nodes[node as usize].visits;
        let edge = &mut self.edges[edge as usize];
        edge.labels.push_run(*visits, count);
        edge.count = edge.count.saturating_add(count);
        *visits = visits.saturating_add(count);
        // The individual times are unknown.
        let mean = between / count;
        edge.between.add_several(count, between, (mean, mean));
    }

    fn take(&mut self, edge: u32, between: Option<u64>) {
        let edge = &mut self.edges[edge as usize];
        edge.count = edge.count.saturating_add(1);
        edge.labels.push(self.nodes[edge.from as usize].visits);
        if let Some(between) = between {
            edge.between.add(between);
        }
    }

    /// Ends the input: adds the end to the graph, and sorts its edges.
    fn finish(&mut self) {
        let last = self.edge(self.at, END);
        self.take(last, None);
        self.nodes[END as usize].visits = 1;
        self.pairs = BTreeMap::new();
        self.edges.sort_by_key(|edge| (edge.from, edge.to));
        for node in &mut self.nodes {
            node.out.clear();
        }
        for (index, edge) in self.edges.iter().enumerate() {
            self.nodes[edge.from as usize].out.push(index as u32);
        }
        for node in &mut self.nodes {
            let edges = &self.edges;
            node.out
                .sort_by_key(|edge| std::cmp::Reverse(edges[*edge as usize].count));
        }
    }
}

/// Collects data of all threads.
#[derive(Clone, Debug)]
pub(crate) struct Threads<T> {
    index: BTreeMap<ThreadKey, usize>,
    /// In the order of their first calls.
    pub(crate) all: Vec<(ThreadKey, T)>,
    latest: Option<(ThreadKey, usize)>,
}

impl<T> Default for Threads<T> {
    fn default() -> Self {
        Self {
            index: BTreeMap::new(),
            all: Vec::new(),
            latest: None,
        }
    }
}

impl<T> Threads<T> {
    /// Returns the number of the thread of a call. A trace has a node's calls consecutively, so it is mostly the thread of
    /// the call before.
    pub(crate) fn of(&mut self, event: &Event, new: impl FnOnce() -> T) -> usize {
        let key = (event.node, event.process, event.thread);
        if let Some((latest, number)) = self.latest
            && latest == key
        {
            return number;
        }
        let next = self.all.len();
        let number = *self.index.entry(key).or_insert(next);
        if number == next {
            self.all.push((key, new()));
        }
        self.latest = Some((key, number));
        number
    }

    /// Returns the number of a known thread.
    pub(crate) fn find(&mut self, event: &Event) -> Option<usize> {
        let key = (event.node, event.process, event.thread);
        if let Some((latest, number)) = self.latest
            && latest == key
        {
            return Some(number);
        }
        let number = *self.index.get(&key)?;
        self.latest = Some((key, number));
        Some(number)
    }
}

/// Collects event flow graphs from the calls of a trace, in its order.
#[derive(Clone, Debug)]
pub struct FlowCollector {
    pub(crate) detail: Detail,
    pub(crate) threads: Threads<Flow>,
}

impl FlowCollector {
    /// Creates an empty collector that distinguishes calls by this detail.
    pub fn new(detail: Detail) -> Self {
        Self {
            detail,
            threads: Threads::default(),
        }
    }

    /// Adds a call, if the program made it itself and it was selected.
    pub fn observe(&mut self, event: &Event) {
        if event.depth > 0 || !event.selected {
            return;
        }
        let number = self.threads.of(event, || Flow::new(event));
        self.threads.all[number].1.observe(event, self.detail);
    }

    /// Ends the input. The graphs' threads are sorted by node and process.
    pub(super) fn end(&mut self) {
        let threads = &mut self.threads;
        threads.all.sort_by_key(|(key, _)| *key);
        threads.latest = None;
        for (number, (key, flow)) in threads.all.iter_mut().enumerate() {
            threads.index.insert(*key, number);
            flow.finish();
        }
    }
}
