//! Algorithms by their names.
//!
//! An algorithm is a function of the call alone: it returns the caller's own part, without other ranks' calls. The names are MPICH's;
//! algorithms that only Open MPI has are in `open_mpi`. Used once an algorithm was chosen, by [`Tables`](crate::Tables) or otherwise.

use serde::{Deserialize, Serialize};

use crate::nodes::NodeComposition;
use crate::open_mpi::OpenMpiAlgorithm;

/// The algorithm of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Algorithm {
    /// Rounds in which each rank receives from one twice as far away.
    BarrierDissemination,
    /// Down a binomial tree.
    BroadcastBinomial,
    /// Pieces down a binomial tree, then gathered by all, with the distance of partners doubled in each round.
    BroadcastScatterRecursiveDoublingAllgather,
    /// Pieces down a binomial tree, then gathered by all in a ring.
    BroadcastScatterRingAllgather,
    /// Up a binomial tree.
    GatherBinomial,
    /// From each rank directly to the root.
    GathervLinear,
    /// Down a binomial tree.
    ScatterBinomial,
    /// From the root directly to each rank.
    ScattervLinear,
    /// With the distance of partners doubled in each round.
    AllgatherRecursiveDoubling,
    /// Bruck's algorithm: half as many rounds for any number of ranks, with a rotation at the end.
    AllgatherBrucks,
    /// In a ring.
    AllgatherRing,
    /// As [`AllgatherRecursiveDoubling`](Self::AllgatherRecursiveDoubling), with pieces.
    AllgathervRecursiveDoubling,
    /// As [`AllgatherBrucks`](Self::AllgatherBrucks), with pieces.
    AllgathervBrucks,
    /// In a ring, with large pieces split.
    AllgathervRing,
    /// Bruck's algorithm: blocks travel by the bits of their distance.
    AlltoallBrucks,
    /// All at once, 32 partners at a time.
    AlltoallScattered,
    /// One partner after the other.
    AlltoallPairwise,
    /// One partner after the other, each block replacing the other.
    AlltoallPairwiseReplace,
    /// As [`AlltoallScattered`](Self::AlltoallScattered), without empty pieces.
    AlltoallvScattered,
    /// As [`AlltoallPairwiseReplace`](Self::AlltoallPairwiseReplace), with pieces.
    AlltoallvPairwiseReplace,
    /// Up a binomial tree, combined on the way.
    ReduceBinomial,
    /// Rabenseifner's algorithm: a reduce-scatter by halves, then a gather.
    ReduceScatterGather,
    /// With the distance of partners doubled in each round.
    AllreduceRecursiveDoubling,
    /// Rabenseifner's algorithm: a reduce-scatter by halves, then an allgather.
    AllreduceReduceScatterAllgather,
    /// On each node, then among nodes: with one rank on each node no message is sent. MPICH's tables name it if there is nothing to reduce.
    AllreduceByNode,
    /// Halves, with the distance of partners halved in each round.
    ReduceScatterRecursiveHalving,
    /// One partner after the other.
    ReduceScatterPairwise,
    /// With the distance of partners doubled in each round, in the order of ranks.
    ReduceScatterRecursiveDoubling,
    /// By halves, in the order of ranks.
    ReduceScatterNoncommutative,
    /// With the distance of partners doubled in each round.
    ScanRecursiveDoubling,
    /// An algorithm that only Open MPI has.
    OpenMpi(OpenMpiAlgorithm),
    /// Stages on nodes and among nodes, which are given separately ([`Stage`](crate::Stage)).
    OnNodes(NodeComposition),
}

/// Names in MPICH's tables, without the `MPIR_` and, in the nonblocking form, the `I` and the `_sched`.
const NAMES: [(&str, Algorithm); 37] = [
    (
        "barrier_intra_dissemination",
        Algorithm::BarrierDissemination,
    ),
    (
        "barrier_intra_recursive_doubling",
        Algorithm::BarrierDissemination,
    ),
    ("bcast_intra_binomial", Algorithm::BroadcastBinomial),
    (
        "bcast_intra_scatter_recursive_doubling_allgather",
        Algorithm::BroadcastScatterRecursiveDoublingAllgather,
    ),
    (
        "bcast_intra_scatter_ring_allgather",
        Algorithm::BroadcastScatterRingAllgather,
    ),
    ("gather_intra_binomial", Algorithm::GatherBinomial),
    ("gatherv_allcomm_linear", Algorithm::GathervLinear),
    ("scatter_intra_binomial", Algorithm::ScatterBinomial),
    ("scatterv_allcomm_linear", Algorithm::ScattervLinear),
    (
        "allgather_intra_recursive_doubling",
        Algorithm::AllgatherRecursiveDoubling,
    ),
    ("allgather_intra_brucks", Algorithm::AllgatherBrucks),
    ("allgather_intra_ring", Algorithm::AllgatherRing),
    (
        "allgatherv_intra_recursive_doubling",
        Algorithm::AllgathervRecursiveDoubling,
    ),
    ("allgatherv_intra_brucks", Algorithm::AllgathervBrucks),
    ("allgatherv_intra_ring", Algorithm::AllgathervRing),
    ("alltoall_intra_brucks", Algorithm::AlltoallBrucks),
    ("alltoall_intra_scattered", Algorithm::AlltoallScattered),
    (
        "alltoall_intra_permuted_sendrecv",
        Algorithm::AlltoallScattered,
    ),
    ("alltoall_intra_pairwise", Algorithm::AlltoallPairwise),
    (
        "alltoall_intra_pairwise_sendrecv_replace",
        Algorithm::AlltoallPairwiseReplace,
    ),
    ("alltoallv_intra_scattered", Algorithm::AlltoallvScattered),
    ("alltoallv_intra_blocked", Algorithm::AlltoallvScattered),
    (
        "alltoallv_intra_pairwise_sendrecv_replace",
        Algorithm::AlltoallvPairwiseReplace,
    ),
    ("reduce_intra_binomial", Algorithm::ReduceBinomial),
    (
        "reduce_intra_reduce_scatter_gather",
        Algorithm::ReduceScatterGather,
    ),
    (
        "allreduce_intra_recursive_doubling",
        Algorithm::AllreduceRecursiveDoubling,
    ),
    ("allreduce_intra_smp", Algorithm::AllreduceByNode),
    (
        "allreduce_intra_reduce_scatter_allgather",
        Algorithm::AllreduceReduceScatterAllgather,
    ),
    (
        "reduce_scatter_intra_recursive_halving",
        Algorithm::ReduceScatterRecursiveHalving,
    ),
    (
        "reduce_scatter_intra_pairwise",
        Algorithm::ReduceScatterPairwise,
    ),
    (
        "reduce_scatter_intra_recursive_doubling",
        Algorithm::ReduceScatterRecursiveDoubling,
    ),
    (
        "reduce_scatter_intra_noncommutative",
        Algorithm::ReduceScatterNoncommutative,
    ),
    (
        "scan_intra_recursive_doubling",
        Algorithm::ScanRecursiveDoubling,
    ),
    (
        "exscan_intra_recursive_doubling",
        Algorithm::ScanRecursiveDoubling,
    ),
    ("alltoallw_intra_scattered", Algorithm::AlltoallvScattered),
    ("alltoallw_intra_blocked", Algorithm::AlltoallvScattered),
    (
        "alltoallw_intra_pairwise_sendrecv_replace",
        Algorithm::AlltoallvPairwiseReplace,
    ),
];

impl Algorithm {
    /// All algorithms of MPICH.
    pub const ALL: [Self; 29] = [
        Self::BarrierDissemination,
        Self::BroadcastBinomial,
        Self::BroadcastScatterRecursiveDoublingAllgather,
        Self::BroadcastScatterRingAllgather,
        Self::GatherBinomial,
        Self::GathervLinear,
        Self::ScatterBinomial,
        Self::ScattervLinear,
        Self::AllgatherRecursiveDoubling,
        Self::AllgatherBrucks,
        Self::AllgatherRing,
        Self::AllgathervRecursiveDoubling,
        Self::AllgathervBrucks,
        Self::AllgathervRing,
        Self::AlltoallBrucks,
        Self::AlltoallScattered,
        Self::AlltoallPairwise,
        Self::AlltoallPairwiseReplace,
        Self::AlltoallvScattered,
        Self::AlltoallvPairwiseReplace,
        Self::ReduceBinomial,
        Self::ReduceScatterGather,
        Self::AllreduceRecursiveDoubling,
        Self::AllreduceReduceScatterAllgather,
        Self::ReduceScatterRecursiveHalving,
        Self::ReduceScatterPairwise,
        Self::ReduceScatterRecursiveDoubling,
        Self::ReduceScatterNoncommutative,
        Self::ScanRecursiveDoubling,
    ];

    /// Returns the algorithm with this name in MPICH's tables; `None` for an unknown name.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("MPIR_")?.to_ascii_lowercase();
        let name = name
            .replace("_sched_", "_")
            .replace("_scatter_block_", "_scatter_");
        let find = |name: &str| NAMES.iter().find(|(own, _)| *own == name);
        let found = find(&name).or_else(|| {
            // All nonblocking forms of algorithms that work in place have this name.
            let name = name.strip_prefix('i')?;
            let in_place = name.strip_suffix("_intra_inplace");
            let in_place = in_place.map(|name| format!("{name}_intra_pairwise_sendrecv_replace"));
            find(in_place.as_deref().unwrap_or(name))
        });
        found.map(|(_, algorithm)| *algorithm)
    }

    /// Returns its name.
    pub fn name(self) -> String {
        match self {
            Self::OpenMpi(own) => format!("{own:?}"),
            Self::OnNodes(own) => format!("{own:?}OnNodes"),
            own => format!("{own:?}"),
        }
    }

    /// True if it only supports communicators with a power of two of members.
    pub fn needs_power_of_two(self) -> bool {
        matches!(
            self,
            Self::BroadcastScatterRecursiveDoublingAllgather
                | Self::AllgatherRecursiveDoubling
                | Self::AllgathervRecursiveDoubling
                | Self::ReduceScatterNoncommutative
        )
    }
}
