//! What all blocks of a store or pool have in common: where they count, what they cost, and the code that they
//! share.
//!
//! Set once, when a store or pool is made.

use crate::prices::classes::Prices;

/// Where translated code keeps the budget of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// In the context. Every change waits for the one before to come back from memory.
    Memory,
    /// In XMM31, which no guest below x86-64-v4 has: a change takes one cycle and no
    /// flags. The context has it while host code runs.
    Xmm31,
    /// In MM7, likewise, in code for a guest whose x87 is as after reset: see
    /// [`Mode::apart`](crate::guest::mode::Mode::apart).
    Mm7,
}

/// Where shared code stands.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// Saves the guest's registers and returns to the dispatcher.
    pub leave: u64,
    /// The same where flags are put away.
    pub leave_kept: u64,
    /// Leaves with `EXIT_LOOKUP`.
    pub unknown: u64,
    /// Looks into the second jump cache, the supervisor's or the user's, before.
    pub lookup: [u64; 2],
    /// Where every visit begins: continues at the context's `resume`.
    pub enter: u64,
    /// The same for code that counts in MM7, and where that leaves.
    pub apart: [u64; 2],
    /// Where code counts that is not [apart](crate::guest::mode::Mode::apart).
    pub counter: Counter,
}

/// What a pool's code depends on besides the guest's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Character {
    /// Where code counts.
    pub counter: Counter,
    /// What instructions cost, where that is modelled.
    pub prices: Option<Prices>,
    /// Approximations, the x87's functions and undefined flags are the host's.
    pub host_results: bool,
}
