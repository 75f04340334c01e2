//! The phases of a program: before, in and after its main loop.
//!
//! The main loop of a class of threads is the outermost loop with most time; in a tie, the first. It lasts from its first
//! entry to its last end, even if it is left and entered again in between. Computed from counted loops; used by `loops`, and
//! for other analyses by [`phases`](crate::phases()).

use belljar_job::Communicators;
use belljar_trace::TraceHeader;

use super::measure::{LoopSum, Mark};
use super::tree::Tree;
use super::{LoopMeasure, Phase};
use crate::structure::phases::{Phases, ProgramPhase, ThreadPhases};

impl LoopMeasure {
    /// Returns the phases of each thread.
    pub(super) fn phases(mut self, header: &TraceHeader, communicators: &Communicators) -> Phases {
        for walk in &mut self.walks {
            walk.finish();
        }
        let mut phases = Phases::default();
        for number in 0..self.flows.classes.len() {
            let tree = Tree::new(&self, number, header, communicators);
            let main = tree.main_loop();
            for thread in &self.flows.classes[number].threads {
                let (key, flow) = &self.flows.threads()[*thread];
                let sum = main.map(|main| &self.walks[*thread].loops[main]);
                let marks = sum.and_then(|sum| Some((sum.entered?.at, sum.left?.at)));
                let (entered, left) = marks.unwrap_or((flow.last, flow.last));
                let stretch = ThreadPhases {
                    first: flow.first,
                    entered,
                    left,
                    last: flow.last,
                };
                phases.insert(*key, stretch);
            }
        }
        phases
    }
}

impl Tree<'_> {
    /// Returns the main loop: without times, the loop with most calls.
    fn main_loop(&self) -> Option<usize> {
        let untimed = self.measure.untimed;
        let time = |number: usize| -> u64 {
            let sums = self.sums(number);
            let weights = sums.map(|(thread, sum)| match untimed {
                true => sum.calls,
                false => self.ps(thread, sum.time.total),
            });
            weights.fold(0, u64::saturating_add)
        };
        self.outermost().rev().max_by_key(|number| time(*number))
    }

    /// Returns calls and times by phase; empty without a loop.
    pub(super) fn phases(&self) -> Vec<Phase> {
        let Some(main) = self.main_loop() else {
            return Vec::new();
        };
        let mut phases = ProgramPhase::ALL.map(|phase| Phase {
            phase: phase.name(),
            calls: 0,
            time_ps: 0,
            in_mpi_ps: 0,
        });
        for (thread, sum) in self.sums(main) {
            for (phase, (calls, time, mpi)) in phases.iter_mut().zip(self.parts(thread, sum)) {
                phase.calls = phase.calls.saturating_add(calls);
                phase.time_ps = phase.time_ps.saturating_add(self.ps(thread, time));
                phase.in_mpi_ps = phase.in_mpi_ps.saturating_add(self.ps(thread, mpi));
            }
        }
        phases.into()
    }

    /// Returns a thread's calls, cycles, and cycles in MPI, by phase.
    fn parts(&self, thread: usize, sum: &LoopSum) -> [(u64, u64, u64); 3] {
        let walk = &self.measure.walks[thread];
        let flow = &self.measure.flows.threads()[thread].1;
        let first = Mark {
            at: flow.first,
            calls: 0,
            mpi: 0,
        };
        let last = Mark {
            at: flow.last,
            calls: walk.calls,
            mpi: walk.mpi,
        };
        let entered = sum.entered.unwrap_or(first);
        let left = sum.left.unwrap_or(entered);
        [(first, entered), (entered, left), (left, last)].map(|(from, to)| {
            (
                to.calls.saturating_sub(from.calls),
                to.at.saturating_sub(from.at),
                to.mpi.saturating_sub(from.mpi),
            )
        })
    }
}
