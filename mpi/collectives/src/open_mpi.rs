//! Collective operations of Open MPI 4.1.
//!
//! Its rules are in its code, not in tables of its file; those of its module `tuned` are in `data/open-mpi-4.1.txt`. They apply if the user
//! does not force others (`coll_tuned_use_dynamic_rules`) and other modules are not preferred (`han`, `adapt`, `hcoll`). Data is sent as
//! whole messages: the rules request no segments. `basic` implements the operations that `tuned` does not, and `libnbc` the nonblocking
//! ones. Used by [`Tables`](crate::Tables) and by algorithms composed of other operations.

/// Algorithms by their names.
mod algorithm;
/// Choice of algorithms.
mod rules;

use crate::algorithm::Algorithm;
use belljar_mpi::Operation;

use crate::call::Call;
use crate::library;

pub use algorithm::OpenMpiAlgorithm;
use rules::tuned;

use OpenMpiAlgorithm as Own;

/// True for a library's file of Open MPI 4.1: it contains the format of its name, and its version.
pub(crate) fn is_library(library: &[u8]) -> bool {
    let parts: [&[u8]; 2] = [b"Open MPI v%d.%d.%d", b"\0v4.1."];
    parts.iter().all(|part| library::has(library, part))
}

/// Chooses the algorithm for a call; `None` if the call does not determine it.
pub(crate) fn choose(call: &Call) -> Option<Algorithm> {
    let own = |algorithm| Some(Algorithm::OpenMpi(algorithm));
    if is_nothing(call) {
        return own(Own::Nothing);
    }
    if call.nonblocking {
        return nonblocking(call);
    }
    match call.operation {
        Operation::Gatherv => Some(Algorithm::GathervLinear),
        Operation::Scatterv => Some(Algorithm::ScattervLinear),
        Operation::Alltoallw if call.in_place => own(Own::AlltoallvInPlace),
        Operation::Alltoallw => own(Own::AlltoallvNonempty),
        Operation::Alltoall if call.in_place => own(Own::AlltoallInPlace),
        Operation::Alltoallv if call.in_place => own(Own::AlltoallvInPlace),
        Operation::Scan | Operation::Exscan => own(Own::ScanLinear),
        // The rules use the count passed with MPI_IN_PLACE, which may be any.
        Operation::Allgather if call.in_place && call.members >= 32 => None,
        _ => tuned(call),
    }
}

/// Chooses the algorithm of the module `libnbc` (the `nbc_i*.c` of `ompi/mca/coll/libnbc`).
fn nonblocking(call: &Call) -> Option<Algorithm> {
    let few = call.members <= 4;
    let power = 1u64 << call.members.max(1).ilog2();
    let halves = call.commutative && call.count >= power;
    let small = call.bytes() < 65536;
    let own = match call.operation {
        Operation::Barrier => return Some(Algorithm::BarrierDissemination),
        Operation::Broadcast if few => Own::BroadcastLinear,
        // It would use fragments if `coll_libnbc_ibcast_skip_dt_decision` were not set, but it is.
        Operation::Broadcast => Own::BroadcastSwappedBinomialTree,
        Operation::Gather => Own::GatherLinear,
        Operation::Gatherv => Own::GathervLinear,
        Operation::Scatter => Own::ScatterLinear,
        Operation::Scatterv => Own::ScattervLinear,
        Operation::Allgather => Own::AllgatherLinear,
        Operation::Allgatherv => Own::AllgathervLinear,
        Operation::Alltoall if call.in_place => Own::AlltoallInPlace,
        Operation::Alltoallv if call.in_place => Own::AlltoallvInPlace,
        Operation::Alltoallw if call.in_place => Own::AlltoallwInPlace,
        Operation::Alltoall => Own::AlltoallLinear,
        Operation::Alltoallv | Operation::Alltoallw => Own::AlltoallvNonempty,
        Operation::Reduce if halves && call.members > 2 => Own::ReduceHalvingGather,
        Operation::Reduce if !few || small || !call.commutative => Own::ReduceSwappedBinomialTree,
        Operation::Reduce => Own::ReduceSwappedChain,
        Operation::Allreduce if call.members < 4 || small || !call.commutative || call.in_place => {
            Own::AllreduceBinomialTree
        }
        Operation::Allreduce if halves => Own::AllreduceHalvingDoubling,
        Operation::Allreduce => Own::AllreduceShiftedRing,
        Operation::ReduceScatter | Operation::ReduceScatterBlock => Own::ReduceScatterBinomialTree,
        Operation::Scan | Operation::Exscan => Own::ScanLinear,
        Operation::NeighborAllgather
        | Operation::NeighborAllgatherv
        | Operation::NeighborAlltoall
        | Operation::NeighborAlltoallv
        | Operation::NeighborAlltoallw => return None,
    };
    Some(Algorithm::OpenMpi(own))
}

/// True if the library returns at once, since there is no data. The nonblocking forms of some send empty messages.
fn is_nothing(call: &Call) -> bool {
    match call.operation {
        Operation::Broadcast
        | Operation::Reduce
        | Operation::Allreduce
        | Operation::ReduceScatterBlock
        | Operation::Scan => call.count == 0,
        Operation::Gather
        | Operation::Scatter
        | Operation::Allgather
        | Operation::Alltoall
        | Operation::Exscan => call.count == 0 && !call.nonblocking,
        Operation::Allgatherv => call.total_bytes() == 0 && !call.nonblocking,
        Operation::ReduceScatter => call.total_bytes() == 0,
        Operation::Barrier
        | Operation::Gatherv
        | Operation::Scatterv
        | Operation::Alltoallv
        | Operation::Alltoallw
        | Operation::NeighborAllgather
        | Operation::NeighborAllgatherv
        | Operation::NeighborAlltoall
        | Operation::NeighborAlltoallv
        | Operation::NeighborAlltoallw => false,
    }
}

#[cfg(test)]
mod tests;
