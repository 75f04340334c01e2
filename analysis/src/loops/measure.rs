//! Goes through the calls of a trace a second time, with the loops known, and counts iterations.
//!
//! Each thread has the loops that it is in, and the iteration of each. What it keeps are sums, and temporal labels of what
//! happens in which iterations: nothing that grows with calls. Called by `loops`.

use belljar_trace::Event;

use super::nesting::Nesting;
use crate::flow::collect::Cycles;
use crate::flow::label::Labels;

/// In which iterations of the loop around it something happens.
#[derive(Clone, Debug, Default)]
pub(super) struct Occurrence {
    /// The last entry of the loop in which it happened, from 1.
    entry: u64,
    /// The last iteration of all in which it happened, from 1.
    latest: u64,
    /// Entries in which it happened.
    pub(super) entries: u64,
    /// How often.
    pub(super) visits: u64,
    current: Labels,
    first: Option<Labels>,
    /// Whether it was in other iterations of some entry than of the first one.
    pub(super) differs: bool,
    /// Over all entries.
    pub(super) all: Labels,
}

impl Occurrence {
    /// So many more visits like the last one, in as many more iterations, or all in the same.
    fn repeat(&mut self, around: &Active, total: u64, count: u64) {
        self.visits = self.visits.saturating_add(count);
        if total > self.latest {
            self.latest = total;
            let before = |number: u64| number.saturating_sub(count).saturating_add(1);
            self.current.push_run(before(around.iteration), count);
            self.all.push_run(before(total), count);
        }
    }

    fn visit(&mut self, around: &Active, total: u64) {
        self.visits = self.visits.saturating_add(1);
        if self.entry != around.entry {
            self.close();
            self.entry = around.entry;
            self.entries = self.entries.saturating_add(1);
        }
        if total > self.latest {
            self.latest = total;
            self.current.push(around.iteration);
            self.all.push(total);
        }
    }

    /// The entry of the loop is over.
    fn close(&mut self) {
        let current = std::mem::take(&mut self.current);
        match &self.first {
            _ if self.entry == 0 => {}
            None => self.first = Some(current),
            Some(first) => self.differs |= *first != current,
        }
    }

    /// The iterations of the first entry.
    pub(super) fn first(&self) -> Option<&Labels> {
        self.first.as_ref()
    }
}

/// A time at which a thread enters or leaves a loop, and what it did until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// In cycles.
    pub(super) at: u64,
    pub(super) calls: u64,
    /// In MPI, in cycles.
    pub(super) mpi: u64,
}

/// What one thread spent in a loop.
#[derive(Clone, Debug, Default)]
pub(super) struct LoopSum {
    pub(super) entries: u64,
    /// Iterations of each entry.
    pub(super) iterations: Cycles,
    /// Iterations of all entries.
    pub(super) total: u64,
    /// From each entry's first call to its last one's return, in cycles.
    pub(super) time: Cycles,
    pub(super) calls: u64,
    /// In MPI, in cycles.
    pub(super) mpi: u64,
    /// When it was entered first.
    pub(super) entered: Option<Mark>,
    /// When it was left last.
    pub(super) left: Option<Mark>,
    /// In which iterations of the loop around it it is entered.
    pub(super) occurrence: Occurrence,
}

/// A loop that a thread is in.
#[derive(Clone, Copy, Debug)]
struct Active {
    number: usize,
    entry: u64,
    iteration: u64,
    entered: u64,
}

/// A thread on its way through its calls.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub(super) class: usize,
    pub(super) at: u32,
    active: Vec<Active>,
    left: u64,
    pub(super) calls: u64,
    /// In MPI, in cycles.
    pub(super) mpi: u64,
    pub(super) loops: Vec<LoopSum>,
    pub(super) nodes: Vec<Occurrence>,
}

impl Walk {
    pub(super) fn new(class: usize, nesting: &Nesting) -> Self {
        Self {
            class,
            at: crate::flow::START,
            active: Vec::new(),
            left: 0,
            calls: 0,
            mpi: 0,
            loops: vec![LoopSum::default(); nesting.loops.len()],
            nodes: vec![Occurrence::default(); nesting.chains.len()],
        }
    }

    /// The loops around the last call, from the outermost on.
    pub(super) fn within(&self) -> Vec<usize> {
        self.active.iter().map(|active| active.number).collect()
    }

    /// A call of a node.
    pub(super) fn observe(&mut self, event: &Event, node: u32, nesting: &Nesting) {
        let chain = &nesting.chains[node as usize];
        let pairs = self.active.iter().zip(chain);
        let kept = pairs
            .take_while(|(active, number)| active.number == **number)
            .count();
        while self.active.len() > kept {
            self.leave();
        }
        if let Some(innermost) = self.active.last_mut()
            && nesting.loops[innermost.number].header == node
        {
            innermost.iteration += 1;
            let total = &mut self.loops[innermost.number].total;
            *total = total.saturating_add(1);
        }
        for number in &chain[kept..] {
            self.enter(*number, event.entry);
        }
        if let Some(around) = self.active.last() {
            self.nodes[node as usize].visit(around, self.loops[around.number].total);
        }
        if event.calls() > 1 {
            self.repeat(node, event.calls() - 1, nesting);
        }
        let duration = event.duration().unwrap_or(0);
        for active in &self.active {
            let sum = &mut self.loops[active.number];
            sum.calls = sum.calls.saturating_add(event.calls());
            sum.mpi = sum.mpi.saturating_add(duration);
        }
        self.calls = self.calls.saturating_add(event.calls());
        self.mpi = self.mpi.saturating_add(duration);
        self.at = node;
        self.left = self.left.max(event.exit.unwrap_or(event.entry));
    }

    /// So many more calls of the node of the last one.
    fn repeat(&mut self, node: u32, count: u64, nesting: &Nesting) {
        let Some(innermost) = self.active.last_mut() else {
            return;
        };
        let sum = &mut self.loops[innermost.number];
        if nesting.loops[innermost.number].header == node {
            innermost.iteration = innermost.iteration.saturating_add(count);
            sum.total = sum.total.saturating_add(count);
        }
        self.nodes[node as usize].repeat(innermost, sum.total, count);
    }

    fn enter(&mut self, number: usize, at: u64) {
        if let Some(around) = self.active.last() {
            let total = self.loops[around.number].total;
            self.loops[number].occurrence.visit(around, total);
        }
        let sum = &mut self.loops[number];
        sum.entries = sum.entries.saturating_add(1);
        sum.total = sum.total.saturating_add(1);
        sum.entered.get_or_insert(Mark {
            at,
            calls: self.calls,
            mpi: self.mpi,
        });
        self.active.push(Active {
            number,
            entry: sum.entries,
            iteration: 1,
            entered: at,
        });
    }

    fn leave(&mut self) {
        if let Some(active) = self.active.pop() {
            let sum = &mut self.loops[active.number];
            sum.iterations.add(active.iteration);
            sum.time.add(self.left.saturating_sub(active.entered));
            sum.left = Some(Mark {
                at: self.left,
                calls: self.calls,
                mpi: self.mpi,
            });
        }
    }

    /// No call follows.
    pub(super) fn finish(&mut self) {
        while !self.active.is_empty() {
            self.leave();
        }
        for sum in &mut self.loops {
            sum.occurrence.close();
        }
        for node in &mut self.nodes {
            node.close();
        }
    }
}
