//! Detours of processors at given times, as a scenario lists them.
//!
//! They take a processor as noise does: its clock advances and it executes nothing, and a sleep is not affected. They depend on
//! time alone and are no part of a node's saved state: whoever restores a node gives them again, and may change the ones that have
//! not begun. Queried by `noise`, for the run loop.

use belljar_cpu::Cycles;
use belljar_sim::{Frequency, Time};

use super::Node;

/// A processor's detour at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Absence {
    /// Number of the processor; a number that the node does not have is without effect.
    pub processor: u32,
    /// Start.
    pub at: Time,
    /// End; `Time::MAX` for a processor that never returns.
    pub until: Time,
}

/// Detours of a node at given times.
#[derive(Clone, Debug, Default)]
pub(super) struct Absences {
    /// For each processor, first and last cycle of each, in order and apart from each other.
    processors: Vec<Vec<(Cycles, Cycles)>>,
}

impl Absences {
    fn new(absences: &[Absence], processors: usize, frequency: Frequency) -> Self {
        let mut sorted = absences.to_vec();
        sorted.sort_unstable();
        let mut all: Vec<Vec<(Cycles, Cycles)>> = vec![Vec::new(); processors];
        for absence in sorted {
            let Some(own) = all.get_mut(absence.processor as usize) else {
                continue;
            };
            let [from, to] = [absence.at, absence.until].map(|time| frequency.cycle_at(time));
            match own.last_mut() {
                Some((_, last)) if from <= *last => *last = to.max(*last),
                _ => own.push((from, to)),
            }
        }
        Self { processors: all }
    }

    /// The first detour of processor `index` that ends after `now`.
    pub(super) fn next(&self, index: usize, now: Cycles) -> Option<(Cycles, Cycles)> {
        let own = self.processors.get(index)?;
        let next = own.partition_point(|(_, to)| *to <= now);
        own.get(next).copied()
    }
}

impl Node {
    /// Sets the detours at given times. Those that end before the node's time are without effect.
    pub fn be_absent(&mut self, absences: &[Absence]) {
        self.disturb();
        self.absences = Absences::new(absences, self.processors.len(), self.frequency);
    }
}
