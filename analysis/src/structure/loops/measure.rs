//! The second pass over the calls of a trace, which counts iterations of the known loops.
//!
//! Each thread keeps its current loops, and the iteration of each. It keeps sums, and temporal labels of iterations, but
//! no data that grows with the number of calls. Used by `loops`.

use belljar_trace::Event;

use super::nesting::Nesting;
use crate::structure::flow::collect::Cycles;
use crate::structure::flow::label::Labels;

/// The iterations of the surrounding loop in which a part runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Occurrence {
    /// The last entry of the loop in which it ran, from 1.
    entry: u64,
    /// The last iteration of all in which it ran, from 1.
    latest: u64,
    /// Number of entries in which it ran.
    pub(super) entries: u64,
    /// Number of times.
    pub(super) visits: u64,
    current: Labels,
    first: Option<Labels>,
    /// True if its iterations in some entry differed from those in the first.
    pub(super) differs: bool,
    /// Labels over all entries.
    pub(super) all: Labels,
}

impl Occurrence {
    /// Adds `count` more visits like the latest, one in each further iteration, or all in the same.
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

    /// Ends the entry of the loop.
    fn close(&mut self) {
        let current = std::mem::take(&mut self.current);
        match &self.first {
            _ if self.entry == 0 => {}
            None => self.first = Some(current),
            Some(first) => self.differs |= *first != current,
        }
    }

    /// Returns the iterations of the first entry.
    pub(super) fn first(&self) -> Option<&Labels> {
        self.first.as_ref()
    }
}

/// A time at which a thread enters or leaves a loop, and its sums until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// The time, in cycles.
    pub(super) at: u64,
    pub(super) calls: u64,
    /// Time in MPI, in cycles.
    pub(super) mpi: u64,
}

/// The sums of one thread in a loop.
#[derive(Clone, Debug, Default)]
pub(super) struct LoopSum {
    pub(super) entries: u64,
    /// Iterations of each entry.
    pub(super) iterations: Cycles,
    /// Iterations of all entries.
    pub(super) total: u64,
    /// Time from each entry's first call to its last one's return, in cycles.
    pub(super) time: Cycles,
    pub(super) calls: u64,
    /// Time in MPI, in cycles.
    pub(super) mpi: u64,
    /// The first entry.
    pub(super) entered: Option<Mark>,
    /// The last exit.
    pub(super) left: Option<Mark>,
    /// The iterations of the surrounding loop in which it is entered.
    pub(super) occurrence: Occurrence,
}

/// A loop that a thread is currently in.
#[derive(Clone, Copy, Debug)]
struct Active {
    number: usize,
    entry: u64,
    iteration: u64,
    entered: u64,
}

/// A thread's walk through its calls.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub(super) class: usize,
    pub(super) at: u32,
    active: Vec<Active>,
    left: u64,
    pub(super) calls: u64,
    /// Time in MPI, in cycles.
    pub(super) mpi: u64,
    pub(super) loops: Vec<LoopSum>,
    pub(super) nodes: Vec<Occurrence>,
}

impl Walk {
    pub(super) fn new(class: usize, nesting: &Nesting) -> Self {
        Self {
            class,
            at: crate::structure::flow::START,
            active: Vec::new(),
            left: 0,
            calls: 0,
            mpi: 0,
            loops: vec![LoopSum::default(); nesting.loops.len()],
            nodes: vec![Occurrence::default(); nesting.chains.len()],
        }
    }

    /// Returns the loops around the last call, from the outermost on.
    pub(super) fn within(&self) -> Vec<usize> {
        self.active.iter().map(|active| active.number).collect()
    }

    /// Adds a call of a node.
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

    /// Adds `count` more calls of the latest node.
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

    /// Ends the input.
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
