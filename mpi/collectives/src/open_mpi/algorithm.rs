//! Open MPI's own algorithms by their names, and their schedules.
//!
//! "Linear" is the library's name for an operation without a tree. Used by [`Algorithm`](crate::Algorithm).

use crate::algorithms::open_mpi::{
    allgather, allreduce, alltoall, barrier, broadcast, gather, reduce, reduce_scatter,
};
use crate::call::Call;
use crate::schedule::Builder;
use serde::{Deserialize, Serialize};

/// An algorithm of Open MPI that MPICH does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OpenMpiAlgorithm {
    /// No messages, as there is no data.
    Nothing,
    /// All ranks send to rank 0, which answers all.
    BarrierLinear,
    /// With the distance of partners doubled in each round; ranks from the power of two on have a partner below it.
    BarrierRecursiveDoubling,
    /// Up a binomial tree, and down again.
    BarrierTree,
    /// From the root directly to each rank.
    BroadcastLinear,
    /// From each rank to the next.
    BroadcastChain,
    /// A half down each side of a binary tree, then exchanged.
    BroadcastSplitBinaryTree,
    /// Down a binary tree.
    BroadcastBinaryTree,
    /// Down a binomial tree, the nearest first.
    BroadcastBinomialTree,
    /// Down a tree of radix 4.
    BroadcastKnomialTree,
    /// Pieces down a binomial tree, then gathered by all, with the distance of partners doubled in each round.
    BroadcastScatterAllgather,
    /// As [`BroadcastBinomialTree`](Self::BroadcastBinomialTree), with the root and rank 0 swapped.
    BroadcastSwappedBinomialTree,
    /// From each rank directly to the root.
    GatherLinear,
    /// From each rank directly to the root, on the root's request.
    GatherLinearSynchronised,
    /// From each rank directly to the root, including empty pieces.
    GathervLinear,
    /// From the root directly to each rank.
    ScatterLinear,
    /// From the root directly to each rank, including empty pieces.
    ScattervLinear,
    /// From each rank directly to all others.
    AllgatherLinear,
    /// With both neighbours in turns, two blocks at a time.
    AllgatherNeighborExchange,
    /// As [`AllgatherLinear`](Self::AllgatherLinear), with pieces.
    AllgathervLinear,
    /// In a ring, with whole pieces.
    AllgathervRing,
    /// As [`AllgatherNeighborExchange`](Self::AllgatherNeighborExchange), with pieces.
    AllgathervNeighborExchange,
    /// Gathered by rank 0, and broadcast.
    AllgathervGatherBroadcast,
    /// All at once.
    AlltoallLinear,
    /// One partner after the other, modulo the number of members.
    AlltoallPairwise,
    /// In place, with the ranks before and after the caller at every distance.
    AlltoallInPlace,
    /// All at once, including empty pieces.
    AlltoallvLinear,
    /// One partner after the other, modulo the number of members, including empty pieces.
    AlltoallvPairwise,
    /// All at once, without empty pieces.
    AlltoallvNonempty,
    /// As [`AlltoallInPlace`](Self::AlltoallInPlace), without empty pieces.
    AlltoallvInPlace,
    /// As [`AlltoallvInPlace`](Self::AlltoallvInPlace), except for the opposite rank's piece.
    AlltoallwInPlace,
    /// From each rank directly to the root.
    ReduceLinear,
    /// From each rank to the previous one.
    ReduceChain,
    /// Up a binary tree.
    ReduceBinaryTree,
    /// Up a binary tree in the order of ranks.
    ReduceOrderedBinaryTree,
    /// Rabenseifner's algorithm: a reduce-scatter by halves, then a gather.
    ReduceHalvingGather,
    /// Up a binomial tree, with the root and rank 0 swapped.
    ReduceSwappedBinomialTree,
    /// From each rank to the previous one in fragments, with the root and rank 0 swapped.
    ReduceSwappedChain,
    /// All ranks directly to rank 0, and back.
    AllreduceLinear,
    /// Up a binomial tree, and down again.
    AllreduceBinomialTree,
    /// A reduction and a broadcast.
    AllreduceReduceBroadcast,
    /// A reduce-scatter and an allgather in a ring.
    AllreduceRing,
    /// The same, beginning with the next rank's part.
    AllreduceShiftedRing,
    /// Rabenseifner's algorithm: a reduce-scatter by halves, then an allgather.
    AllreduceHalvingDoubling,
    /// A reduction and a scatter.
    ReduceScatterByRoot,
    /// Up a binomial tree, and directly to each rank.
    ReduceScatterBinomialTree,
    /// In a ring.
    ReduceScatterRing,
    /// Halves, with the distance of partners doubled in each round, then to their owners.
    ReduceScatterButterfly,
    /// From each rank to the next.
    ScanLinear,
}

impl OpenMpiAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 49] = [
        Self::Nothing,
        Self::BarrierLinear,
        Self::BarrierRecursiveDoubling,
        Self::BarrierTree,
        Self::BroadcastLinear,
        Self::BroadcastChain,
        Self::BroadcastSplitBinaryTree,
        Self::BroadcastBinaryTree,
        Self::BroadcastBinomialTree,
        Self::BroadcastKnomialTree,
        Self::BroadcastScatterAllgather,
        Self::BroadcastSwappedBinomialTree,
        Self::GatherLinear,
        Self::GatherLinearSynchronised,
        Self::GathervLinear,
        Self::ScatterLinear,
        Self::ScattervLinear,
        Self::AllgatherLinear,
        Self::AllgatherNeighborExchange,
        Self::AllgathervLinear,
        Self::AllgathervRing,
        Self::AllgathervNeighborExchange,
        Self::AllgathervGatherBroadcast,
        Self::AlltoallLinear,
        Self::AlltoallPairwise,
        Self::AlltoallInPlace,
        Self::AlltoallvLinear,
        Self::AlltoallvPairwise,
        Self::AlltoallvNonempty,
        Self::AlltoallvInPlace,
        Self::AlltoallwInPlace,
        Self::ReduceLinear,
        Self::ReduceChain,
        Self::ReduceBinaryTree,
        Self::ReduceOrderedBinaryTree,
        Self::ReduceHalvingGather,
        Self::ReduceSwappedBinomialTree,
        Self::ReduceSwappedChain,
        Self::AllreduceLinear,
        Self::AllreduceBinomialTree,
        Self::AllreduceReduceBroadcast,
        Self::AllreduceRing,
        Self::AllreduceShiftedRing,
        Self::AllreduceHalvingDoubling,
        Self::ReduceScatterByRoot,
        Self::ReduceScatterBinomialTree,
        Self::ReduceScatterRing,
        Self::ReduceScatterButterfly,
        Self::ScanLinear,
    ];

    /// Builds the caller's part of a valid call of a communicator of at least two members.
    pub(crate) fn build(self, call: &Call, to: &mut Builder) {
        let build = match self {
            Self::Nothing => return,
            Self::BarrierLinear => barrier::linear,
            Self::BarrierRecursiveDoubling => barrier::doubling,
            Self::BarrierTree => barrier::tree,
            Self::BroadcastLinear => broadcast::linear,
            Self::BroadcastChain => broadcast::chain,
            Self::BroadcastSplitBinaryTree => broadcast::split_binary,
            Self::BroadcastBinaryTree => broadcast::binary,
            Self::BroadcastBinomialTree => broadcast::binomial,
            Self::BroadcastKnomialTree => broadcast::knomial,
            Self::BroadcastScatterAllgather => broadcast::scatter_allgather,
            Self::BroadcastSwappedBinomialTree => broadcast::swapped_binomial,
            Self::GatherLinear => gather::linear,
            Self::GatherLinearSynchronised => gather::synchronised,
            Self::GathervLinear => gather::pieces,
            Self::ScatterLinear => gather::scatter,
            Self::ScattervLinear => gather::scatter_pieces,
            Self::AllgatherLinear => allgather::linear,
            Self::AllgatherNeighborExchange => allgather::neighbor,
            Self::AllgathervLinear => allgather::linear_pieces,
            Self::AllgathervRing => allgather::ring_pieces,
            Self::AllgathervNeighborExchange => allgather::neighbor_pieces,
            Self::AllgathervGatherBroadcast => allgather::gather_broadcast,
            Self::AlltoallLinear => alltoall::linear,
            Self::AlltoallPairwise => alltoall::pairwise,
            Self::AlltoallInPlace => alltoall::in_place,
            Self::AlltoallvLinear => alltoall::linear_pieces,
            Self::AlltoallvPairwise => alltoall::pairwise_pieces,
            Self::AlltoallvNonempty => alltoall::linear_nonempty,
            Self::AlltoallwInPlace => alltoall::in_place_opposite,
            Self::AlltoallvInPlace => alltoall::in_place_pieces,
            Self::ReduceLinear => reduce::linear,
            Self::ReduceChain => reduce::chain,
            Self::ReduceBinaryTree => reduce::binary,
            Self::ReduceOrderedBinaryTree => reduce::ordered_binary,
            Self::ReduceHalvingGather => reduce::halving_gather,
            Self::ReduceSwappedBinomialTree => reduce::swapped_binomial,
            Self::ReduceSwappedChain => reduce::swapped_chain,
            Self::AllreduceLinear => allreduce::linear,
            Self::AllreduceBinomialTree => allreduce::binomial,
            Self::AllreduceReduceBroadcast => allreduce::reduce_broadcast,
            Self::AllreduceRing => allreduce::ring,
            Self::AllreduceShiftedRing => allreduce::shifted_ring,
            Self::AllreduceHalvingDoubling => allreduce::halving_doubling,
            Self::ReduceScatterByRoot => reduce_scatter::by_root,
            Self::ReduceScatterBinomialTree => reduce_scatter::binomial,
            Self::ReduceScatterRing => reduce_scatter::ring,
            Self::ReduceScatterButterfly => reduce_scatter::butterfly,
            Self::ScanLinear => reduce::scan,
        };
        build(call, to);
    }
}
