//! The present state of a node's MPI processes, for runs that detect jobs in which no rank can proceed.
//!
//! Reading it changes nothing. Called by the run's coordinator at fixed times.

use belljar_mpi::CallKind;

use crate::guest::memory::{GuestMemory, Reader};
use crate::interception::component::{Mapped, object_at};
use crate::node::NodeTracer;

/// An MPI process, and its threads that are inside calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveProcess {
    /// Its number on the node.
    pub process: u32,
    /// The physical address of its page tables.
    pub tables: u64,
    /// Thread pointers of all threads that have called MPI.
    pub threads: Vec<u64>,
    /// Thread pointers (bases of FS) of the threads inside calls.
    pub inside: Vec<u64>,
    /// The status with which it ended, as `wait` returns it, if that was observed.
    pub end: Option<u32>,
    /// True if one of these calls starts MPI.
    pub starts: bool,
    /// True if one of these calls ends MPI.
    pub ends: bool,
}

/// Returns the name of the shared object whose code is at `address`, if it has one.
pub fn object_name(address: u64, memory: &dyn GuestMemory) -> Option<String> {
    object_at(address, Reader(memory)).map(Mapped::into_name)
}

impl NodeTracer {
    /// Returns the cycle at which an MPI call last began or ended, whether it is recorded or not.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Returns the processes whose page tables other processes have got: numbers, and the statuses with which they ended, as far as these
    /// were observed.
    pub fn gone_processes(&self) -> impl Iterator<Item = (u32, Option<u32>)> {
        self.gone
            .iter()
            .map(|(process, status)| (*process, *status))
    }

    /// Returns the MPI processes that have called MPI, in the order of their address spaces. Processes that have ended stay until
    /// another one gets their page tables.
    pub fn active_processes(&self) -> Vec<ActiveProcess> {
        let each = self.processes.iter().map(|(space, process)| {
            let mut inside = Vec::new();
            let (mut starts, mut ends) = (false, false);
            for (thread, kind) in self.open.threads_in(*space) {
                inside.push(thread);
                starts |= kind == CallKind::Init;
                ends |= kind == CallKind::Finalize;
            }
            inside.dedup();
            ActiveProcess {
                threads: process.threads().collect(),
                process: process.number,
                tables: *space,
                inside,
                end: process.end,
                starts,
                ends,
            }
        });
        each.collect()
    }

    /// True if all calls were followed from their entry to their return so far.
    pub fn follows_all(&self) -> bool {
        let warnings = &self.counters.warnings;
        let unseen = [
            warnings.abandoned,
            warnings.unreturnable,
            warnings.unknown_returns,
            warnings.missing_functions,
            warnings.dropped,
            warnings.unknown_processes,
            warnings.unread_objects,
            warnings.forgotten_objects,
        ];
        unseen.iter().all(|count| *count == 0)
    }
}
