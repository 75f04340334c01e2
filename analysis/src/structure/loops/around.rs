//! The loops around each call, for analyses with results by loop.
//!
//! Loops are numbered from 1, over all classes of threads. Used by the analysis of waits.

use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::Communicators;
use belljar_trace::{Event, TraceError, TraceHeader};

use super::nesting::Nesting;
use super::{LoopFinder, LoopMeasure, tree};
use crate::causes::waiting::InLoops;
use crate::structure::flow::Detail;

impl LoopMeasure {
    /// Adds a call. Returns the numbers of the innermost loops around the call and around the work since the previous
    /// call, as in [`names`](Self::names) from 1; 0 outside of loops.
    pub(crate) fn around(&mut self, event: &Event) -> InLoops {
        if event.depth > 0 || !event.selected {
            return InLoops::default();
        }
        let Some(thread) = self.flows.collector.threads.find(event) else {
            return InLoops::default();
        };
        let before = self.walks[thread].within();
        self.observe(event);
        let walk = &self.walks[thread];
        let within = walk.within();
        let both = before.iter().zip(&within).take_while(|(a, b)| a == b);
        let both = both.map(|(number, _)| *number).last();
        let first: usize = self.nestings[..walk.class].iter().map(Nesting::len).sum();
        let number = |own: Option<usize>| own.map_or(0, |own| (first + own + 1) as u32);
        InLoops {
            call: number(within.last().copied()),
            work: number(both),
        }
    }

    /// Returns the names of the loops of all classes: the calls with which their iterations begin.
    pub(crate) fn names(&self, header: &TraceHeader, communicators: &Communicators) -> Vec<String> {
        let classes = 0..self.flows.classes.len();
        let names = classes.flat_map(|class| tree::headers(self, class, header, communicators));
        names.collect()
    }
}

/// Finds the loops of the trace at `path`, for the second pass over it. The trace is read once.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub(crate) fn found(path: &Path, communicators: &Communicators) -> Result<LoopMeasure, TraceError> {
    let mut reader = TraceReader::open(path)?;
    let mut finder = LoopFinder::new(Detail::default(), false);
    reader.by_ref().for_each(|event| finder.observe(&event));
    Ok(finder.measure(communicators))
}
