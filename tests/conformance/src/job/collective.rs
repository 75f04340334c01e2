//! Collective operations that jobs have, and the bytes of their pieces.
//!
//! All members of an operation compute a piece's bytes from the same numbers, so that sender and receiver agree. Used by the
//! generator, the recorder and the truth.

/// Collective operations that jobs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    ReduceScatterBlock,
    Scan,
    Exscan,
    Gatherv,
    Scatterv,
    Allgatherv,
    Alltoallv,
    Alltoallw,
    ReduceScatter,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
    NeighborAlltoallw,
}

impl Collective {
    /// Operations of neighbours.
    pub(crate) const NEIGHBORS: [Self; 5] = [
        Self::NeighborAllgather,
        Self::NeighborAllgatherv,
        Self::NeighborAlltoall,
        Self::NeighborAlltoallv,
        Self::NeighborAlltoallw,
    ];

    /// Operations that jobs have on intercommunicators.
    pub(crate) const BETWEEN: [Self; 7] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::Allreduce,
        Self::Alltoall,
    ];

    pub(crate) const ALL: [Self; 17] = [
        Self::Barrier,
        Self::Bcast,
        Self::Reduce,
        Self::Allreduce,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::Alltoall,
        Self::ReduceScatterBlock,
        Self::Scan,
        Self::Exscan,
        Self::Gatherv,
        Self::Scatterv,
        Self::Allgatherv,
        Self::Alltoallv,
        Self::Alltoallw,
        Self::ReduceScatter,
    ];
}

impl Collective {
    /// True for operations of neighbours.
    pub(crate) fn is_neighborhood(self) -> bool {
        Self::NEIGHBORS.contains(&self)
    }

    /// Bytes of the piece that goes from one rank to another: those with a count for each differ.
    pub(crate) fn piece(self, bytes: u64, from: u32, to: u32) -> u64 {
        let more = match self {
            Self::Gatherv | Self::Allgatherv | Self::NeighborAllgatherv => from,
            Self::Scatterv | Self::ReduceScatter => to,
            Self::Alltoallv
            | Self::Alltoallw
            | Self::NeighborAlltoallv
            | Self::NeighborAlltoallw => from + 2 * to,
            _ => 0,
        };
        bytes + 8 * u64::from(more % 3)
    }
}
