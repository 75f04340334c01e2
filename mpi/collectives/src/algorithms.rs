//! Implementation of each algorithm, by operation.
//!
//! Each function builds the caller's part for a valid call of a communicator of at least two members. Common parts are the division of
//! a buffer (`parts`), and the folding of ranks beyond a power of two into others (`fold`). The algorithms are described by R. Thakur,
//! R. Rabenseifner and W. Gropp, "Optimization of Collective Communication Operations in MPICH" (2005); where MPICH 4.0 differs from
//! the paper, these follow MPICH. Used by `algorithm`.

/// Gathers with the result at all ranks.
pub(crate) mod allgather;
/// Reductions with the result at all ranks.
pub(crate) mod allreduce;
/// Exchanges of all ranks with all.
pub(crate) mod alltoall;
/// From one to all.
pub(crate) mod broadcast;
/// Ranks beyond a power of two.
mod fold;
/// From all to one.
pub(crate) mod gather;
/// Algorithms that only Open MPI has.
pub(crate) mod open_mpi;
/// Division of a buffer into parts.
mod parts;
/// Reductions to one.
pub(crate) mod reduce;
/// Reductions with a part of the result at each rank.
pub(crate) mod reduce_scatter;
/// Prefixes, and barriers.
pub(crate) mod scan;
/// Parts from one to all.
pub(crate) mod scatter;
