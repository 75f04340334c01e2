//! Compositions on several layouts: every message has its receive, and data of all contributing ranks arrives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;
use crate::schedule::{Action, Schedule};
use crate::tables::{Choice, Tables};

/// Table of compositions and table of the network, as in a library.
const LIBRARY: &[u8] = br#"x{"collective=barrier":{"comm_type=intra":{"comm_hierarchy=parent":{"composition=MPIDI_Barrier_intra_composition_alpha":{}},
"comm_hierarchy=any":{"composition=MPIDI_Barrier_intra_composition_beta":{}}}},
"collective=bcast":{"comm_hierarchy=parent":{"avg_msg_size<100":{"composition=MPIDI_Bcast_intra_composition_alpha":{}},
"avg_msg_size<1000":{"composition=MPIDI_Bcast_intra_composition_beta":{}},"avg_msg_size=any":{"composition=MPIDI_Bcast_intra_composition_gamma":{}}},
"comm_hierarchy=any":{"composition=MPIDI_Bcast_intra_composition_gamma":{}}},
"collective=reduce":{"comm_hierarchy=parent":{"avg_msg_size<=100":{"composition=MPIDI_Reduce_intra_composition_beta":{}},
"avg_msg_size=any":{"composition=MPIDI_Reduce_intra_composition_alpha":{}}}},
"collective=allreduce":{"comm_size=node_comm_size":{"composition=MPIDI_Allreduce_intra_composition_gamma":{}},
"comm_size=any":{"comm_hierarchy=parent":{"composition=MPIDI_Allreduce_intra_composition_alpha":{}}}}}
"#;
const NETWORK: &[u8] = br#"{"collective=barrier":{"algorithm=MPIR_Barrier_intra_dissemination":{}},
"collective=bcast":{"algorithm=MPIR_Bcast_intra_binomial":{}},"collective=reduce":{"algorithm=MPIR_Reduce_intra_binomial":{}},
"collective=ireduce":{"comm_hierarchy=parent":{"algorithm=MPIR_Ireduce_intra_sched_smp":{}},"comm_hierarchy=any":{"algorithm=MPIR_Ireduce_intra_sched_binomial":{}}},
"collective=allreduce":{"algorithm=MPIR_Allreduce_intra_recursive_doubling":{}}}"#;

fn tables() -> Tables {
    let library: Vec<u8> = [LIBRARY, b"\0", NETWORK, b"\0"].concat();
    Tables::of_library(&library).expect("tables")
}

/// A message: the ranks whose data it contains, and its bytes.
type OnTheWay = (BTreeSet<u32>, u64);

/// Executes the schedules of all ranks. Returns the ranks whose data each has received, and the number of messages between nodes.
fn carried_out(schedules: &[Schedule], of: &[u32]) -> (Vec<BTreeSet<u32>>, usize) {
    let mut heard: Vec<BTreeSet<u32>> = (0..of.len() as u32).map(|it| [it].into()).collect();
    let mut way: BTreeMap<(u32, u32), VecDeque<OnTheWay>> = BTreeMap::new();
    let mut over: Vec<Vec<bool>> = schedules
        .iter()
        .map(|it| vec![false; it.steps().len()])
        .collect();
    let mut between = 0;
    loop {
        let mut moved = false;
        for rank in 0..of.len() {
            for (number, step) in schedules[rank].steps().iter().enumerate() {
                let ready = over[rank][..step.needs.end as usize].iter().all(|it| *it);
                if !ready || over[rank][number] {
                    continue;
                }
                let own = rank as u32;
                match step.action {
                    Action::Send { to, bytes } => {
                        between += usize::from(of[rank] != of[to as usize]);
                        let message = (heard[rank].clone(), bytes);
                        way.entry((own, to)).or_default().push_back(message);
                    }
                    Action::Receive { from, bytes } => {
                        let earlier = schedules[rank].steps()[..number].iter().zip(&over[rank]);
                        let mut earlier = earlier.filter(|(it, over)| {
                            !**over && matches!(it.action, Action::Receive { from: other, .. } if other == from)
                        });
                        let queue = way.entry((from, own)).or_default();
                        if earlier.next().is_some() || queue.is_empty() {
                            continue;
                        }
                        let (told, sent) = queue.pop_front().expect("a message");
                        assert_eq!(sent, bytes, "from {from} to {own}");
                        heard[rank].extend(told);
                    }
                    Action::Combine { .. } | Action::Copy { .. } => {}
                }
                over[rank][number] = true;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    assert!(over.iter().flatten().all(|it| *it), "steps are left");
    assert!(way.values().all(VecDeque::is_empty), "messages are left");
    (heard, between)
}

fn staged(call: Call, of: &[u32]) -> (NodeComposition, Schedule) {
    match tables().choose_on(&call, &Nodes::new(of.to_vec())) {
        Choice::Staged(composition, stages) => {
            assert!(stages.iter().all(|stage| stage.is_sound(of.len() as u32)));
            (composition, Schedule::of_stages(&stages))
        }
        other => panic!("{other:?}"),
    }
}

const LAYOUTS: [&[u32]; 5] = [
    &[0, 0, 1, 1],
    &[0, 1, 0, 1],
    &[5, 5, 5, 2, 7, 7],
    &[3, 1, 1, 3, 3, 1, 2],
    &[0, 0, 0, 0, 1],
];

/// Executes calls of all ranks with this composition. Returns for each rank the ranks whose data it has, and the number of messages between nodes.
fn heard(
    of: &[u32],
    expected: NodeComposition,
    call: impl Fn(u32) -> Call,
) -> (Vec<BTreeSet<u32>>, usize) {
    let schedules = (0..of.len() as u32).map(|rank| {
        let (composition, schedule) = staged(call(rank), of);
        assert_eq!(composition, expected);
        schedule
    });
    carried_out(&schedules.collect::<Vec<_>>(), of)
}

#[test]
fn every_rank_hears_of_those_that_it_should() {
    for of in LAYOUTS {
        let members = of.len() as u32;
        let all: BTreeSet<u32> = (0..members).collect();
        let call = |operation, rank| Call::new(operation, members, rank);
        let (all_heard, _) = heard(of, NodeComposition::Barrier, |rank| {
            call(Operation::Barrier, rank)
        });
        assert!(
            all_heard.iter().all(|own| *own == all),
            "{of:?}: {all_heard:?}"
        );
        let (all_heard, _) = heard(of, NodeComposition::Allreduce, |rank| {
            call(Operation::Allreduce, rank).elements(7, 8)
        });
        assert!(
            all_heard.iter().all(|own| *own == all),
            "{of:?}: {all_heard:?}"
        );
        for root in 0..members {
            for (bytes, composition) in [
                (99, NodeComposition::BroadcastFirstRank),
                (100, NodeComposition::BroadcastRootNode),
            ] {
                let (heard, between) = heard(of, composition, |rank| {
                    call(Operation::Broadcast, rank)
                        .elements(bytes, 1)
                        .root(root)
                });
                assert!(
                    heard.iter().all(|own| own.contains(&root)),
                    "{of:?} {root}: {heard:?}"
                );
                let nodes: BTreeSet<u32> = of.iter().copied().collect();
                assert_eq!(between, nodes.len() - 1, "{of:?} {root}");
            }
            for (bytes, composition) in [
                (100, NodeComposition::ReduceRootNode),
                (101, NodeComposition::ReduceFirstRank),
            ] {
                let (heard, _) = heard(of, composition, |rank| {
                    call(Operation::Reduce, rank).elements(bytes, 1).root(root)
                });
                assert_eq!(heard[root as usize], all, "{of:?} {root}");
            }
            let (heard, _) = heard(of, NodeComposition::ReduceRootNode, |rank| Call {
                nonblocking: true,
                ..call(Operation::Reduce, rank).elements(5, 1).root(root)
            });
            assert_eq!(heard[root as usize], all, "{of:?} {root}");
        }
    }
}

#[test]
fn stages_of_a_rank_are_those_of_its_place() {
    let of = [0, 0, 1, 1];
    let call = |rank| {
        Call::new(Operation::Broadcast, 4, rank)
            .elements(10, 1)
            .root(3)
    };
    let sends = |rank| staged(call(rank), &of).1.sends().collect::<Vec<_>>();
    // The root passes the data to the first rank of its node, which passes it to the first of the other node. Both pass it to the rest of their
    // nodes, including the root.
    assert_eq!(sends(3), [(2, 10)]);
    assert_eq!(sends(2), [(0, 10), (3, 10)]);
    assert_eq!(sends(0), [(1, 10)]);
    assert_eq!(sends(1), []);
}

#[test]
fn communicators_of_separate_nodes_are_not_divided() {
    let call = Call::new(Operation::Barrier, 3, 0);
    let choice = tables().choose_on(&call, &Nodes::new(vec![0, 1, 2]));
    assert_eq!(choice, Choice::Known(Algorithm::BarrierDissemination));
    let call = Call::new(Operation::Broadcast, 3, 0).elements(5000, 1);
    let choice = tables().choose_on(&call, &Nodes::new(vec![0, 0, 1]));
    assert_eq!(choice, Choice::Known(Algorithm::BroadcastBinomial));
}

/// Messages as four ranks on one node exchanged them in runs of MPICH 4.0.2.
#[test]
fn communicators_of_one_node_have_stages_on_it() {
    let one = [7; 4];
    let sends = |call: Call| staged(call, &one).1.sends().collect::<Vec<_>>();
    let barrier = |rank| sends(Call::new(Operation::Barrier, 4, rank));
    assert_eq!(barrier(0), [(1, 0), (2, 0), (2, 1), (1, 1)]);
    assert_eq!(barrier(2), [(3, 0), (0, 0), (3, 1)]);
    let broadcast = |rank| {
        sends(
            Call::new(Operation::Broadcast, 4, rank)
                .elements(10, 8)
                .root(1),
        )
    };
    assert_eq!(broadcast(1), [(0, 80)]);
    assert_eq!(broadcast(0), [(2, 80), (1, 80)]);
    let call = Call::new(Operation::Allreduce, 4, 1).elements(1, 8);
    let choice = tables().choose_on(&call, &Nodes::new(one.to_vec()));
    assert_eq!(choice, Choice::Known(Algorithm::AllreduceRecursiveDoubling));
}

/// Messages between nodes as in runs of MPICH 4.0.2: a long reduction ends at rank 0, which sends the result to the root.
#[test]
fn long_reductions_end_at_rank_0() {
    let of = [0, 0, 1, 1, 2, 2];
    let call = |rank| {
        Call::new(Operation::Reduce, 6, rank)
            .elements(10_000, 8)
            .root(3)
    };
    let sends = |rank: u32| {
        let sends = staged(call(rank), &of).1;
        let others = sends.sends().filter(|(to, _)| to / 2 != rank / 2);
        others.collect::<Vec<_>>()
    };
    assert_eq!(sends(0), [(3, 80_000)]);
    assert_eq!([2, 4].map(sends), [[(0, 80_000)], [(0, 80_000)]]);
    assert_eq!([1, 3, 5].map(sends), [[]; 3]);
}

/// Messages of two ranks as in runs of MPICH 4.0.2, with an odd number of elements.
#[test]
fn reductions_divide_odd_numbers_by_their_form() {
    let call = Call::new(Operation::Reduce, 2, 0).elements(257, 8);
    let sends = |call: &Call| {
        let schedule = Algorithm::ReduceScatterGather.schedule(call);
        schedule.sends().collect::<Vec<_>>()
    };
    assert_eq!(sends(&call), [(1, 1024)]);
    let nonblocking = Call {
        nonblocking: true,
        ..call
    };
    assert_eq!(sends(&nonblocking), [(1, 1032)]);
}
