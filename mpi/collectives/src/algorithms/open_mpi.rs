//! Algorithms that only Open MPI has.
//!
//! If MPICH has the same algorithm, that one is used. The modules `basic` and `tuned` implement blocking operations, `libnbc` the
//! nonblocking ones. Data is not segmented: `tuned` supports segments, but its fixed rules request none. The algorithms are those of Open
//! MPI 4.1 (`ompi/mca/coll/base`, `ompi/mca/coll/basic`, `ompi/mca/coll/libnbc`). Used by `open_mpi::algorithm`.

/// Gathers with the result at all ranks.
pub(crate) mod allgather;
/// Reductions with the result at all ranks.
pub(crate) mod allreduce;
/// Exchanges of all ranks with all.
pub(crate) mod alltoall;
/// Barriers.
pub(crate) mod barrier;
/// From one to all.
pub(crate) mod broadcast;
/// From all to one, and parts from one to all.
pub(crate) mod gather;
/// Reductions to one, and prefixes.
pub(crate) mod reduce;
/// Reductions with a part of the result at each rank.
pub(crate) mod reduce_scatter;
/// Trees of ranks.
mod trees;
