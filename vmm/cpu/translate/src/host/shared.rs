//! Data common to all blocks of a store or pool: counter, prices, and shared code.
//!
//! Set once, when a store or pool is made.

use crate::prices::classes::Prices;

/// The place of the budget in translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// In the context. Every update depends on the previous one through memory.
    Memory,
    /// In XMM31, which guests below x86-64-v4 lack: an update takes one cycle and changes no flags. It is in
    /// the context while host code runs.
    Xmm31,
    /// In MM7, in the same way, in code for a guest whose x87 is in its reset state: see
    /// [`Mode::apart`](crate::guest::mode::Mode::apart).
    Mm7,
}

/// Addresses of shared code.
#[derive(Clone, Copy, Debug)]
pub struct SharedCode {
    /// Saves the guest's registers and returns to the dispatcher.
    pub leave: u64,
    /// The same, for code with saved flags.
    pub leave_kept: u64,
    /// Leaves with `EXIT_LOOKUP`.
    pub unknown: u64,
    /// The lookup in the second jump cache, the supervisor's or the user's, which leaves with `EXIT_LOOKUP` on
    /// a miss.
    pub lookup: [u64; 2],
    /// The entry of every visit: continues at the context's `resume`.
    pub enter: u64,
    /// Updates of the counters of a conditional jump that was not taken, and of one that was.
    pub train: [u64; 2],
    /// Entry and exit of code that counts in MM7.
    pub apart: [u64; 2],
    /// The counter of code that is not [apart](crate::guest::mode::Mode::apart).
    pub counter: Counter,
}

/// Parameters of a pool's code besides the guest's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Character {
    /// The counter.
    pub counter: Counter,
    /// Costs of instructions, if they are modelled.
    pub prices: Option<Prices>,
    /// True if blocks follow the guest's path, for a processor model.
    pub follows_path: bool,
    /// True if approximations, the x87's functions and undefined flags are the host's.
    pub host_results: bool,
}
