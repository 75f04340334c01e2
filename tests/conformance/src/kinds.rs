//! Switches for kinds of calls.
//!
//! The generator makes no call of a kind that is off. Read by the generator and the readers.

/// Kinds of calls that jobs may have. All false: blocking standard messages alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Synchronous, buffered and ready sends.
    pub modes: bool,
    /// Nonblocking sends and receives, and all calls that complete them.
    pub nonblocking: bool,
    /// Receives with wildcards that ask for a status.
    pub wildcards: bool,
    /// Receives with wildcards that ask for no status.
    pub wildcards_without_status: bool,
    /// Nonblocking and persistent receives with wildcards: other receives are posted before their sources are known.
    pub pending_wildcards: bool,
    /// Persistent sends and receives.
    pub persistent: bool,
    /// Persistent sends that are synchronous, buffered or ready.
    pub persistent_modes: bool,
    /// Partitioned messages.
    pub partitioned: bool,
    /// Blocking collective operations.
    pub collectives: bool,
    /// Nonblocking collective operations.
    pub nonblocking_collectives: bool,
    /// Persistent collective operations.
    pub persistent_collectives: bool,
    /// Copies and parts of `MPI_COMM_WORLD`.
    pub communicators: bool,
    /// Messages between the even and the odd ranks, by an intercommunicator.
    pub intercommunicators: bool,
    /// Messages that `MPI_Sendrecv` exchanges.
    pub exchanges: bool,
    /// Probes before receives, and matched receives.
    pub probes: bool,
    /// Accesses to a window, under fences, locks, and posts with starts.
    pub accesses: bool,
    /// Two threads in some ranks.
    pub threads: bool,
    /// Cancelled receives.
    pub cancels: bool,
    /// Calls that fail.
    pub failures: bool,
    /// Waits in calls that wait for all ranks besides collective operations, which are then compared: `MPI_Comm_dup`, `MPI_Win_fence` and the like.
    pub synchronizing: bool,
}

impl Kinds {
    /// All kinds.
    pub const ALL: Self = Self {
        modes: true,
        nonblocking: true,
        wildcards: true,
        wildcards_without_status: true,
        pending_wildcards: true,
        persistent: true,
        persistent_modes: true,
        partitioned: true,
        collectives: true,
        nonblocking_collectives: true,
        persistent_collectives: true,
        communicators: true,
        intercommunicators: true,
        exchanges: true,
        probes: true,
        accesses: true,
        threads: true,
        cancels: true,
        failures: true,
        synchronizing: true,
    };

    /// Blocking standard messages alone.
    pub const NONE: Self = Self {
        modes: false,
        nonblocking: false,
        wildcards: false,
        wildcards_without_status: false,
        pending_wildcards: false,
        persistent: false,
        persistent_modes: false,
        partitioned: false,
        collectives: false,
        nonblocking_collectives: false,
        persistent_collectives: false,
        communicators: false,
        intercommunicators: false,
        exchanges: false,
        probes: false,
        accesses: false,
        threads: false,
        cancels: false,
        failures: false,
        synchronizing: false,
    };

    /// These with another one, by its name here; `None` if there is no such kind.
    #[must_use]
    pub fn with(mut self, name: &str) -> Option<Self> {
        let switch = match name {
            "modes" => &mut self.modes,
            "nonblocking" => &mut self.nonblocking,
            "wildcards" => &mut self.wildcards,
            "wildcards_without_status" => &mut self.wildcards_without_status,
            "pending_wildcards" => &mut self.pending_wildcards,
            "persistent" => &mut self.persistent,
            "persistent_modes" => &mut self.persistent_modes,
            "partitioned" => &mut self.partitioned,
            "collectives" => &mut self.collectives,
            "nonblocking_collectives" => &mut self.nonblocking_collectives,
            "persistent_collectives" => &mut self.persistent_collectives,
            "communicators" => &mut self.communicators,
            "intercommunicators" => &mut self.intercommunicators,
            "exchanges" => &mut self.exchanges,
            "probes" => &mut self.probes,
            "accesses" => &mut self.accesses,
            "threads" => &mut self.threads,
            "cancels" => &mut self.cancels,
            "synchronizing" => &mut self.synchronizing,
            "failures" => &mut self.failures,
            _ => return None,
        };
        *switch = true;
        Some(self)
    }
}
