//! What a processor's time went into.
//!
//! Sums only grow, and those of several processors add up. The exact engine has them under a time
//! model; nodes add them up for the trace and the summary.

/// Sums since reset, of which all but `instructions` are in cycles. What is left of the
/// clock is the core's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeAccount {
    /// Instructions retired, those of traced stubs left out.
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
