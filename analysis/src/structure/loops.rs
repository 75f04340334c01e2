//! The loops of a program, found in its calls: nesting, iterations and times.
//!
//! Loops are taken from the event flow graph ([`crate::structure::flow`]) of each class of threads. A second pass over the trace counts their iterations,
//! entry by entry, so that counts are exact. The program is shown as a tree of loops and sequences; parts that run only in some iterations
//! list those iterations. After X. Aguilar, K. Fürlinger and E. Laure, "Automatic on-line detection of MPI application structure with event
//! flow graphs" (Euro-Par 2015). Calls that only query the library or the process, and move nothing, are left out unless wanted: programs make
//! them everywhere, which would merge everything into one loop. Used by `belljar trace loops`.

/// The loops around a call.
mod around;
/// Balance of computing between threads.
mod balance;
/// Counting of iterations.
mod measure;
/// Detection of loops.
mod nesting;
/// Phases: before, in and after the main loop.
mod phases;
/// As text and as JSON.
mod render;
/// Conversion of counts to the tree.
mod tree;

use std::path::Path;

use belljar_job::{Collector, Communicators};
use belljar_trace::{Event, TraceError, TraceHeader, TraceState};
use serde::Serialize;

use crate::counted::TimesMode;
use crate::dump::Filter;
use crate::structure::flow::{Detail, FlowCollector, FlowThread, Flows, Label, PerThread, Spread};
use crate::structure::phases::Phases;
pub(crate) use around::found;
pub use balance::LoopBalance;
use measure::Walk;
use nesting::Nesting;

/// The loops of a trace. Times are virtual, in picoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopStructure {
    /// The detail by which calls are distinguished.
    pub by: Detail,
    /// True if no times were read, so that all are 0, and the main loop is the loop with most calls.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// Threads that called MPI.
    pub threads: u64,
    /// The number of their calls.
    pub calls: u64,
    /// Additional calls that are queries, and were left out.
    pub left_out: u64,
    /// By class of threads with equal graphs, in the order of their first threads.
    pub classes: Vec<ClassLoops>,
    /// Balance of computing between threads in each loop, over all classes.
    pub balance: Vec<LoopBalance>,
}

/// The loops of a class of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassLoops {
    /// The name of its threads.
    pub name: String,
    /// Its threads.
    pub threads: Vec<FlowThread>,
    /// Calls of all threads.
    pub calls: u64,
    /// Time from first calls to last returns, of all threads.
    pub time_ps: u64,
    /// Time in MPI, of all threads.
    pub in_mpi_ps: u64,
    /// Loops that are in no other loop.
    pub outermost_loops: u64,
    /// Time in outermost loops.
    pub outermost_ps: u64,
    /// Before, in and after the main loop, which is the outermost loop with most time; empty without loops.
    pub phases: Vec<Phase>,
    /// The parts of the program, in order.
    pub body: Vec<ProgramPart>,
}

/// A phase of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Its name: before, main loop, after.
    pub phase: &'static str,
    /// Calls of all threads.
    pub calls: u64,
    /// Time of all threads.
    pub time_ps: u64,
    /// Time in MPI, of all threads.
    pub in_mpi_ps: u64,
}

/// A part of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ProgramPart {
    /// Consecutive calls.
    Sequence(Sequence),
    /// A loop.
    Loop(LoopPart),
}

/// Consecutive calls, in the same iterations of the loop around them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sequence {
    /// The iterations.
    pub when: When,
    /// The calls.
    pub calls: Vec<SequenceCall>,
}

/// A kind of call of a sequence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SequenceCall {
    /// The function.
    pub function: &'static str,
    /// The call as text.
    pub text: String,
    /// The number of calls.
    pub visits: PerThread,
    /// Time in each call.
    pub in_mpi: Spread,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopPart {
    /// The iterations of the loop around it.
    pub when: When,
    /// The call with which its iterations begin.
    pub header: String,
    /// The function of its header.
    pub function: &'static str,
    /// True if it is also entered elsewhere: then its iterations are counted from there on.
    pub irreducible: bool,
    /// The number of entries.
    pub entries: PerThread,
    /// Iterations of each entry.
    pub iterations: Iterations,
    /// Time from each entry's first call to its last one's return.
    pub time: Spread,
    /// Calls of all threads.
    pub calls: u64,
    /// Time in MPI, of all threads.
    pub in_mpi_ps: u64,
    /// The computing time of each thread in it, outside MPI.
    #[serde(skip)]
    pub computing: Vec<(FlowThread, u64)>,
    /// The parts of each iteration.
    pub body: Vec<ProgramPart>,
}

/// The number of iterations for each entry of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Iterations {
    /// Minimum.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub max: u64,
    /// Total of all entries and threads.
    pub total: u64,
}

/// The iterations of the surrounding loop in which a part runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "in", rename_all = "kebab-case")]
pub enum When {
    /// All iterations.
    Always,
    /// The same iterations at each entry of the loop.
    Iterations {
        /// The iterations, counted from 1 at each entry.
        labels: Vec<Label>,
        /// The number of iterations, if it is the same at each entry.
        of: Option<u64>,
    },
    /// These iterations, counted across entries of the loop.
    Overall {
        /// The iterations.
        labels: Vec<Label>,
        /// The number of iterations.
        of: u64,
    },
    /// Some iterations, which labels cannot describe or which differ between threads.
    Some {
        /// The number of times, in all threads.
        times: u64,
        /// The number of iterations.
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
    /// Creates an empty finder. Calls are distinguished by `detail`; queries count if `all`.
    pub fn new(detail: Detail, all: bool) -> Self {
        Self {
            flows: FlowCollector::new(detail),
            all,
            left_out: 0,
        }
    }

    /// Adds a call, if the program made it itself and it was selected.
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

    /// Starts the second pass. It must see the same calls in the same order.
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
    /// Adds a call.
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

    /// Returns the loops of a trace with this header and these communicators.
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

/// True if a call is only a query.
fn asks(event: &Event) -> bool {
    let moves = [
        event.transfers.len(),
        event.collectives.len(),
        event.started.len(),
        event.completed.len(),
    ];
    moves == [0; 4] && event.meaning().asks
}

/// Finds the loops in the selected calls of the trace at `path`, and returns whether it is complete. The trace is read twice, its times only
/// if wanted.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn loops(
    path: &Path,
    filter: &Filter,
    detail: Detail,
    all: bool,
    times: TimesMode,
) -> Result<(LoopStructure, TraceState), TraceError> {
    let measured = measured(path, filter, detail, all, times)?;
    let (header, communicators) = (&measured.header, &measured.communicators);
    Ok((
        measured.measure.finish(header, communicators),
        measured.state,
    ))
}

/// A trace whose loops are counted.
struct MeasuredTrace {
    header: TraceHeader,
    communicators: Communicators,
    measure: LoopMeasure,
    state: TraceState,
}

fn measured(
    path: &Path,
    filter: &Filter,
    detail: Detail,
    all: bool,
    times: TimesMode,
) -> Result<MeasuredTrace, TraceError> {
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
    measure.untimed = times == TimesMode::Unread;
    let mut reader = times.open(path)?;
    for event in reader.by_ref().filter(|event| filter.wants(event, &header)) {
        measure.observe(&times.seen(event));
    }
    Ok(MeasuredTrace {
        header,
        communicators,
        measure,
        state: reader.state().clone(),
    })
}

/// Finds the phases of each thread in the trace at `path`. The trace is read twice.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn phases(path: &Path) -> Result<Phases, TraceError> {
    let everything = Filter::default();
    let wanted = (Detail::default(), false);
    let measured = measured(path, &everything, wanted.0, wanted.1, TimesMode::Read)?;
    let (header, communicators) = (&measured.header, &measured.communicators);
    Ok(measured.measure.phases(header, communicators))
}

#[cfg(test)]
mod tests;
