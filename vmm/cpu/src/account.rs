//! Accounts of a processor's time.
//!
//! Sums only grow, and sums of several processors can be added. The exact engine keeps them under a
//! time model; nodes add them up for the trace and the summary.

/// Sums since reset, in cycles except for `instructions`. The rest of the clock is time in the
/// core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeAccount {
    /// Instructions retired, except in traced stubs.
    pub instructions: u64,
    /// Cycles in caches beyond the first level.
    pub caches: u64,
    /// Cycles in memory.
    pub memory: u64,
    /// Cycles without an instruction: the processor was halted.
    pub idle: u64,
}

impl std::ops::Add for TimeAccount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            instructions: self.instructions + other.instructions,
            caches: self.caches + other.caches,
            memory: self.memory + other.memory,
            idle: self.idle + other.idle,
        }
    }
}
