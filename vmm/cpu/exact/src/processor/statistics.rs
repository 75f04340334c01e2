//! Statistics of the engine, which show the use of a run's host time.
//!
//! The counts depend on the time of translations, so they are not results: they are part of a run's
//! report on its host, and not of a node's state and hashes. Each part of the engine counts for
//! itself; `interface` reports them.

/// Counters of a vCPU, for the summary of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Visits to translated code.
    pub visits: u64,
    /// Accesses that missed the TLB.
    pub misses: u64,
    /// Instructions executed in Rust.
    pub helpers: u64,
    /// Jumps that missed the jump cache.
    pub lookups: u64,
    /// Exceptions and interrupts delivered.
    pub deliveries: u64,
    /// Blocks dropped because their code was written.
    pub modified: u64,
    /// Guest instructions translated, including repetitions.
    pub translated: u64,
    /// Pages of code that became shared with other nodes, and pages that ceased to be.
    pub pages_shared: u64,
    /// See [`pages_shared`](Self::pages_shared).
    pub pages_left: u64,
    /// Times that the code cache was full.
    pub flushes: u64,
    /// Hot blocks made.
    pub promoted: u64,
    /// Group checks that the dispatcher had to handle.
    pub group_misses: u64,
    /// Seams whose pages were mapped adjacently.
    pub seams: u64,
    /// Invalidations of the present address space without global pages.
    pub address_spaces: u64,
    /// Invalidations of a single page.
    pub pages_flushed: u64,
    /// Invalidations of all translations.
    pub complete_flushes: u64,
}

impl Statistics {
    /// All counters by name.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("visits", self.visits),
            ("tlb misses", self.misses),
            ("helpers", self.helpers),
            ("jump lookups", self.lookups),
            ("deliveries", self.deliveries),
            ("modified code", self.modified),
            ("translated", self.translated),
            ("pages shared", self.pages_shared),
            ("pages left", self.pages_left),
            ("cache flushes", self.flushes),
            ("promoted", self.promoted),
            ("group misses", self.group_misses),
            ("seams", self.seams),
            ("address spaces", self.address_spaces),
            ("pages flushed", self.pages_flushed),
            ("complete flushes", self.complete_flushes),
        ]
    }
}
