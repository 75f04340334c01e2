//! Collective operations of MPI (MPI-4.0, chapters 6 and 8.6).
//!
//! The blocking, nonblocking and persistent functions of an operation share one value. The order of the values is part
//! of the trace's format: new ones go to the end.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A collective operation that moves data or synchronises.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
pub enum Operation {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Broadcast,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Gatherv`.
    Gatherv,
    /// `MPI_Scatter`.
    Scatter,
    /// `MPI_Scatterv`.
    Scatterv,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Allgatherv`.
    Allgatherv,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Alltoallv`.
    Alltoallv,
    /// `MPI_Alltoallw`.
    Alltoallw,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Reduce_scatter`.
    ReduceScatter,
    /// `MPI_Reduce_scatter_block`.
    ReduceScatterBlock,
    /// `MPI_Scan`.
    Scan,
    /// `MPI_Exscan`.
    Exscan,
    /// `MPI_Neighbor_allgather`.
    NeighborAllgather,
    /// `MPI_Neighbor_allgatherv`.
    NeighborAllgatherv,
    /// `MPI_Neighbor_alltoall`.
    NeighborAlltoall,
    /// `MPI_Neighbor_alltoallv`.
    NeighborAlltoallv,
    /// `MPI_Neighbor_alltoallw`.
    NeighborAlltoallw,
}

impl Operation {
    /// All of them, in the order of their values.
    pub const ALL: [Self; 22] = [
        Self::Barrier,
        Self::Broadcast,
        Self::Gather,
        Self::Gatherv,
        Self::Scatter,
        Self::Scatterv,
        Self::Allgather,
        Self::Allgatherv,
        Self::Alltoall,
        Self::Alltoallv,
        Self::Alltoallw,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
        Self::ReduceScatterBlock,
        Self::Scan,
        Self::Exscan,
        Self::NeighborAllgather,
        Self::NeighborAllgatherv,
        Self::NeighborAlltoall,
        Self::NeighborAlltoallv,
        Self::NeighborAlltoallw,
    ];

    /// The name of the blocking function without `MPI_`, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "bcast",
            Self::Gather => "gather",
            Self::Gatherv => "gatherv",
            Self::Scatter => "scatter",
            Self::Scatterv => "scatterv",
            Self::Allgather => "allgather",
            Self::Allgatherv => "allgatherv",
            Self::Alltoall => "alltoall",
            Self::Alltoallv => "alltoallv",
            Self::Alltoallw => "alltoallw",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::ReduceScatterBlock => "reduce_scatter_block",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
            Self::NeighborAllgather => "neighbor_allgather",
            Self::NeighborAllgatherv => "neighbor_allgatherv",
            Self::NeighborAlltoall => "neighbor_alltoall",
            Self::NeighborAlltoallv => "neighbor_alltoallv",
            Self::NeighborAlltoallw => "neighbor_alltoallw",
        }
    }

    /// The operation with this [name](Self::name), in any case.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|operation| operation.name().eq_ignore_ascii_case(name))
    }

    /// True if data passes among neighbours of the communicator's topology only.
    pub const fn is_neighborhood(self) -> bool {
        matches!(
            self,
            Self::NeighborAllgather
                | Self::NeighborAllgatherv
                | Self::NeighborAlltoall
                | Self::NeighborAlltoallv
                | Self::NeighborAlltoallw
        )
    }

    /// True if each member needs those of lower ranks only.
    pub const fn is_prefix(self) -> bool {
        matches!(self, Self::Scan | Self::Exscan)
    }
}
