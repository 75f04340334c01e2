//! What the engine counts of its own doings: it tells where a run's host time went.
//!
//! The counts depend on what was translated when, so they are no part of results: they go into what
//! a run tells of its host, and neither into a node's state nor its hashes. Each part of the engine
//! counts its own; `interface` reports them.

/// What a vCPU did, for the summary of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Visits to translated code.
    pub visits: u64,
    /// Accesses that missed the TLB.
    pub misses: u64,
    /// Instructions carried out in Rust.
    pub helpers: u64,
    /// Jumps that missed the jump cache.
    pub lookups: u64,
    /// Exceptions and interrupts delivered.
    pub deliveries: u64,
    /// Blocks forgotten because their code was written to.
    pub modified: u64,
    /// Guest instructions translated, repetitions counted.
    pub translated: u64,
    /// Pages of code that were found to be shared with other nodes, and those that were
    /// left since.
    pub pages_shared: u64,
    /// See [`pages_shared`](Self::pages_shared).
    pub pages_left: u64,
    /// Times that the code cache was full.
    pub flushes: u64,
    /// Hot blocks made.
    pub promoted: u64,
    /// Group checks that the dispatcher had to see to.
    pub group_misses: u64,
    /// Seams between pages that were mended.
    pub seams: u64,
    /// Times that the present address space was forgotten, but not its global pages.
    pub address_spaces: u64,
    /// Times that one page was forgotten.
    pub pages_flushed: u64,
    /// Times that all translations were forgotten.
    pub complete_flushes: u64,
}

impl Statistics {
    /// All of them by name.
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
