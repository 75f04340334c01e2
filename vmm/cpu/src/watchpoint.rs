//! Watchpoints: ranges of a process's memory whose accesses end runs, for a debugger.
//!
//! A range belongs to an address space and counts in all mappings of its present page: the kernel's, other
//! processes' and devices'. The guest's behaviour and time are the same with and without them. Set by nodes.

/// Watched buffers: ranges of processes' memory whose accesses by the processes themselves end runs.
pub(crate) mod buffers;

/// The accesses at which a watchpoint ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    /// Stores, whether they change the value or not.
    Write,
    /// Loads. An instruction that loads and stores counts as a store.
    Read,
    /// Loads and stores.
    Access,
}

impl WatchKind {
    /// True if a store, or else a load, ends a run.
    pub fn stops_at(self, write: bool) -> bool {
        match self {
            Self::Write => write,
            Self::Read => !write,
            Self::Access => true,
        }
    }
}

/// A watched range of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watchpoint {
    /// Guest-physical address of the address space's page tables, as in CR3.
    pub space: u64,
    /// Linear address of the first byte.
    pub linear: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The accesses that count.
    pub kind: WatchKind,
}
