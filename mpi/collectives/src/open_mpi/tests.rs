//! Choices of algorithms.

use super::*;

fn name(call: Call) -> String {
    choose(&call).unwrap().name()
}

#[test]
fn rules_go_by_members_and_bytes() {
    let broadcast = |members, bytes| Call::new(Operation::Broadcast, members, 0).elements(bytes, 1);
    assert_eq!(name(broadcast(3, 31)), "BroadcastChain");
    assert_eq!(name(broadcast(3, 32)), "BroadcastBinaryTree");
    assert_eq!(name(broadcast(4, 10_000)), "BroadcastLinear");
    assert_eq!(name(broadcast(500, 20_000)), "BroadcastSplitBinaryTree");
    assert_eq!(name(broadcast(5000, 1 << 20)), "BroadcastScatterAllgather");
    let allgather = |members| Call::new(Operation::Allgather, members, 0).elements(9, 8);
    assert_eq!(name(allgather(2)), "AllgatherRing");
    assert_eq!(name(allgather(16)), "AllgatherRecursiveDoubling");
    assert_eq!(name(allgather(17)), "AllgatherBrucks");
}

#[test]
fn rules_go_by_whether_order_counts() {
    let call = |commutative| Call {
        commutative,
        ..Call::new(Operation::Reduce, 16, 3).elements(10, 8)
    };
    assert_eq!(name(call(true)), "ReduceBinaryTree");
    assert_eq!(name(call(false)), "ReduceOrderedBinaryTree");
}

#[test]
fn nonblocking_forms_have_rules_of_their_own() {
    let call = |operation, members, bytes| Call {
        nonblocking: true,
        ..Call::new(operation, members, 0).elements(bytes, 1)
    };
    assert_eq!(
        name(call(Operation::Broadcast, 4, 1 << 20)),
        "BroadcastLinear"
    );
    assert_eq!(
        name(call(Operation::Broadcast, 5, 1 << 20)),
        "BroadcastSwappedBinomialTree"
    );
    assert_eq!(
        name(call(Operation::Reduce, 2, 1 << 20)),
        "ReduceSwappedChain"
    );
    assert_eq!(
        name(call(Operation::Allreduce, 4, 100)),
        "AllreduceBinomialTree"
    );
    assert_eq!(name(call(Operation::Barrier, 4, 0)), "BarrierDissemination");
}
