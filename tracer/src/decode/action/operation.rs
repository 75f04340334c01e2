//! Families of collective operations, by names.
//!
//! Called once for each function, when its action is worked out.

/// A family of collective operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Barrier,
    Broadcast,
    Gather,
    GatherV,
    Scatter,
    ScatterV,
    AllGather,
    AllGatherV,
    AllToAll,
    AllToAllV,
    AllToAllW,
    Reduce,
    /// And its prefixes, `Scan` and `Exscan`: everyone gives and gets as much.
    AllReduce,
    ReduceScatter,
    ReduceScatterBlock,
    NeighborAllGather,
    NeighborAllGatherV,
    NeighborAllToAll,
    NeighborAllToAllV,
    NeighborAllToAllW,
}

impl Operation {
    /// The family of a blocking function's name without `MPI_`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "Barrier" => Self::Barrier,
            "Bcast" => Self::Broadcast,
            "Gather" => Self::Gather,
            "Gatherv" => Self::GatherV,
            "Scatter" => Self::Scatter,
            "Scatterv" => Self::ScatterV,
            "Allgather" => Self::AllGather,
            "Allgatherv" => Self::AllGatherV,
            "Alltoall" => Self::AllToAll,
            "Alltoallv" => Self::AllToAllV,
            "Alltoallw" => Self::AllToAllW,
            "Reduce" => Self::Reduce,
            "Allreduce" | "Scan" | "Exscan" => Self::AllReduce,
            "Reduce_scatter" => Self::ReduceScatter,
            "Reduce_scatter_block" => Self::ReduceScatterBlock,
            "Neighbor_allgather" => Self::NeighborAllGather,
            "Neighbor_allgatherv" => Self::NeighborAllGatherV,
            "Neighbor_alltoall" => Self::NeighborAllToAll,
            "Neighbor_alltoallv" => Self::NeighborAllToAllV,
            "Neighbor_alltoallw" => Self::NeighborAllToAllW,
            _ => return None,
        })
    }
}
