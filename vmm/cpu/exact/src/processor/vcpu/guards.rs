//! Protection against guests that run forever without a counted instruction.
//!
//! Stub instructions and deliveries of exceptions are not counted, so a guest without other instructions would never reach
//! its run's end. `instructions` records both, and ends the free allowance of a guest that abuses it.

/// Streaks of uncounted events, and whether stubs are still uncounted.
#[derive(Clone, Debug)]
pub(crate) struct Guards {
    /// True if stub instructions are not counted; false for good once a guest abuses them.
    pub(crate) free_stubs: bool,
    /// Number of magic calls without a counted instruction in between.
    pub(crate) magic_streak: u32,
    /// Number of instructions retired at the last of them.
    pub(crate) magic_at: u64,
    /// Number of exceptions without an instruction in between.
    pub(crate) delivery_streak: u32,
    /// Number of instructions retired at the last of them.
    pub(crate) delivered_at: u64,
}

impl Guards {
    /// No abuse yet.
    pub(crate) fn new() -> Self {
        Self {
            free_stubs: true,
            magic_streak: 0,
            magic_at: u64::MAX,
            delivery_streak: 0,
            delivered_at: u64::MAX,
        }
    }
}
