//! The time of misses: an interval rule, and a bucket for bandwidth.
//!
//! A load whose address depends on its own earlier execution waits for its line in full. Other loads that miss
//! within a window of instructions overlap: the first one waits, less the time that the window hides. Stores do not
//! wait. Moved lines occupy the paths from farther levels, and any access waits for a path that is behind by more than
//! a queue. `exact` charges the result.

use serde::{Deserialize, Serialize};

use super::LineFound;
use crate::TICKS_PER_CYCLE;
use crate::processor::MemoryParameters;

/// Lines of a page that a sample selects.
const PAGE_LINES: u64 = 64;

/// The circumstances of an access.
#[derive(Clone, Copy, Debug)]
pub struct MissMoment {
    /// The vCPU's ticks.
    pub now: u64,
    /// Its retired instructions.
    pub retired: u64,
    /// True for a load, whose data is waited for.
    pub loads: bool,
    /// True if its address depends on an earlier execution of the same load.
    pub recurrent: bool,
    /// Ticks and instructions of the block, for the rate at which the window fills.
    pub block: (u64, u64),
}

/// Ticks that misses took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSpent {
    /// For translations of addresses.
    pub translation: u64,
    /// For lines from caches.
    pub caches: u64,
    /// For lines from memory.
    pub memory: u64,
    /// For paths that other lines occupied.
    pub bandwidth: u64,
}

impl TimeSpent {
    /// All of it.
    #[inline]
    pub fn total(&self) -> u64 {
        self.translation + self.caches + self.memory + self.bandwidth
    }
}

impl std::ops::AddAssign for TimeSpent {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.translation += other.translation;
        self.caches += other.caches;
        self.memory += other.memory;
        self.bandwidth += other.bandwidth;
    }
}

/// The state of the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissTime {
    /// Retired instructions at the last miss that was waited for, and one more; zero for none.
    window: u64,
    /// Ticks at which the last moved line has arrived.
    bus: u64,
}

impl MissTime {
    /// The time that the access takes besides its instruction.
    pub fn spend(
        &mut self,
        parameters: &MemoryParameters,
        found: &LineFound,
        moment: &MissMoment,
    ) -> TimeSpent {
        let mut spent = TimeSpent::default();
        if found.level == 0 {
            return spent;
        }
        let sample = u64::from(parameters.sample);
        if moment.loads {
            let latency = parameters.cost_of(found.level).latency + found.translation;
            let waited = self.waited(parameters, u64::from(latency), moment);
            let ticks = waited * TICKS_PER_CYCLE * sample;
            let translation = u64::from(found.translation) * TICKS_PER_CYCLE * sample;
            spent.translation = ticks.min(translation);
            let rest = ticks - spent.translation;
            if found.level < parameters.levels.len() {
                spent.caches = rest;
            } else {
                spent.memory = rest;
            }
        }
        if found.moved > 0 {
            let now = moment.now + spent.total();
            self.bus = self.bus.max(moment.now) + found.moved * sample;
            let queue = u64::from(parameters.overlap.queue) * TICKS_PER_CYCLE;
            // The lines of a modelled page stand for those of other pages, which come later.
            let ahead = (sample - 1) * PAGE_LINES * parameters.cost_of(found.level).line_ticks;
            let queue = queue + ahead;
            spent.bandwidth = self.bus.saturating_sub(now + queue);
        }
        spent
    }

    /// Cycles that a load of this latency is waited for.
    fn waited(&mut self, parameters: &MemoryParameters, latency: u64, moment: &MissMoment) -> u64 {
        if moment.recurrent {
            return latency;
        }
        let overlap = &parameters.overlap;
        let window = u64::from(overlap.window);
        let apart = window * u64::from(parameters.sample);
        if self.window > 0 && moment.retired + 1 < self.window + apart {
            return 0;
        }
        let (ticks, instructions) = moment.block;
        let filled = window * ticks / (instructions.max(1) * TICKS_PER_CYCLE);
        let exposed = latency.saturating_sub(filled.min(overlap.hidden.into()));
        if exposed > 0 {
            self.window = moment.retired + 1;
        }
        exposed
    }

    /// Words that determine later times.
    pub fn words(&self) -> [u64; 2] {
        [self.window, self.bus]
    }
}

impl MemoryParameters {
    /// The most ticks that an access to a line can take, if lines cost up to `shared` ticks on shared paths.
    pub fn worst(&self, shared: u64) -> u64 {
        let all = (0..=self.levels.len()).map(|level| self.cost_of(level));
        let latency = all.clone().map(|cost| cost.latency).max().unwrap_or(0);
        let translation = self.translations.walk.max(self.translations.latency);
        let dearest = all
            .map(|cost| cost.miss_ticks.max(cost.line_ticks))
            .max()
            .unwrap_or(0)
            .max(shared);
        let lines = u64::from(self.prefetch.lines) + u64::from(self.prefetch.strides) + 1;
        let one = u64::from(latency + translation) * TICKS_PER_CYCLE + lines * dearest;
        one * u64::from(self.sample)
    }
}

#[cfg(test)]
mod tests;
