//! Schedules of algorithms: the implementation of each name.
//!
//! Operations of Open MPI that consist of other operations choose these by the library's rules.

use crate::algorithm::Algorithm;
use crate::algorithms::{
    allgather, allreduce, alltoall, broadcast, gather, open_mpi as open_mpi_algorithms, reduce,
    reduce_scatter, scan, scatter,
};
use crate::call::Call;
use crate::nodes::Stage;
use crate::open_mpi::{self, OpenMpiAlgorithm};
use crate::schedule::{Action, Builder, Schedule, Step, after};

impl Algorithm {
    /// Returns the caller's part of the operation. It is empty for a communicator of one, and for invalid calls. These are calls by a
    /// non-member, with an invalid root, with fewer pieces than members, or with a number of members that the algorithm does not support.
    pub fn schedule(self, call: &Call) -> Schedule {
        let mut builder = Builder::new(part);
        self.build(call, &mut builder);
        builder.finish()
    }

    /// Returns the caller's part of the operation by its stages, or by the algorithm if there are none.
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
            Self::OpenMpi(own) => build_open_mpi(own, call, to),
        }
    }
}

impl Schedule {
    /// Returns the schedules of stages, one after the other.
    #[must_use]
    pub fn of_stages(stages: &[Stage]) -> Self {
        let mut steps = Vec::new();
        for stage in stages {
            let before = steps.len() as u32;
            let rank = |place: u32| stage.ranks.get(place as usize).copied().unwrap_or(u32::MAX);
            let schedule = stage.algorithm.schedule(&stage.call);
            steps.extend(schedule.steps.iter().map(|step| Step {
                action: match step.action {
                    Action::Send { to, bytes } => Action::Send {
                        to: rank(to),
                        bytes,
                    },
                    Action::Receive { from, bytes } => Action::Receive {
                        from: rank(from),
                        bytes,
                    },
                    own => own,
                },
                needs: after(&step.needs, before),
            }));
        }
        Self { steps }
    }
}

/// Builds the caller's part of a valid call of a communicator of at least two members, by an algorithm of Open MPI.
fn build_open_mpi(algorithm: OpenMpiAlgorithm, call: &Call, to: &mut Builder) {
    let build = match algorithm {
        OpenMpiAlgorithm::Nothing => return,
        OpenMpiAlgorithm::BarrierLinear => open_mpi_algorithms::barrier::linear,
        OpenMpiAlgorithm::BarrierRecursiveDoubling => open_mpi_algorithms::barrier::doubling,
        OpenMpiAlgorithm::BarrierTree => open_mpi_algorithms::barrier::tree,
        OpenMpiAlgorithm::BroadcastLinear => open_mpi_algorithms::broadcast::linear,
        OpenMpiAlgorithm::BroadcastChain => open_mpi_algorithms::broadcast::chain,
        OpenMpiAlgorithm::BroadcastSplitBinaryTree => open_mpi_algorithms::broadcast::split_binary,
        OpenMpiAlgorithm::BroadcastBinaryTree => open_mpi_algorithms::broadcast::binary,
        OpenMpiAlgorithm::BroadcastBinomialTree => open_mpi_algorithms::broadcast::binomial,
        OpenMpiAlgorithm::BroadcastKnomialTree => open_mpi_algorithms::broadcast::knomial,
        OpenMpiAlgorithm::BroadcastScatterAllgather => {
            open_mpi_algorithms::broadcast::scatter_allgather
        }
        OpenMpiAlgorithm::BroadcastSwappedBinomialTree => {
            open_mpi_algorithms::broadcast::swapped_binomial
        }
        OpenMpiAlgorithm::GatherLinear => open_mpi_algorithms::gather::linear,
        OpenMpiAlgorithm::GatherLinearSynchronised => open_mpi_algorithms::gather::synchronised,
        OpenMpiAlgorithm::GathervLinear => open_mpi_algorithms::gather::pieces,
        OpenMpiAlgorithm::ScatterLinear => open_mpi_algorithms::gather::scatter,
        OpenMpiAlgorithm::ScattervLinear => open_mpi_algorithms::gather::scatter_pieces,
        OpenMpiAlgorithm::AllgatherLinear => open_mpi_algorithms::allgather::linear,
        OpenMpiAlgorithm::AllgatherNeighborExchange => open_mpi_algorithms::allgather::neighbor,
        OpenMpiAlgorithm::AllgathervLinear => open_mpi_algorithms::allgather::linear_pieces,
        OpenMpiAlgorithm::AllgathervRing => open_mpi_algorithms::allgather::ring_pieces,
        OpenMpiAlgorithm::AllgathervNeighborExchange => {
            open_mpi_algorithms::allgather::neighbor_pieces
        }
        OpenMpiAlgorithm::AllgathervGatherBroadcast => {
            open_mpi_algorithms::allgather::gather_broadcast
        }
        OpenMpiAlgorithm::AlltoallLinear => open_mpi_algorithms::alltoall::linear,
        OpenMpiAlgorithm::AlltoallPairwise => open_mpi_algorithms::alltoall::pairwise,
        OpenMpiAlgorithm::AlltoallInPlace => open_mpi_algorithms::alltoall::in_place,
        OpenMpiAlgorithm::AlltoallvLinear => open_mpi_algorithms::alltoall::linear_pieces,
        OpenMpiAlgorithm::AlltoallvPairwise => open_mpi_algorithms::alltoall::pairwise_pieces,
        OpenMpiAlgorithm::AlltoallvNonempty => open_mpi_algorithms::alltoall::linear_nonempty,
        OpenMpiAlgorithm::AlltoallwInPlace => open_mpi_algorithms::alltoall::in_place_opposite,
        OpenMpiAlgorithm::AlltoallvInPlace => open_mpi_algorithms::alltoall::in_place_pieces,
        OpenMpiAlgorithm::ReduceLinear => open_mpi_algorithms::reduce::linear,
        OpenMpiAlgorithm::ReduceChain => open_mpi_algorithms::reduce::chain,
        OpenMpiAlgorithm::ReduceBinaryTree => open_mpi_algorithms::reduce::binary,
        OpenMpiAlgorithm::ReduceOrderedBinaryTree => open_mpi_algorithms::reduce::ordered_binary,
        OpenMpiAlgorithm::ReduceHalvingGather => open_mpi_algorithms::reduce::halving_gather,
        OpenMpiAlgorithm::ReduceSwappedBinomialTree => {
            open_mpi_algorithms::reduce::swapped_binomial
        }
        OpenMpiAlgorithm::ReduceSwappedChain => open_mpi_algorithms::reduce::swapped_chain,
        OpenMpiAlgorithm::AllreduceLinear => open_mpi_algorithms::allreduce::linear,
        OpenMpiAlgorithm::AllreduceBinomialTree => open_mpi_algorithms::allreduce::binomial,
        OpenMpiAlgorithm::AllreduceReduceBroadcast => {
            open_mpi_algorithms::allreduce::reduce_broadcast
        }
        OpenMpiAlgorithm::AllreduceRing => open_mpi_algorithms::allreduce::ring,
        OpenMpiAlgorithm::AllreduceShiftedRing => open_mpi_algorithms::allreduce::shifted_ring,
        OpenMpiAlgorithm::AllreduceHalvingDoubling => {
            open_mpi_algorithms::allreduce::halving_doubling
        }
        OpenMpiAlgorithm::ReduceScatterByRoot => open_mpi_algorithms::reduce_scatter::by_root,
        OpenMpiAlgorithm::ReduceScatterBinomialTree => {
            open_mpi_algorithms::reduce_scatter::binomial
        }
        OpenMpiAlgorithm::ReduceScatterRing => open_mpi_algorithms::reduce_scatter::ring,
        OpenMpiAlgorithm::ReduceScatterButterfly => open_mpi_algorithms::reduce_scatter::butterfly,
        OpenMpiAlgorithm::ScanLinear => open_mpi_algorithms::reduce::scan,
    };
    build(call, to);
}

/// Builds the caller's part of an operation of Open MPI that is part of another one.
pub(crate) fn part(call: &Call, to: &mut Builder) {
    if let Some(algorithm) = open_mpi::choose(call) {
        algorithm.build(call, to);
    }
}
