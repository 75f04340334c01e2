//! The operations of collective calls that formats have names for.
//!
//! Used by formats for each function, and by the source for each part.

use belljar_mpi::{Meaning, Operation, meaning_of};

/// Returns the operation of the function with this name. `None` for one that is not collective, among neighbours, or only
/// creates objects.
pub(crate) fn operation(function: &str) -> Option<Operation> {
    meaning_of(function)
        .and_then(Meaning::collective)
        .filter(named)
}

/// True if formats have a name for the operation: neighbourhood operations have none.
pub(crate) fn named(operation: &Operation) -> bool {
    !operation.is_neighborhood()
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
