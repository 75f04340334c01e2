//! What Open MPI's algorithms have of their own.
//!
//! Where an algorithm is MPICH's, too, that is used. The modules `basic` and `tuned` carry out blocking operations, `libnbc`
//! the nonblocking ones. Data is not cut in segments: `tuned` could, but its fixed rules ask for none. The forms are those of Open MPI 4.1
//! (`ompi/mca/coll/base`, `ompi/mca/coll/basic`, `ompi/mca/coll/libnbc`). Called by `open_mpi::algorithm`.

/// Gathers whose result all get.
pub(crate) mod allgather;
/// Reductions whose result all get.
pub(crate) mod allreduce;
/// Exchanges of each with each.
pub(crate) mod alltoall;
/// Barriers.
pub(crate) mod barrier;
/// From one to all.
pub(crate) mod broadcast;
/// From all to one, and parts from one to all.
pub(crate) mod gather;
/// Reductions to one, and prefixes.
pub(crate) mod reduce;
/// Reductions of which each gets a part.
pub(crate) mod reduce_scatter;
/// Who is above and below whom.
mod trees;
