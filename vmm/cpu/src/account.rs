//! Accounts of a processor's time.
//!
//! Sums only grow, and sums of several processors can be added. The exact engine keeps them under a
//! time model; nodes add them up for the trace and the summary.

use serde::{Deserialize, Serialize};

/// Number of paths that processors of a node share: from the third and the fourth level of caches, and from memory.
pub const SHARED_PATHS: usize = 3;

/// A processor's use of shared paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathUse {
    /// The cycle since which lines are counted.
    pub since: u64,
    /// Lines, from the third level on; the path after the last level is memory's.
    pub lines: [u64; SHARED_PATHS],
}

/// Sums since reset, in cycles except for `instructions`. `branch` is part of the core's time; the rest of the clock is time in the
/// core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeAccount {
    /// Instructions retired, except in traced stubs.
    pub instructions: u64,
    /// Cycles in caches beyond the first level.
    pub caches: u64,
    /// Cycles in memory.
    pub memory: u64,
    /// Cycles for translations of addresses, under a processor model.
    pub translation: u64,
    /// Cycles for which lines waited for others that occupied the paths from caches and memory.
    pub bandwidth: u64,
    /// Cycles for which mispredicted jumps keep the core from dispatching. They are part of the core's time.
    pub branch: u64,
    /// True under a processor model, which has the sums before this one.
    pub processor: bool,
    /// Cycles without an instruction: the processor was halted.
    pub idle: u64,
}

impl TimeAccount {
    /// The sums of an account that continues `other` since this account had the sums `begin`.
    #[must_use]
    pub fn continuing(self, other: Self, begin: Self) -> Self {
        let sum = |of: fn(&Self) -> u64| {
            let since = of(&self).saturating_sub(of(&begin));
            of(&other).saturating_add(since)
        };
        Self {
            instructions: sum(|it| it.instructions),
            caches: sum(|it| it.caches),
            memory: sum(|it| it.memory),
            translation: sum(|it| it.translation),
            bandwidth: sum(|it| it.bandwidth),
            branch: sum(|it| it.branch),
            processor: self.processor,
            idle: sum(|it| it.idle),
        }
    }
}

impl std::ops::Add for TimeAccount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            instructions: self.instructions + other.instructions,
            caches: self.caches + other.caches,
            memory: self.memory + other.memory,
            translation: self.translation + other.translation,
            bandwidth: self.bandwidth + other.bandwidth,
            branch: self.branch + other.branch,
            processor: self.processor || other.processor,
            idle: self.idle + other.idle,
        }
    }
}
