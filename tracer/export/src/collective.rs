//! The operations of collective calls.
//!
//! Which one a call begins or carries out follows from its name: blocking, nonblocking and persistent calls of one
//! operation have the same. Asked by the source for each collective call.

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Everyone waits for everyone.
    Barrier,
    /// From one to all.
    Bcast,
    /// From all to one.
    Gather,
    /// The same with a count for each.
    Gatherv,
    /// From one a piece to each.
    Scatter,
    /// The same with a count for each.
    Scatterv,
    /// From all to all, the same.
    Allgather,
    /// The same with a count for each.
    Allgatherv,
    /// From all a piece to each.
    Alltoall,
    /// The same with a count for each.
    Alltoallv,
    /// The same with a datatype for each.
    Alltoallw,
    /// All's values combined, for all.
    Allreduce,
    /// All's values combined, for one.
    Reduce,
    /// All's values combined, a piece for each.
    ReduceScatter,
    /// The same with pieces of one size.
    ReduceScatterBlock,
    /// The values of all ranks up to one's own combined.
    Scan,
    /// The same without one's own.
    Exscan,
}

/// Names as they stand after `MPI_` and `MPI_I`, in lower case.
const NAMES: [(&str, Operation); 17] = [
    ("barrier", Operation::Barrier),
    ("bcast", Operation::Bcast),
    ("gather", Operation::Gather),
    ("gatherv", Operation::Gatherv),
    ("scatter", Operation::Scatter),
    ("scatterv", Operation::Scatterv),
    ("allgather", Operation::Allgather),
    ("allgatherv", Operation::Allgatherv),
    ("alltoall", Operation::Alltoall),
    ("alltoallv", Operation::Alltoallv),
    ("alltoallw", Operation::Alltoallw),
    ("allreduce", Operation::Allreduce),
    ("reduce", Operation::Reduce),
    ("reduce_scatter", Operation::ReduceScatter),
    ("reduce_scatter_block", Operation::ReduceScatterBlock),
    ("scan", Operation::Scan),
    ("exscan", Operation::Exscan),
];

impl Operation {
    /// The operation of the function of this name; `None` for one that is not collective, or a neighbourhood's, or that only makes objects.
    pub fn of(function: &str) -> Option<Self> {
        let name = function.strip_prefix("MPI_")?.to_ascii_lowercase();
        let name = name.strip_suffix("_c").unwrap_or(&name);
        let name = name.strip_suffix("_init").unwrap_or(name);
        let find = |name: &str| {
            let found = NAMES.iter().find(|(own, _)| *own == name);
            found.map(|(_, operation)| *operation)
        };
        find(name).or_else(|| find(name.strip_prefix('i')?))
    }

    /// Its name as MPI has it, without `MPI_`, in lower case.
    pub fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, own)| *own == self);
        found.map_or("", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_operations() {
        for (function, operation) in [
            ("MPI_Bcast", Some(Operation::Bcast)),
            ("MPI_Ibcast", Some(Operation::Bcast)),
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
            assert_eq!(Operation::of(function), operation, "{function}");
        }
    }
}
