//! Choice of algorithms by Open MPI's module `tuned`.
//!
//! The rules are a text of this crate, read once. Used by `open_mpi::choose`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::OpenMpiAlgorithm as Own;
use crate::algorithm::Algorithm;
use belljar_mpi::Operation;

use crate::call::Call;

/// The rules; the file describes their syntax.
const TEXT: &str = include_str!("../../data/open-mpi-4.1.txt");

/// Algorithms, each with the bytes below which it applies.
type Row = Vec<(Algorithm, u64)>;

/// Rows, each with the number of members below which it applies, by the operation and whether order matters.
type Rules = BTreeMap<(Operation, bool), Vec<(u32, Row)>>;

static RULES: LazyLock<Rules> = LazyLock::new(|| parse(TEXT).unwrap_or_default());

/// Chooses the algorithm for a blocking call.
pub(super) fn tuned(call: &Call) -> Option<Algorithm> {
    let rows = RULES
        .get(&(call.operation, !call.commutative))
        .or_else(|| RULES.get(&(call.operation, false)))?;
    let bytes = match call.operation {
        Operation::Allgatherv => call.total_bytes() / u64::from(call.members.max(1)),
        Operation::ReduceScatter => call.total_bytes(),
        _ => call.bytes(),
    };
    let (_, row) = rows.iter().find(|(below, _)| call.members < *below)?;
    let (algorithm, _) = row.iter().find(|(_, below)| bytes < *below)?;
    Some(match algorithm {
        // It only supports powers of two, and falls back to Bruck's algorithm.
        Algorithm::AllgatherRecursiveDoubling if !call.members.is_power_of_two() => {
            Algorithm::AllgatherBrucks
        }
        // With equal blocks in powers of two, blocks are reordered before instead of after.
        Algorithm::OpenMpi(Own::ReduceScatterButterfly)
            if call.operation == Operation::ReduceScatterBlock
                && call.members.is_power_of_two() =>
        {
            Algorithm::ReduceScatterNoncommutative
        }
        other => *other,
    })
}

fn parse(text: &str) -> Option<Rules> {
    let mut rules = Rules::new();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let mut words = line.split_whitespace();
        let (name, ordered) = match words.next()?.split_once(':') {
            Some((name, _)) => (name, true),
            None => (line.split_whitespace().next()?, false),
        };
        let operation = Operation::named(name)?;
        let below = match words.next()? {
            "any" => u32::MAX,
            number => number.parse().ok()?,
        };
        let mut row = Row::new();
        while let Some(algorithm) = words.next() {
            let algorithm = named(operation, algorithm)?;
            let bytes = words.next().map_or(Ok(u64::MAX), str::parse);
            row.push((algorithm, bytes.ok()?));
        }
        rules
            .entry((operation, ordered))
            .or_default()
            .push((below, row));
    }
    Some(rules)
}

fn named(operation: Operation, name: &str) -> Option<Algorithm> {
    let own = match (operation, name) {
        (Operation::Barrier, "linear") => Own::BarrierLinear,
        (Operation::Barrier, "recursive_doubling") => Own::BarrierRecursiveDoubling,
        (Operation::Barrier, "tree") => Own::BarrierTree,
        (Operation::Barrier, "dissemination") => return Some(Algorithm::BarrierDissemination),
        (Operation::Broadcast, name) => broadcast(name)?,
        (Operation::Reduce, name) => return reduce(name),
        (Operation::Gather, "linear") => Own::GatherLinear,
        (Operation::Gather, "linear_synchronised") => Own::GatherLinearSynchronised,
        (Operation::Gather, "binomial_tree") => return Some(Algorithm::GatherBinomial),
        (Operation::Scatter, "linear") => Own::ScatterLinear,
        (Operation::Scatter, "binomial_tree") => return Some(Algorithm::ScatterBinomial),
        (Operation::Allgather, "brucks") => return Some(Algorithm::AllgatherBrucks),
        (Operation::Allgather, "recursive_doubling") => {
            return Some(Algorithm::AllgatherRecursiveDoubling);
        }
        (Operation::Allgather, "ring") => return Some(Algorithm::AllgatherRing),
        (Operation::Allgather, "neighbor_exchange") => Own::AllgatherNeighborExchange,
        (Operation::Allgatherv, "brucks") => return Some(Algorithm::AllgathervBrucks),
        (Operation::Allgatherv, "ring") => Own::AllgathervRing,
        (Operation::Allgatherv, "neighbor_exchange") => Own::AllgathervNeighborExchange,
        (Operation::Allgatherv, "gather_broadcast") => Own::AllgathervGatherBroadcast,
        (Operation::Alltoall, "linear") => Own::AlltoallLinear,
        (Operation::Alltoall, "pairwise") => Own::AlltoallPairwise,
        (Operation::Alltoall, "brucks") => return Some(Algorithm::AlltoallBrucks),
        (Operation::Alltoallv, "linear") => Own::AlltoallvLinear,
        (Operation::Alltoallv, "pairwise") => Own::AlltoallvPairwise,
        (Operation::Allreduce, "linear") => Own::AllreduceLinear,
        (Operation::Allreduce, "reduce_broadcast") => Own::AllreduceReduceBroadcast,
        (Operation::Allreduce, "recursive_doubling") => {
            return Some(Algorithm::AllreduceRecursiveDoubling);
        }
        (Operation::Allreduce, "ring") => Own::AllreduceRing,
        (Operation::Allreduce, "halving_doubling") => Own::AllreduceHalvingDoubling,
        (Operation::ReduceScatter | Operation::ReduceScatterBlock, name) => {
            return reduce_scatter(name);
        }
        _ => return None,
    };
    Some(Algorithm::OpenMpi(own))
}

fn broadcast(name: &str) -> Option<Own> {
    Some(match name {
        "linear" => Own::BroadcastLinear,
        "chain" => Own::BroadcastChain,
        "split_binary_tree" => Own::BroadcastSplitBinaryTree,
        "binary_tree" => Own::BroadcastBinaryTree,
        "binomial_tree" => Own::BroadcastBinomialTree,
        "knomial_tree" => Own::BroadcastKnomialTree,
        "scatter_allgather" => Own::BroadcastScatterAllgather,
        _ => return None,
    })
}

fn reduce(name: &str) -> Option<Algorithm> {
    let own = match name {
        "linear" => Own::ReduceLinear,
        "chain" => Own::ReduceChain,
        "binary_tree" => Own::ReduceBinaryTree,
        "ordered_binary_tree" => Own::ReduceOrderedBinaryTree,
        "halving_gather" => Own::ReduceHalvingGather,
        "binomial_tree" => return Some(Algorithm::ReduceBinomial),
        _ => return None,
    };
    Some(Algorithm::OpenMpi(own))
}

fn reduce_scatter(name: &str) -> Option<Algorithm> {
    let own = match name {
        "reduce_scatter" => Own::ReduceScatterByRoot,
        "ring" => Own::ReduceScatterRing,
        "butterfly" => Own::ReduceScatterButterfly,
        "recursive_halving" => return Some(Algorithm::ReduceScatterRecursiveHalving),
        "recursive_doubling" => return Some(Algorithm::ReduceScatterRecursiveDoubling),
        _ => return None,
    };
    Some(Algorithm::OpenMpi(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_rule_for_every_call() {
        assert!(parse(TEXT).is_some());
        let operations = RULES.keys().map(|(operation, _)| *operation);
        for operation in operations {
            for members in [2, 3, 4, 7, 8, 16, 33, 100, 300, 700, 1500, 3000, 10000] {
                for commutative in [false, true] {
                    for exponent in 0..40 {
                        let call = Call::new(operation, members, 0).elements(1, 1 << exponent);
                        let call = Call {
                            commutative,
                            ..call
                        };
                        assert!(tuned(&call).is_some(), "{call:?}");
                    }
                }
            }
        }
    }
}
