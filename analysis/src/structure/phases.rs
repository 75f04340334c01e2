//! Phases of a program: a call is before, in or after the main loop.
//!
//! The main loop is defined by `loops`: the outermost loop with most time. It is recorded by thread, as a stretch of time from its first entry
//! to its last end; a thread that never runs it is in the first phase throughout. Created by `loops`; used by filters and by every analysis
//! with results by phase.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use belljar_archive::TraceReader;
use belljar_trace::{Event, TraceError, TraceHeader};
use serde::Serialize;

/// A phase of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramPhase {
    /// The time until the main loop is first entered.
    Before,
    /// From then until it is left for the last time.
    MainLoop,
    /// From then on.
    After,
}

impl ProgramPhase {
    /// All phases, in order.
    pub const ALL: [Self; 3] = [Self::Before, Self::MainLoop, Self::After];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::MainLoop => "main loop",
            Self::After => "after",
        }
    }
}

/// The phases of each thread of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// By node, process and thread.
    threads: BTreeMap<(u32, u32, u32), ThreadPhases>,
}

/// The phases of a thread, in cycles of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadPhases {
    /// The entry of its first call.
    pub(crate) first: u64,
    /// The first entry of the main loop.
    pub(crate) entered: u64,
    /// The return of the last call in the main loop.
    pub(crate) left: u64,
    /// The return of its last call.
    pub(crate) last: u64,
}

impl Phases {
    /// Adds a thread.
    pub(crate) fn insert(&mut self, thread: (u32, u32, u32), stretch: ThreadPhases) {
        self.threads.insert(thread, stretch);
    }

    /// Returns the phase in which a call is entered.
    pub fn phase(&self, event: &Event) -> ProgramPhase {
        let thread = (event.node, event.process, event.thread);
        self.threads
            .get(&thread)
            .map_or(ProgramPhase::Before, |stretch| stretch.phase(event.entry))
    }

    /// Returns the phase of a process's first thread at a cycle.
    pub(crate) fn at(&self, node: u32, process: u32, cycles: u64) -> ProgramPhase {
        let threads = (node, process, 0)..=(node, process, u32::MAX);
        let first = self.threads.range(threads).next();
        first.map_or(ProgramPhase::Before, |(_, stretch)| stretch.phase(cycles))
    }

    /// Returns the main loop's entry and end in a process's first thread, in cycles.
    pub(crate) fn main_loop(&self, node: u32, process: u32) -> Option<(u64, u64)> {
        let threads = (node, process, 0)..=(node, process, u32::MAX);
        let (_, stretch) = self.threads.range(threads).next()?;
        Some((stretch.entered, stretch.left))
    }

    /// Returns the time in a phase for successive processes of a node, in cycles. They are ordered by their first calls.
    fn spans_of(&self, node: u32, order: &[(u64, u32)], wanted: ProgramPhase) -> Vec<(u64, u64)> {
        let mut spans = Vec::new();
        let mut begins = 0;
        for (index, (_, process)) in order.iter().enumerate() {
            let threads = (node, *process, 0)..=(node, *process, u32::MAX);
            let stretch = self.threads.range(threads).next().map(|(_, own)| *own);
            // A process ends before another one takes over its rank on its node.
            let next = order.get(index + 1);
            let ends = next.map_or(u64::MAX, |(first, _)| {
                stretch.map_or(*first, |own| own.last)
            });
            let looped = stretch.filter(|own| own.left > own.entered);
            let (entered, left) = looped.map_or((ends, ends), |own| (own.entered, own.left));
            let (from, to) = match wanted {
                ProgramPhase::Before => (begins, entered),
                ProgramPhase::MainLoop => (entered, left),
                ProgramPhase::After => (left, ends),
            };
            if from < to {
                spans.push((from, to));
            }
            begins = ends;
        }
        spans
    }

    /// Returns the duration of each phase, summed over all threads, in picoseconds.
    pub(crate) fn spans(&self, header: &TraceHeader) -> [u64; 3] {
        let mut spans = [0u64; 3];
        for ((node, ..), stretch) in &self.threads {
            let marks = [stretch.first, stretch.entered, stretch.left, stretch.last];
            let times = marks.map(|mark| header.frequency(*node).time_of(mark).as_ps());
            for (sum, pair) in spans.iter_mut().zip(times.windows(2)) {
                *sum = sum.saturating_add(pair[1].saturating_sub(pair[0]));
            }
        }
        spans
    }
}

/// Begins and ends of processes' time in a phase, in picoseconds, by node and rank.
pub type PhaseSpans = BTreeMap<(u32, u32), Vec<(u64, u64)>>;

/// Finds the time in a phase for the processes of the trace at `path`, as begins and ends in picoseconds, by node and rank. The time before a
/// process's first MPI call belongs to the first phase, the time after its last one to its last phase, unless another process follows.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn phase_spans(path: &Path, wanted: ProgramPhase) -> Result<PhaseSpans, TraceError> {
    let phases = crate::phases(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    // Processes by node and rank, and their numbers by their first calls.
    let mut processes = BTreeMap::<(u32, u32), BTreeMap<u32, u64>>::new();
    for event in reader.by_ref() {
        let those = processes.entry((event.node, event.rank)).or_default();
        let first = those.entry(event.process).or_insert(event.entry);
        *first = event.entry.min(*first);
    }
    let spans = processes.into_iter().map(|((node, rank), those)| {
        let time = |cycles: u64| match cycles {
            u64::MAX => u64::MAX,
            cycles => header.frequency(node).time_of(cycles).as_ps(),
        };
        let mut order: Vec<(u64, u32)> = those.into_iter().map(|(it, first)| (first, it)).collect();
        order.sort_unstable();
        let own = phases.spans_of(node, &order, wanted);
        let own = own.into_iter().map(|(from, to)| (time(from), time(to)));
        ((node, rank), own.collect())
    });
    Ok(spans.collect())
}

impl ThreadPhases {
    fn phase(&self, cycles: u64) -> ProgramPhase {
        match cycles {
            _ if cycles < self.entered => ProgramPhase::Before,
            _ if cycles < self.left => ProgramPhase::MainLoop,
            _ if self.left > self.entered => ProgramPhase::After,
            _ => ProgramPhase::Before,
        }
    }
}

/// Selection of calls of one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPhase {
    /// The phases of all threads.
    pub phases: Arc<Phases>,
    /// The phase.
    pub wanted: ProgramPhase,
}

impl InPhase {
    /// True if a call is in it.
    pub(crate) fn has(&self, event: &Event) -> bool {
        self.phases.phase(event) == self.wanted
    }

    /// True if a process is in it at a cycle.
    pub(crate) fn has_at(&self, process: (u32, u32), cycles: u64) -> bool {
        self.phases.at(process.0, process.1, cycles) == self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_processes_that_follow_each_other_are_apart() {
        let mut phases = Phases::default();
        let stretch = |first, entered, left, last| ThreadPhases {
            first,
            entered,
            left,
            last,
        };
        phases.insert((0, 4, 0), stretch(100, 120, 180, 200));
        phases.insert((0, 5, 0), stretch(500, 520, 580, 600));
        // A thread without a loop.
        phases.insert((0, 6, 0), stretch(800, 0, 0, 900));
        let spans = |wanted| phases.spans_of(0, &[(100, 4), (500, 5), (800, 6)], wanted);
        let before = [(0, 120), (200, 520), (600, u64::MAX)];
        assert_eq!(spans(ProgramPhase::Before), before);
        assert_eq!(spans(ProgramPhase::MainLoop), [(120, 180), (520, 580)]);
        assert_eq!(spans(ProgramPhase::After), [(180, 200), (580, 600)]);
    }
}
