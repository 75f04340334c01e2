//! A time model at work: what each instruction costs, the guest's caches, and what they took so far.
//!
//! A vCPU has one where its scenario models time. `memory::accounting` charges by its prices, `memory::lines` asks its
//! caches.

use belljar_translate::prices::classes::Prices;
use belljar_translate::prices::timing::Timing;

use crate::processor::accounting::caches::Caches;

/// The model of the guest's caches.
pub(crate) mod caches;

/// A time model at work.
pub(crate) struct Accounting {
    pub prices: Prices,
    pub caches: Option<Caches>,
    /// Cycles that caches and memory took so far.
    pub spent_in_caches: u64,
    pub spent_in_memory: u64,
}

impl Accounting {
    pub(crate) fn new(timing: &Timing) -> Self {
        Self {
            prices: Prices::new(&timing.costs),
            caches: timing.caches.as_ref().map(Caches::new),
            spent_in_caches: 0,
            spent_in_memory: 0,
        }
    }
}
