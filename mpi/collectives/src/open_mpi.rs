//! What Open MPI 4.1 makes of collective operations.
//!
//! Its rules stand in its code, not in tables of its file; those of its module `tuned` are in `data/open-mpi-4.1.txt`. They hold where
//! neither the user forces others (`coll_tuned_use_dynamic_rules`) nor other modules are preferred (`han`, `adapt`, `hcoll`). Data goes
//! as whole messages: the rules ask for no segments. `basic` carries out what `tuned` does not, and `libnbc` what is nonblocking. Called by
//! [`Tables`](crate::Tables) and by algorithms that are made of other operations.

/// Algorithms by their names, and their schedules.
mod algorithm;
/// Which algorithm is taken for which call.
mod rules;

use crate::algorithm::Algorithm;
use belljar_mpi::Operation;

use crate::call::Call;
use crate::library;
use crate::schedule::Builder;

pub use algorithm::OpenMpiAlgorithm;
use rules::tuned;

use OpenMpiAlgorithm as Own;

/// Whether a library's file is one of Open MPI 4.1: it has its name's form, and its version.
pub(crate) fn is_library(library: &[u8]) -> bool {
    let parts: [&[u8]; 2] = [b"Open MPI v%d.%d.%d", b"\0v4.1."];
    parts.iter().all(|part| library::has(library, part))
}

/// What is taken for a call; `None` where the call does not tell that.
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
        // The rules ask for the count that stands beside MPI_IN_PLACE, which may be any.
        Operation::Allgather if call.in_place && call.members >= 32 => None,
        _ => tuned(call),
    }
}

/// What the module `libnbc` takes (the `nbc_i*.c` of `ompi/mca/coll/libnbc`).
fn nonblocking(call: &Call) -> Option<Algorithm> {
    let few = call.members <= 4;
    let power = 1u64 << call.members.max(1).ilog2();
    let halves = call.commutative && call.count >= power;
    let small = call.bytes() < 65536;
    let own = match call.operation {
        Operation::Barrier => return Some(Algorithm::BarrierDissemination),
        Operation::Broadcast if few => Own::BroadcastLinear,
        // In fragments it would go where `coll_libnbc_ibcast_skip_dt_decision` is not set, which it is.
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

/// Whether the library returns at once, since there is no data. The nonblocking forms of some send empty messages.
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

/// Builds the caller's part of an operation that is a part of another one.
pub(crate) fn build(call: &Call, to: &mut Builder) {
    if let Some(algorithm) = choose(call) {
        algorithm.build(call, to);
    }
}

#[cfg(test)]
mod tests;
