//! Algorithms by their names, and their schedules.
//!
//! An algorithm is a function of the call alone: it gives the caller's own part, without other ranks' calls. The names are
//! MPICH's; those that only Open MPI has are in `open_mpi`. Called by whoever has chosen one, by [`Tables`](crate::Tables) or otherwise.

use serde::{Deserialize, Serialize};

use crate::algorithms::{
    allgather, allreduce, alltoall, broadcast, gather, reduce, reduce_scatter, scan, scatter,
};
use crate::call::Call;
use crate::nodes::{NodeComposition, Stage};
use crate::open_mpi::OpenMpiAlgorithm;
use crate::schedule::{Builder, Schedule};

/// How a collective operation is carried out with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Algorithm {
    /// Rounds in which each rank hears of one twice as far away.
    BarrierDissemination,
    /// Down a binomial tree.
    BroadcastBinomial,
    /// Pieces down a binomial tree, then gathered by all, with partners twice as far away each time.
    BroadcastScatterRecursiveDoublingAllgather,
    /// Pieces down a binomial tree, then gathered by all in a ring.
    BroadcastScatterRingAllgather,
    /// Up a binomial tree.
    GatherBinomial,
    /// From each straight to the root.
    GathervLinear,
    /// Down a binomial tree.
    ScatterBinomial,
    /// From the root straight to each.
    ScattervLinear,
    /// Partners twice as far away each time.
    AllgatherRecursiveDoubling,
    /// Bruck's: half as many rounds for any number of ranks, with a rotation at the end.
    AllgatherBrucks,
    /// In a ring.
    AllgatherRing,
    /// As [`AllgatherRecursiveDoubling`](Self::AllgatherRecursiveDoubling), with pieces.
    AllgathervRecursiveDoubling,
    /// As [`AllgatherBrucks`](Self::AllgatherBrucks), with pieces.
    AllgathervBrucks,
    /// In a ring, large pieces in parts.
    AllgathervRing,
    /// Bruck's: blocks travel by the bits of their distance.
    AlltoallBrucks,
    /// All at once, 32 partners at a time.
    AlltoallScattered,
    /// One partner after the other.
    AlltoallPairwise,
    /// One partner after the other, each block in the other's place.
    AlltoallPairwiseReplace,
    /// As [`AlltoallScattered`](Self::AlltoallScattered), without empty pieces.
    AlltoallvScattered,
    /// As [`AlltoallPairwiseReplace`](Self::AlltoallPairwiseReplace), with pieces.
    AlltoallvPairwiseReplace,
    /// Up a binomial tree, combined on the way.
    ReduceBinomial,
    /// Rabenseifner's: a reduce-scatter by halves, then a gather.
    ReduceScatterGather,
    /// Partners twice as far away each time.
    AllreduceRecursiveDoubling,
    /// Rabenseifner's: a reduce-scatter by halves, then an allgather.
    AllreduceReduceScatterAllgather,
    /// On each node, then among nodes: with one rank on each node nothing is sent. MPICH's tables name it where there is nothing to reduce.
    AllreduceByNode,
    /// Halves, with partners half as far away each time.
    ReduceScatterRecursiveHalving,
    /// One partner after the other.
    ReduceScatterPairwise,
    /// Partners twice as far away each time, in the order of ranks.
    ReduceScatterRecursiveDoubling,
    /// By halves, in the order of ranks.
    ReduceScatterNoncommutative,
    /// Partners twice as far away each time.
    ScanRecursiveDoubling,
    /// One that only Open MPI has.
    OpenMpi(OpenMpiAlgorithm),
    /// Stages on nodes and among nodes, which stand beside it ([`Stage`]).
    OnNodes(NodeComposition),
}

/// Names as MPICH's tables have them, without the `MPIR_` and, in the nonblocking form, the `I` and the `_sched`.
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
    /// All that MPICH has.
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

    /// The algorithm that MPICH's tables call so; `None` for one that is not known here.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("MPIR_")?.to_ascii_lowercase();
        let name = name
            .replace("_sched_", "_")
            .replace("_scatter_block_", "_scatter_");
        let find = |name: &str| NAMES.iter().find(|(own, _)| *own == name);
        let found = find(&name).or_else(|| {
            // The nonblocking forms of those that work in place are all called so.
            let name = name.strip_prefix('i')?;
            let in_place = name.strip_suffix("_intra_inplace");
            let in_place = in_place.map(|name| format!("{name}_intra_pairwise_sendrecv_replace"));
            find(in_place.as_deref().unwrap_or(name))
        });
        found.map(|(_, algorithm)| *algorithm)
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::OpenMpi(own) => format!("{own:?}"),
            Self::OnNodes(own) => format!("{own:?}OnNodes"),
            own => format!("{own:?}"),
        }
    }

    /// Whether it takes communicators of powers of two alone.
    pub fn needs_power_of_two(self) -> bool {
        matches!(
            self,
            Self::BroadcastScatterRecursiveDoublingAllgather
                | Self::AllgatherRecursiveDoubling
                | Self::AllgathervRecursiveDoubling
                | Self::ReduceScatterNoncommutative
        )
    }

    /// The caller's part of the operation. Empty for a communicator of one, and for calls that cannot be: by
    /// no member, with a root that is none, with fewer pieces than members, or of a number of members that the
    /// algorithm does not take.
    pub fn schedule(self, call: &Call) -> Schedule {
        let mut builder = Builder::default();
        self.build(call, &mut builder);
        builder.finish()
    }

    /// The caller's part of the operation by its stages, or by the algorithm where there are none.
    pub fn schedule_of(self, call: &Call, stages: &[Stage]) -> Schedule {
        match stages {
            [] => self.schedule(call),
            stages => Schedule::of_stages(stages),
        }
    }

    pub(crate) fn build(self, call: &Call, to: &mut Builder) {
        let unfit = self.needs_power_of_two() && !call.members.is_power_of_two();
        if !call.is_sound() || call.members == 1 || unfit {
            return;
        }
        match self {
            Self::BarrierDissemination => scan::dissemination(call, to),
            Self::BroadcastBinomial => broadcast::binomial(call, to),
            Self::BroadcastScatterRecursiveDoublingAllgather => broadcast::doubling(call, to),
            Self::BroadcastScatterRingAllgather => broadcast::ring(call, to),
            Self::GatherBinomial => gather::binomial(call, to),
            Self::GathervLinear => gather::linear(call, to),
            Self::ScatterBinomial => scatter::binomial(call, to),
            Self::ScattervLinear => scatter::linear(call, to),
            Self::AllgatherRecursiveDoubling => allgather::doubling(call, to),
            Self::AllgatherBrucks => allgather::brucks(call, to),
            Self::AllgatherRing => allgather::ring(call, to),
            Self::AllgathervRecursiveDoubling => allgather::doubling_pieces(call, to),
            Self::AllgathervBrucks => allgather::brucks_pieces(call, to),
            Self::AllgathervRing => allgather::ring_pieces(call, to),
            Self::AlltoallBrucks => alltoall::brucks(call, to),
            Self::AlltoallScattered => alltoall::scattered(call, to),
            Self::AlltoallPairwise => alltoall::pairwise(call, to),
            Self::AlltoallPairwiseReplace => alltoall::replace(call, to),
            Self::AlltoallvScattered => alltoall::scattered_pieces(call, to),
            Self::AlltoallvPairwiseReplace => alltoall::replace_pieces(call, to),
            Self::ReduceBinomial => reduce::binomial(call, to),
            Self::ReduceScatterGather => reduce::scatter_gather(call, to),
            Self::AllreduceRecursiveDoubling => allreduce::doubling(call, to),
            Self::AllreduceReduceScatterAllgather => allreduce::scatter_allgather(call, to),
            Self::AllreduceByNode | Self::OnNodes(_) => {}
            Self::ReduceScatterRecursiveHalving => reduce_scatter::halving(call, to),
            Self::ReduceScatterPairwise => reduce_scatter::pairwise(call, to),
            Self::ReduceScatterRecursiveDoubling => reduce_scatter::doubling(call, to),
            Self::ReduceScatterNoncommutative => reduce_scatter::noncommutative(call, to),
            Self::ScanRecursiveDoubling => scan::doubling(call, to),
            Self::OpenMpi(own) => own.build(call, to),
        }
    }
}
