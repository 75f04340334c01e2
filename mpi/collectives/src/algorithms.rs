//! How each algorithm goes, operation by operation.
//!
//! Each function builds the caller's part for a sound call of a communicator of two members at least. What they have in
//! common: the parts of a buffer (`parts`), and how ranks that are more than a power of two fold into one (`fold`). The
//! algorithms are described by R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective Communication Operations in MPICH"
//! (2005); where MPICH 4.0 differs from the paper, these do as MPICH. Called by `algorithm`.

/// Gathers whose result all get.
pub(crate) mod allgather;
/// Reductions whose result all get.
pub(crate) mod allreduce;
/// Exchanges of each with each.
pub(crate) mod alltoall;
/// From one to all.
pub(crate) mod broadcast;
/// Ranks that are more than a power of two.
mod fold;
/// From all to one.
pub(crate) mod gather;
/// What Open MPI's algorithms have of their own.
pub(crate) mod open_mpi;
/// A buffer cut in parts.
mod parts;
/// Reductions to one.
pub(crate) mod reduce;
/// Reductions of which each gets a part.
pub(crate) mod reduce_scatter;
/// Prefixes, and barriers.
pub(crate) mod scan;
/// Parts from one to all.
pub(crate) mod scatter;
