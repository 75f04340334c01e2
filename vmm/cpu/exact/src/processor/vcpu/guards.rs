//! What keeps a guest from running for ever without a counted instruction.
//!
//! Stub instructions and deliveries of exceptions count for nothing, so a guest that does nothing else would never come to
//! its run's end. `instructions` notes both, and ends the free allowance of one that abuses it.

/// Streaks of what does not count, and whether stubs still run free.
#[derive(Clone, Debug)]
pub(crate) struct Guards {
    /// Stub instructions run uncounted; off for good once a guest abuses them.
    pub(crate) free_stubs: bool,
    /// Magic calls without a counted instruction between them.
    pub(crate) magic_streak: u32,
    /// Instructions retired at the last of them.
    pub(crate) magic_at: u64,
    /// Exceptions without an instruction between them.
    pub(crate) delivery_streak: u32,
    /// Instructions retired when the last one came.
    pub(crate) delivered_at: u64,
}

impl Guards {
    /// Nothing was abused yet.
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
