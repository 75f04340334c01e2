//! Open MPI's own algorithms by their names.
//!
//! "Linear" is the library's name for an operation without a tree. Used by [`Algorithm`](crate::Algorithm).

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
}
