//! Switches for kinds of calls.
//!
//! The generator makes no call of a kind that is off. Read by the generator and the readers.

/// Defines [`Kinds`] by the documentation and the names of its switches.
macro_rules! kinds {
    ($($(#[$documentation:meta])* $name:ident,)*) => {
        /// Kinds of calls that jobs may have. All false: blocking standard messages alone.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Kinds {
            $($(#[$documentation])* pub $name: bool,)*
        }

        impl Kinds {
            /// All kinds.
            pub const ALL: Self = Self { $($name: true,)* };

            /// Blocking standard messages alone.
            pub const NONE: Self = Self { $($name: false,)* };

            /// These with another one, by its name here; `None` if there is no such kind.
            #[must_use]
            pub fn with(mut self, name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => self.$name = true,)*
                    _ => return None,
                }
                Some(self)
            }
        }
    };
}

kinds! {
    /// Synchronous, buffered and ready sends.
    modes,
    /// Nonblocking sends and receives, and all calls that complete them.
    nonblocking,
    /// Polls by `MPI_Testall`, `MPI_Testany` and `MPI_Testsome`.
    polls,
    /// Polls that follow one another as one record, in some jobs.
    folded_polls,
    /// Receives with wildcards and a status.
    wildcards,
    /// Receives with wildcards and without a status.
    wildcards_without_status,
    /// Nonblocking and persistent receives with wildcards: other receives are posted before their sources are known.
    pending_wildcards,
    /// Persistent sends and receives.
    persistent,
    /// Persistent sends that are synchronous, buffered or ready.
    persistent_modes,
    /// Partitioned messages.
    partitioned,
    /// Dependencies on a partitioned message since its last partition is ready, which are then compared; else also since its start.
    partition_times,
    /// Blocking collective operations.
    collectives,
    /// Nonblocking collective operations.
    nonblocking_collectives,
    /// Persistent collective operations.
    persistent_collectives,
    /// Bytes of collective operations in the matrix, which are then compared where the call determines them.
    collective_bytes,
    /// Copies and parts of `MPI_COMM_WORLD`.
    communicators,
    /// Messages between the even and the odd ranks, by an intercommunicator.
    intercommunicators,
    /// Collective operations on that intercommunicator.
    collectives_between,
    /// Collective operations of neighbours in a grid.
    grids,
    /// Collective operations of neighbours in a graph.
    graphs,
    /// Messages that `MPI_Sendrecv` exchanges.
    exchanges,
    /// Messages of a rank to itself, on `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
    own_messages,
    /// Sends to and receives from `MPI_PROC_NULL`.
    null_peers,
    /// Probes before receives, and matched receives.
    probes,
    /// Accesses to a window, under fences, locks, and posts with starts.
    accesses,
    /// Accesses that return requests, by `MPI_Rput` and the like.
    access_requests,
    /// Accesses under locks of all ranks at once.
    lock_all,
    /// Windows by `MPI_Win_allocate`.
    allocated_windows,
    /// Several ranks on a node, in some jobs.
    shared_nodes,
    /// Jobs of Open MPI.
    open_mpi,
    /// Two threads in some ranks.
    threads,
    /// Cancelled receives.
    cancels,
    /// Calls that never return at the end of some jobs: receives without a message, synchronous sends without a receive, waits for either.
    unfinished_messages,
    /// Collective operations at the end of some jobs that one rank never enters.
    unfinished_collectives,
    /// Calls that fail.
    failures,
    /// The critical path, which is then compared.
    critical_path,
    /// Waits in collective operations, which are then compared with the last entry that each member needs.
    collective_waits,
    /// The same between the groups of an intercommunicator.
    waits_between,
    /// The same among neighbours.
    neighbor_waits,
    /// Waits in calls that wait for all ranks besides collective operations, which are then compared: `MPI_Comm_dup`, `MPI_Win_fence` and the like.
    synchronizing,
}
