//! Each algorithm on communicators of many sizes: every message has its receive, and all data arrives where it should.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Rules, SimulationResult, State, carry_out};
use crate::algorithm::Algorithm;
use belljar_mpi::Operation;

use crate::call::Call;
use crate::open_mpi::OpenMpiAlgorithm;
use crate::tables::{Choice, Tables};

const EXACT: Rules = Rules {
    exact: true,
    ordered: false,
    adds: false,
};
const ORDERED: Rules = Rules {
    ordered: true,
    ..EXACT
};

fn sizes(algorithm: Algorithm) -> impl Iterator<Item = u32> {
    (1..=33).filter(move |size: &u32| !algorithm.needs_power_of_two() || size.is_power_of_two())
}

fn calls(members: u32, of: impl Fn(u32) -> Call) -> Vec<Call> {
    (0..members).map(of).collect()
}

fn blocks(of: impl IntoIterator<Item = u64>, contribution: u32) -> State {
    let of = of.into_iter();
    of.map(|block| (block, BTreeSet::from([contribution])))
        .collect()
}

/// Different sizes for each rank, some of them 0.
fn uneven(members: u32, scale: u64) -> Vec<u64> {
    let piece = |rank: u64| (rank * 7 + 3) % 5 * scale;
    (0..members.into()).map(piece).collect()
}

fn has(
    outcome: &SimulationResult,
    rank: u32,
    block: u64,
    contributions: impl IntoIterator<Item = u32>,
) {
    let contributions: BTreeSet<u32> = contributions.into_iter().collect();
    let own = outcome.states[rank as usize].get(&block);
    assert_eq!(own, Some(&contributions), "block {block} of rank {rank}");
}

#[test]
fn barriers_hear_of_all() {
    let algorithm = Algorithm::BarrierDissemination;
    for members in sizes(algorithm) {
        let calls = calls(members, |rank| Call::new(Operation::Barrier, members, rank));
        let rules = Rules {
            adds: true,
            ..EXACT
        };
        let outcome = carry_out(algorithm, &calls, |rank| blocks([0], rank), |_| 0, rules);
        for rank in 0..members {
            has(&outcome, rank, 0, 0..members);
        }
    }
}

#[test]
fn broadcasts_reach_all() {
    for members in 1..=33 {
        for (count, root) in [
            (1, 0),
            (5, members - 1),
            (1000, members / 2),
            (4096, 1 % members),
        ] {
            let of = |rank| Call::new(Operation::Broadcast, members, rank).elements(count, 4);
            let calls = calls(members, |rank| of(rank).root(root));
            broadcast_whole(&calls, root);
            let algorithms = [
                Algorithm::BroadcastScatterRingAllgather,
                Algorithm::BroadcastScatterRecursiveDoublingAllgather,
            ];
            for algorithm in algorithms {
                if sizes(algorithm).any(|size| size == members) {
                    broadcast_pieces(algorithm, &calls, root);
                }
            }
        }
    }
}

fn broadcast_whole(calls: &[Call], root: u32) {
    let whole = calls[0].bytes();
    let begin = |rank| blocks((rank == root).then_some(0), root);
    let outcome = carry_out(Algorithm::BroadcastBinomial, calls, begin, |_| whole, EXACT);
    for rank in 0..calls[0].members {
        has(&outcome, rank, 0, [root]);
    }
}

fn broadcast_pieces(algorithm: Algorithm, calls: &[Call], root: u32) {
    let (members, whole) = (calls[0].members, calls[0].bytes());
    let piece = whole.div_ceil(members.into());
    let size = |block: u64| whole.saturating_sub(block * piece).min(piece);
    let begin = |rank| blocks((0..members.into()).filter(|_| rank == root), root);
    let outcome = carry_out(algorithm, calls, begin, size, EXACT);
    for rank in 0..members {
        for block in (0..members.into()).filter(|block| size(*block) > 0) {
            has(&outcome, rank, block, [root]);
        }
    }
}

#[test]
fn gathers_bring_every_block_to_the_root() {
    for members in 1..=33 {
        for root in [0, members / 2, members - 1] {
            let of = |rank| Call::new(Operation::Gather, members, rank).root(root);
            let equal = calls(members, |rank| of(rank).elements(3, 8));
            let begin = |rank: u32| blocks([rank.into()], rank);
            let outcome = carry_out(Algorithm::GatherBinomial, &equal, begin, |_| 24, EXACT);
            let pieces = uneven(members, 10);
            let with = |rank: u32| of(rank).pieces(vec![pieces[rank as usize]], pieces.clone());
            let size = |block: u64| pieces[block as usize];
            let uneven = calls(members, with);
            let linear = carry_out(Algorithm::GathervLinear, &uneven, begin, size, EXACT);
            for rank in 0..members {
                has(&outcome, root, rank.into(), [rank]);
                if pieces[rank as usize] > 0 {
                    has(&linear, root, rank.into(), [rank]);
                }
            }
        }
    }
}

#[test]
fn scatters_bring_each_its_block() {
    for members in 1..=33 {
        for root in [0, members / 2, members - 1] {
            let of = |rank| Call::new(Operation::Scatter, members, rank).root(root);
            let equal = calls(members, |rank| of(rank).elements(3, 8));
            let begin = |rank| blocks((0..members.into()).filter(|_| rank == root), root);
            let outcome = carry_out(Algorithm::ScatterBinomial, &equal, begin, |_| 24, EXACT);
            let pieces = uneven(members, 10);
            let with = |rank: u32| of(rank).pieces(pieces.clone(), vec![pieces[rank as usize]]);
            let size = |block: u64| pieces[block as usize];
            let uneven = calls(members, with);
            let linear = carry_out(Algorithm::ScattervLinear, &uneven, begin, size, EXACT);
            for rank in 0..members {
                has(&outcome, rank, rank.into(), [root]);
                if pieces[rank as usize] > 0 {
                    has(&linear, rank, rank.into(), [root]);
                }
            }
        }
    }
}

#[test]
fn allgathers_bring_every_block_to_all() {
    use Algorithm::*;
    let equal = [AllgatherRecursiveDoubling, AllgatherBrucks, AllgatherRing];
    let uneven_too = [
        AllgathervRecursiveDoubling,
        AllgathervBrucks,
        AllgathervRing,
    ];
    for algorithm in equal.into_iter().chain(uneven_too) {
        for members in sizes(algorithm) {
            // Above 32 KiB the ring sends pieces in parts.
            for scale in [1, 20_000] {
                let in_pieces = uneven_too.contains(&algorithm);
                let pieces = match in_pieces {
                    true => uneven(members, scale),
                    false => vec![3 * scale; members as usize],
                };
                let of = |rank| Call::new(Operation::Allgatherv, members, rank).elements(3, scale);
                let calls = calls(members, |rank| of(rank).pieces(Vec::new(), pieces.clone()));
                let rules = Rules {
                    exact: scale == 1 || algorithm != AllgathervRing,
                    ..EXACT
                };
                let size = |block: u64| pieces[block as usize];
                let begin = |rank: u32| blocks([rank.into()], rank);
                let outcome = carry_out(algorithm, &calls, begin, size, rules);
                for rank in 0..members {
                    for (block, bytes) in (0..members).zip(&pieces) {
                        if *bytes > 0 {
                            has(&outcome, rank, block.into(), [block]);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn alltoalls_bring_each_what_each_has_for_it() {
    use Algorithm::*;
    for algorithm in [
        AlltoallBrucks,
        AlltoallScattered,
        AlltoallPairwise,
        AlltoallPairwiseReplace,
        AlltoallvScattered,
        AlltoallvPairwiseReplace,
    ] {
        // More than 32, so that partners come in several turns.
        for members in sizes(algorithm).chain([70]) {
            let in_pieces = matches!(algorithm, AlltoallvScattered | AlltoallvPairwiseReplace);
            // In place, as many bytes are sent as received.
            let piece = |from: u32, to: u32| match in_pieces {
                true => u64::from(from * to + from + to) % 4 * 10,
                false => 24,
            };
            let of = |rank| {
                let sent = (0..members).map(|to| piece(rank, to)).collect();
                let received = (0..members).map(|from| piece(from, rank)).collect();
                let call = Call::new(Operation::Alltoallv, members, rank).elements(3, 8);
                call.pieces(sent, received)
            };
            let wide = u64::from(members);
            let size = |block: u64| piece((block / wide) as u32, (block % wide) as u32);
            let begin = |rank| blocks((0..wide).map(|to| u64::from(rank) * wide + to), rank);
            let outcome = carry_out(algorithm, &calls(members, of), begin, size, EXACT);
            for (from, to) in (0..members).flat_map(|from| (0..members).map(move |to| (from, to))) {
                if piece(from, to) > 0 {
                    has(&outcome, to, u64::from(from) * wide + u64::from(to), [from]);
                }
            }
        }
    }
}

#[test]
fn reductions_bring_all_contributions_to_the_root() {
    for members in 1..=33 {
        for root in [0, members / 2, members - 1, 1 % members] {
            let of = |rank| Call::new(Operation::Reduce, members, rank).root(root);
            let all = calls(members, |rank| of(rank).elements(50, 8));
            let begin = |rank| blocks([0], rank);
            let outcome = carry_out(Algorithm::ReduceBinomial, &all, begin, |_| 400, EXACT);
            has(&outcome, root, 0, 0..members);
            let ordered = all.clone().into_iter().map(|call| Call {
                commutative: false,
                ..call
            });
            let ordered: Vec<Call> = ordered.collect();
            let outcome = carry_out(Algorithm::ReduceBinomial, &ordered, begin, |_| 400, ORDERED);
            has(&outcome, root, 0, 0..members);
            let power = 1u64 << members.ilog2();
            let size = |block: u64| (50 / power + u64::from(block < 50 % power)) * 8;
            let begin = |rank| blocks(0..power, rank);
            let outcome = carry_out(Algorithm::ReduceScatterGather, &all, begin, size, EXACT);
            for block in 0..power {
                has(&outcome, root, block, 0..members);
            }
        }
    }
}

#[test]
fn allreductions_bring_all_contributions_to_all() {
    for members in 1..=33 {
        let of = |rank| Call::new(Operation::Allreduce, members, rank).elements(50, 8);
        let all = calls(members, of);
        let begin = |rank| blocks([0], rank);
        let algorithm = Algorithm::AllreduceRecursiveDoubling;
        let doubled = carry_out(algorithm, &all, begin, |_| 400, ORDERED);
        let power = 1u64 << members.ilog2();
        let size = |block: u64| (50 / power + u64::from(block < 50 % power)) * 8;
        let begin = |rank| blocks(0..power, rank);
        let algorithm = Algorithm::AllreduceReduceScatterAllgather;
        let scattered = carry_out(algorithm, &all, begin, size, EXACT);
        for rank in 0..members {
            has(&doubled, rank, 0, 0..members);
            for block in 0..power {
                has(&scattered, rank, block, 0..members);
            }
        }
    }
}

#[test]
fn reduce_scatters_bring_each_all_contributions_to_its_part() {
    use Algorithm::*;
    for (algorithm, rules) in [
        (ReduceScatterRecursiveHalving, EXACT),
        (ReduceScatterPairwise, EXACT),
        (ReduceScatterRecursiveDoubling, ORDERED),
        (ReduceScatterNoncommutative, ORDERED),
    ] {
        for members in sizes(algorithm) {
            let equal = vec![24; members as usize];
            for pieces in [equal, uneven(members, 8)] {
                let equal = pieces.iter().all(|bytes| *bytes == pieces[0]);
                if algorithm == ReduceScatterNoncommutative && !equal {
                    continue;
                }
                let of = |rank| Call::new(Operation::ReduceScatter, members, rank);
                let calls = calls(members, |rank| of(rank).pieces(pieces.clone(), Vec::new()));
                let begin = |rank| blocks(0..members.into(), rank);
                let size = |block: u64| pieces[block as usize];
                let outcome = carry_out(algorithm, &calls, begin, size, rules);
                for (rank, bytes) in (0..members).zip(&pieces) {
                    if *bytes > 0 {
                        has(&outcome, rank, rank.into(), 0..members);
                    }
                }
            }
        }
    }
}

#[test]
fn scans_combine_what_lower_ranks_have() {
    let algorithm = Algorithm::ScanRecursiveDoubling;
    for members in sizes(algorithm) {
        let of = |rank| Call::new(Operation::Scan, members, rank).elements(5, 8);
        let begin = |rank| blocks([0], rank);
        let outcome = carry_out(algorithm, &calls(members, of), begin, |_| 40, ORDERED);
        for rank in 0..members {
            let mut prefix = BTreeSet::from([rank]);
            for (_, lower) in outcome.combined[rank as usize]
                .iter()
                .filter(|(from, _)| *from < rank)
            {
                prefix.extend(lower);
            }
            assert_eq!(prefix, (0..=rank).collect(), "rank {rank} of {members}");
        }
    }
}

/// For every choice of Open MPI, each message has a receive of the same size, and no rank waits forever.
#[test]
fn open_mpis_messages_meet_their_receives() {
    let tables = Tables::open_mpi();
    let forms = [(false, false), (true, false), (false, true), (true, true)];
    for (operation, (nonblocking, in_place)) in Operation::ALL
        .into_iter()
        .flat_map(|it| forms.map(|form| (it, form)))
    {
        for members in [2, 3, 4, 5, 6, 8, 9, 16, 17, 23, 33, 300] {
            for (count, commutative) in [
                (1, true),
                (5, false),
                (300, true),
                (20_000, false),
                (1 << 21, true),
            ] {
                // Large communicators have many messages for any count.
                if members > 40 && !matches!(count, 1 | 20_000) {
                    continue;
                }
                let call = |rank| {
                    let pieces = match operation {
                        Operation::Alltoallv | Operation::Alltoallw => (0..members)
                            .map(|other| u64::from(rank + other) % 3 * count)
                            .collect(),
                        _ => uneven(members, count),
                    };
                    let call = Call::new(operation, members, rank).elements(count, 1);
                    let own = |wanted: bool| match wanted {
                        true => pieces.clone(),
                        false => vec![pieces[rank as usize]],
                    };
                    let root = members / 2;
                    let gathers = operation == Operation::Gatherv && rank != root;
                    let scatters = operation == Operation::Scatterv && rank != root;
                    Call {
                        nonblocking,
                        in_place,
                        commutative,
                        ..call.root(root)
                    }
                    .pieces(own(!gathers), own(!scatters))
                };
                let calls = calls(members, call);
                if let Choice::Known(algorithm) = tables.choose(&calls[0]) {
                    let rules = Rules::default();
                    carry_out(algorithm, &calls, |_| State::new(), |_| 0, rules);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn calls_that_cannot_be_make_no_harm(
        index in 0..Algorithm::ALL.len() + OpenMpiAlgorithm::ALL.len(),
        members in 0u32..2000,
        rank in 0u32..2000,
        root in 0u32..2000,
        count in any::<u64>(),
        element in any::<u64>(),
        pieces in prop::collection::vec(any::<u64>(), 0..40),
    ) {
        let call = Call::new(Operation::ReduceScatter, members, rank);
        let call = call.root(root).elements(count, element).pieces(pieces.clone(), pieces);
        let own = OpenMpiAlgorithm::ALL.into_iter().map(Algorithm::OpenMpi);
        let algorithm = Algorithm::ALL.into_iter().chain(own).nth(index).unwrap();
        let schedule = algorithm.schedule(&call);
        for step in schedule.steps() {
            prop_assert!(step.needs.end as usize <= schedule.steps().len());
        }
    }
}

/// MPICH's `MPI_Ibcast` also sends its messages if they have no data, `MPI_Bcast` does not.
#[test]
fn a_nonblocking_broadcast_of_nothing_is_messages_too() {
    let algorithm = Algorithm::BroadcastBinomial;
    for (nonblocking, expected) in [(false, 0), (true, 4)] {
        let call = |rank| Call {
            nonblocking,
            ..Call::new(Operation::Broadcast, 5, rank)
        };
        let sent = (0..5).map(|rank| algorithm.schedule(&call(rank)).sends().count());
        assert_eq!(sent.sum::<usize>(), expected);
    }
}
