//! Calls missing from a trace because only some iterations of the main loop were kept, added to its statistics.
//!
//! Counts, bytes, sums, means, minima and maxima then cover the whole program, as do compute intervals. Medians, sizes and traffic between ranks only cover the kept
//! calls. Used where the statistics of a trace are computed, before they are finished.

use belljar_mpi::FUNCTIONS;
use belljar_sim::Frequency;
use belljar_thinning::{Collected, CollectedThread, Dropped, Measure};
use serde::Serialize;

use super::StatCollector;
use super::collect::{FunctionSum, Intervals};
use crate::dump::Filter;

/// The note that the trace has only some iterations of the main loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeptStat {
    /// Iterations in the trace, for the thread with the most iterations.
    pub iterations: u64,
    /// Iterations that this thread made since its main loop was detected.
    pub of_iterations: u64,
    /// Calls missing from the trace.
    pub dropped_calls: u64,
    /// True if they are in these figures: not with a filter for functions, times or phases.
    pub counted: bool,
}

impl StatCollector<'_> {
    /// Adds the missing calls selected by `filter`.
    pub(crate) fn complete(&mut self, collected: &Collected, filter: &Filter) {
        let (iterations, of_iterations) = collected.iterations();
        let (_, dropped_calls) = collected.calls();
        let counted = filter.functions.is_empty() && !filter.needs_times();
        self.result.kept = Some(KeptStat {
            iterations,
            of_iterations,
            dropped_calls,
            counted,
        });
        if !counted {
            return;
        }
        let wanted =
            |it: &&CollectedThread| filter.ranks.is_empty() || filter.ranks.contains(&it.rank);
        for thread in collected.threads.iter().filter(wanted) {
            self.complete_thread(thread);
        }
    }

    fn complete_thread(&mut self, thread: &CollectedThread) {
        for (name, sums) in &thread.functions {
            self.complete_function(name, sums, thread);
        }
        let process = (thread.node, thread.process);
        for moved in &thread.moved {
            let (sent, received) = self.communicators.moved(process, &moved.as_one());
            if sent.is_none() || received.is_none() {
                add(&mut self.result.unresolved_collectives, moved.operations);
            }
            self.add_bytes(
                &moved.function,
                thread,
                [sent, received].map(Option::unwrap_or_default),
            );
        }
        if self.result.untimed {
            return;
        }
        let frequency = self.header.frequency(thread.node);
        let process = self.processes.entry(process).or_default();
        // The trace has the gaps, and they are no intervals of the program.
        let [intervals, gaps] = [&thread.intervals, &thread.gaps];
        let compute = process.compute.saturating_sub(ps(frequency, gaps.sum));
        process.compute = compute.saturating_add(ps(frequency, intervals.sum));
        process.intervals.exchange(
            Intervals::of(gaps, frequency),
            Intervals::of(intervals, frequency),
        );
    }

    fn complete_function(&mut self, name: &str, sums: &Dropped, thread: &CollectedThread) {
        let calls = sums.cycles.dropped;
        let frequency = self.header.frequency(thread.node);
        let inside = ps(frequency, calls.sum);
        let process = (thread.node, thread.process);
        let untimed = self.result.untimed;
        if let Some(function) = self.function(name) {
            add(&mut function.calls, calls.count);
            add(&mut function.nested, sums.nested);
            if calls.count > 0 && !untimed {
                let [least, most] = [calls.least, calls.most].map(|it| ps(frequency, it));
                function.lacking.add(calls.count, inside, least, most);
            }
        }
        let process = self.processes.entry(process).or_default();
        process.rank = thread.rank;
        add(&mut process.calls, calls.count);
        if !untimed {
            add(&mut process.mpi, inside);
        }
        add(&mut self.result.inexact_received, sums.inexact);
        add(&mut self.result.unresolved_collectives, sums.untold);
        self.add_bytes(name, thread, [sums.sent, sums.received]);
    }

    fn add_bytes(&mut self, function: &str, thread: &CollectedThread, [sent, received]: [u64; 2]) {
        if let Some(function) = self.function(function) {
            add(&mut function.sent, sent);
            add(&mut function.received, received);
        }
        let process = (thread.node, thread.process);
        let process = self.processes.entry(process).or_default();
        add(&mut process.sent, sent);
        add(&mut process.received, received);
    }

    /// Returns the sums of the function of this name; `None` for an unknown name.
    fn function(&mut self, name: &str) -> Option<&mut FunctionSum> {
        let number = FUNCTIONS.iter().position(|it| it.name == name)?;
        Some(self.functions.entry(number as u16).or_default())
    }
}

/// Calls of a function missing from the trace.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    pub(super) calls: u64,
    /// Picoseconds in all of them.
    pub(super) inside: u64,
    /// Picoseconds in the shortest and in the longest.
    pub(super) extremes: Option<(u64, u64)>,
}

impl Lacking {
    fn add(&mut self, calls: u64, inside: u64, shortest: u64, longest: u64) {
        add(&mut self.calls, calls);
        add(&mut self.inside, inside);
        let (least, most) = self.extremes.unwrap_or((u64::MAX, 0));
        self.extremes = Some((least.min(shortest), most.max(longest)));
    }
}

impl Intervals {
    fn of(measure: &Measure, frequency: Frequency) -> Self {
        Self {
            count: measure.count,
            reciprocal_cycles: measure.reciprocals,
            reciprocal_seconds: measure.reciprocals * frequency.as_hz() as f64,
        }
    }

    /// Replaces the intervals `out` by those in `into`.
    fn exchange(&mut self, out: Self, into: Self) {
        self.count = self.count.saturating_sub(out.count);
        self.reciprocal_cycles -= out.reciprocal_cycles;
        self.reciprocal_seconds -= out.reciprocal_seconds;
        self.add(into);
    }
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

fn ps(frequency: Frequency, cycles: u64) -> u64 {
    frequency.time_of(cycles).as_ps()
}

#[cfg(test)]
mod tests;
