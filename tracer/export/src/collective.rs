//! The operations of collective calls.
//!
//! Which one a call begins or carries out follows from its name: blocking, nonblocking and persistent calls of one
//! operation have the same. Asked by the source for each collective call.

use belljar_analysis::Called;
use belljar_collectives::Operation;

/// The operation of the function of this name; `None` for one that is not collective, or a neighbourhood's, or that only makes objects.
pub(crate) fn operation(function: &str) -> Option<Operation> {
    match Called::of(function)? {
        Called::Among(operation) => Some(operation),
        Called::Neighbors => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_operations() {
        for (function, expected) in [
            ("MPI_Bcast", Some(Operation::Broadcast)),
            ("MPI_Ibcast", Some(Operation::Broadcast)),
            ("MPI_Iallreduce_c", Some(Operation::Allreduce)),
            ("MPI_Alltoallv_init", Some(Operation::Alltoallv)),
            (
                "MPI_Reduce_scatter_block",
                Some(Operation::ReduceScatterBlock),
            ),
            ("MPI_Isend", None),
            ("MPI_Neighbor_allgather", None),
            ("MPI_Init", None),
        ] {
            assert_eq!(operation(function), expected, "{function}");
        }
    }
}
