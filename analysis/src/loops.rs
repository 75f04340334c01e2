//! The loops of a program, by its calls: how they nest, how often they are gone through, and what they take.
//!
//! Loops are those of the event flow graph ([`crate::flow`]) of each class of threads; a second pass over the trace counts their
//! iterations, entry by entry, so that counts are exact. The program is told as a tree of loops and sequences; what happens in some
//! iterations alone says in which. After X. Aguilar, K. Fürlinger and E. Laure, "Automatic on-line detection of MPI application structure with
//! event flow graphs" (Euro-Par 2015). Calls that ask the library or the process itself for something, and move nothing, are
//! left out unless wanted: programs make them everywhere, and what is everywhere makes everything one loop. Called by `belljar trace loops`.

/// The loops around a call.
mod around;
/// How evenly threads compute.
mod balance;
/// Counts iterations.
mod measure;
/// Finds loops.
mod nesting;
/// Before, in and after the main loop.
mod phases;
/// As text and as JSON.
mod render;
/// From counts to the tree.
mod tree;

use std::path::Path;

use belljar_job::{Collector, Communicators};
use belljar_trace::{Event, TraceError, TraceHeader, TraceState};
use serde::Serialize;

use crate::counted::Times;
use crate::dump::Filter;
use crate::flow::{Detail, FlowCollector, FlowThread, Flows, Label, PerThread, Spread};
use crate::phases::Phases;
pub(crate) use around::found;
pub use balance::LoopBalance;
use measure::Walk;
use nesting::Nesting;

/// The loops of a trace. Times are virtual, in picoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopStructure {
    /// How much of a call makes it another one.
    pub by: Detail,
    /// Whether no times were read: all are 0 then, and the main loop is the one with most calls.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// Threads that called MPI.
    pub threads: u64,
    /// Their calls.
    pub calls: u64,
    /// Calls besides these that only ask, and were left out.
    pub left_out: u64,
    /// By class of threads with equal graphs, in the order of their first threads.
    pub classes: Vec<ClassLoops>,
    /// How evenly threads compute in each loop, of all classes together.
    pub balance: Vec<LoopBalance>,
}

/// The loops of a class of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassLoops {
    /// Whose they are, in words.
    pub name: String,
    /// Whose they are.
    pub threads: Vec<FlowThread>,
    /// Calls of all threads.
    pub calls: u64,
    /// From first calls to last returns, of all threads.
    pub time_ps: u64,
    /// In MPI, of all threads.
    pub in_mpi_ps: u64,
    /// Loops that are in no other.
    pub outermost_loops: u64,
    /// Time in these.
    pub outermost_ps: u64,
    /// Before, in and after the main loop, which is the outermost loop with most time; empty without loops.
    pub phases: Vec<Phase>,
    /// What is called, in order.
    pub body: Vec<Part>,
}

/// A phase of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Before, main loop, after.
    pub phase: &'static str,
    /// Calls of all threads.
    pub calls: u64,
    /// Time of all threads.
    pub time_ps: u64,
    /// In MPI, of all threads.
    pub in_mpi_ps: u64,
}

/// A part of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Part {
    /// Calls in a row.
    Sequence(Sequence),
    /// What is repeated.
    Loop(LoopPart),
}

/// Calls in a row, in the same iterations of the loop around them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sequence {
    /// In which.
    pub when: When,
    /// The calls.
    pub calls: Vec<SequenceCall>,
}

/// A kind of call of a sequence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SequenceCall {
    /// The function.
    pub function: &'static str,
    /// The call for people.
    pub text: String,
    /// How often it was called.
    pub visits: PerThread,
    /// Time in each.
    pub in_mpi: Spread,
}

/// What is repeated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopPart {
    /// In which iterations of the loop around it.
    pub when: When,
    /// The call with which its iterations begin.
    pub header: String,
    /// The function of that call.
    pub function: &'static str,
    /// Whether it is entered elsewhere, too: then its iterations are counted from there on.
    pub irreducible: bool,
    /// How often it is entered.
    pub entries: PerThread,
    /// Iterations of each entry.
    pub iterations: Iterations,
    /// From each entry's first call to its last one's return.
    pub time: Spread,
    /// Calls of all threads.
    pub calls: u64,
    /// In MPI, of all threads.
    pub in_mpi_ps: u64,
    /// What each thread computes in it, outside MPI.
    #[serde(skip)]
    pub computing: Vec<(FlowThread, u64)>,
    /// What each iteration does.
    pub body: Vec<Part>,
}

/// How often a loop is gone through when it is entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Iterations {
    /// Least.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Most.
    pub max: u64,
    /// Of all entries and threads.
    pub total: u64,
}

/// In which iterations of the loop around it something happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "in", rename_all = "kebab-case")]
pub enum When {
    /// In all of them.
    Always,
    /// In these, each time that the loop is entered.
    Iterations {
        /// Which, counted from 1 each time.
        labels: Vec<Label>,
        /// Of how many, where it is the same number each time.
        of: Option<u64>,
    },
    /// In these, if iterations are counted on from one entry of the loop to the next.
    Overall {
        /// Which.
        labels: Vec<Label>,
        /// Of how many.
        of: u64,
    },
    /// In some, of which no label tells, or that differ from thread to thread.
    Some {
        /// So often, in all threads.
        times: u64,
        /// Of so many iterations.
        of: u64,
    },
}

/// The first pass over a trace.
#[derive(Clone, Debug)]
pub struct LoopFinder {
    flows: FlowCollector,
    all: bool,
    left_out: u64,
}

impl LoopFinder {
    /// Nothing found yet. Calls are told apart by so much; those that only ask count if `all` do.
    pub fn new(detail: Detail, all: bool) -> Self {
        Self {
            flows: FlowCollector::new(detail),
            all,
            left_out: 0,
        }
    }

    /// Takes a call into account, if the program made it itself and it was selected.
    pub fn observe(&mut self, event: &Event) {
        if event.depth > 0 || !event.selected {
            return;
        }
        if self.all || !asks(event) {
            self.flows.observe(event);
        } else {
            self.left_out = self.left_out.saturating_add(event.calls());
        }
    }

    /// The second pass. It has to see the same calls in the same order.
    pub fn measure(self, communicators: &Communicators) -> LoopMeasure {
        let flows = Flows::new(self.flows, communicators);
        let nestings = flows
            .classes
            .iter()
            .map(|class| Nesting::of(&flows.threads()[class.threads[0]].1));
        let nestings: Vec<Nesting> = nestings.collect();
        let mut walks = vec![None; flows.threads().len()];
        for (number, class) in flows.classes.iter().enumerate() {
            for thread in &class.threads {
                walks[*thread] = Some(Walk::new(number, &nestings[number]));
            }
        }
        LoopMeasure {
            flows,
            nestings,
            walks: walks.into_iter().flatten().collect(),
            all: self.all,
            left_out: self.left_out,
            untimed: false,
        }
    }
}

/// The second pass over a trace.
#[derive(Clone, Debug)]
pub struct LoopMeasure {
    flows: Flows,
    /// By class.
    nestings: Vec<Nesting>,
    /// By thread.
    walks: Vec<Walk>,
    untimed: bool,
    all: bool,
    left_out: u64,
}

impl LoopMeasure {
    /// Takes a call into account.
    pub fn observe(&mut self, event: &Event) {
        if event.depth > 0 || !event.selected || !self.all && asks(event) {
            return;
        }
        let Some(thread) = self.flows.collector.threads.find(event) else {
            return;
        };
        let walk = &mut self.walks[thread];
        let flow = &self.flows.collector.threads.all[thread].1;
        if let (Some(node), _) = flow.find(walk.at, event, self.flows.collector.detail) {
            walk.observe(event, node, &self.nestings[walk.class]);
        }
    }

    /// The loops of a trace with this header and these communicators.
    pub fn finish(mut self, header: &TraceHeader, communicators: &Communicators) -> LoopStructure {
        for walk in &mut self.walks {
            walk.finish();
        }
        let classes = 0..self.flows.classes.len();
        let classes: Vec<ClassLoops> = classes
            .map(|class| tree::class(&self, class, header, communicators))
            .collect();
        LoopStructure {
            by: self.flows.collector.detail,
            threads: self.walks.len() as u64,
            calls: self.walks.iter().map(|walk| walk.calls).sum(),
            left_out: self.left_out,
            balance: match self.untimed {
                true => Vec::new(),
                false => balance::of(&classes),
            },
            untimed: self.untimed,
            classes,
        }
    }
}

/// Whether a call only asks.
fn asks(event: &Event) -> bool {
    let moves = [
        event.transfers.len(),
        event.collectives.len(),
        event.started.len(),
        event.completed.len(),
    ];
    moves == [0; 4] && event.meaning().asks
}

/// The loops in the wanted calls of the trace at `path`, and whether it is complete. The trace is read twice, its times where they are wanted.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
pub fn loops(
    path: &Path,
    filter: &Filter,
    detail: Detail,
    all: bool,
    times: Times,
) -> Result<(LoopStructure, TraceState), TraceError> {
    let measured = measured(path, filter, (detail, all), times)?;
    let (header, communicators) = (&measured.header, &measured.communicators);
    Ok((
        measured.measure.finish(header, communicators),
        measured.state,
    ))
}

/// A trace whose loops are counted.
struct Measured {
    header: TraceHeader,
    communicators: Communicators,
    measure: LoopMeasure,
    state: TraceState,
}

fn measured(
    path: &Path,
    filter: &Filter,
    (detail, all): (Detail, bool),
    times: Times,
) -> Result<Measured, TraceError> {
    let mut reader = times.open(path)?;
    let header = reader.header().clone();
    let mut communicators = Collector::new();
    let mut finder = LoopFinder::new(detail, all);
    for event in reader.by_ref().map(|event| times.seen(event)) {
        communicators.observe(&event, &header);
        if filter.wants(&event, &header) {
            finder.observe(&event);
        }
    }
    let communicators = times.resolve(communicators, path)?;
    let mut measure = finder.measure(&communicators);
    measure.untimed = times == Times::Unread;
    let mut reader = times.open(path)?;
    for event in reader.by_ref().filter(|event| filter.wants(event, &header)) {
        measure.observe(&times.seen(event));
    }
    Ok(Measured {
        header,
        communicators,
        measure,
        state: reader.state().clone(),
    })
}

/// When each thread of the trace at `path` is in which phase of its program. The trace is read twice.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
pub fn phases(path: &Path) -> Result<Phases, TraceError> {
    let everything = Filter::default();
    let wanted = (Detail::default(), false);
    let measured = measured(path, &everything, wanted, Times::Read)?;
    let (header, communicators) = (&measured.header, &measured.communicators);
    Ok(measured.measure.phases(header, communicators))
}

#[cfg(test)]
mod tests;
