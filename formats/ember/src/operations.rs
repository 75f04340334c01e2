//! Ember's events for collective operations.
//!
//! Ember has fewer operations than MPI; some become another one that moves as much. Called by `tables`.

use belljar_mpi::Operation;

/// Ember's event for an operation. `None` where it has no event of the kind.
pub(super) fn named(operation: Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::Barrier => "BARRIER",
        Operation::Broadcast => "BCAST",
        Operation::Reduce => "REDUCE",
        Operation::Alltoall => "ALLTOALL",
        Operation::Alltoallv | Operation::Alltoallw => "ALLTOALLV",
        Operation::Allgather => "ALLGATHER",
        Operation::Allgatherv => "ALLGATHERV",
        Operation::Scatter | Operation::Scatterv => "SCATTER",
        Operation::Gather | Operation::Gatherv => "GATHER",
        Operation::Allreduce => "ALLREDUCE",
        operation if becomes_allreduce(operation) => "ALLREDUCE",
        _ => return None,
    })
}

/// True for operations without an event of their own that move as much as an allreduce.
pub(super) fn becomes_allreduce(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ReduceScatter
            | Operation::ReduceScatterBlock
            | Operation::Scan
            | Operation::Exscan
    )
}
