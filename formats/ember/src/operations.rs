//! Ember's events for collective operations.
//!
//! Ember has fewer operations than MPI; some are replaced by another one that moves as much. Used by `tables`.

use belljar_mpi::Operation;

/// Returns Ember's event for an operation. `None` if Ember has no such event.
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
