//! Tables of libraries, and others.

use proptest::prelude::*;

use super::*;

const TABLE: &str = r#"{
    "collective=bcast": {
        "comm_type=intra": {
            "comm_size<8": {"algorithm=MPIR_Bcast_intra_binomial": {}},
            "comm_hierarchy=parent": {"algorithm=MPIR_Bcast_intra_smp": {}},
            "comm_size=pow2": {
                "avg_msg_size<=100": {"algorithm=MPIR_Bcast_intra_binomial": {}},
                "avg_msg_size=any": {"algorithm=MPIR_Bcast_intra_scatter_recursive_doubling_allgather": {}}
            },
            "comm_size=any": {
                "avg_msg_size<100": {"algorithm=MPIR_Bcast_intra_smp": {}}
            }
        },
        "comm_type=inter": {"algorithm=MPIR_Bcast_inter_something": {}}
    },
    "collective=ibcast": {"algorithm=MPIR_Ibcast_intra_sched_scatter_ring_allgather": {}},
    "collective=alltoall": {
        "is_sendbuf_inplace=yes": {"algorithm=MPIR_Alltoall_intra_pairwise_sendrecv_replace": {}},
        "is_sendbuf_inplace=no": {
            "comm_size<8": {"algorithm=MPIR_Alltoall_intra_scattered": {}},
            "comm_size=any": {"algorithm=MPIR_Alltoall_intra_brucks": {}}
        }
    }
}"#;

fn choose(call: Call) -> Choice {
    Tables::parse(TABLE.as_bytes()).unwrap().choose(&call)
}

fn broadcast(members: u32, bytes: u64) -> Call {
    Call::new(Operation::Broadcast, members, 0).elements(bytes, 1)
}

#[test]
fn the_first_condition_that_holds_decides_and_there_is_no_way_back() {
    let binomial = Choice::Known(Algorithm::BroadcastBinomial);
    let doubling = Choice::Known(Algorithm::BroadcastScatterRecursiveDoublingAllgather);
    assert_eq!(choose(broadcast(7, 1000)), binomial);
    assert_eq!(choose(broadcast(8, 100)), binomial);
    assert_eq!(choose(broadcast(8, 101)), doubling);
    let unknown = Choice::Unknown("MPIR_Bcast_intra_smp".to_owned());
    assert_eq!(choose(broadcast(9, 99)), unknown);
    assert_eq!(choose(broadcast(9, 100)), Choice::None);
    assert_eq!(choose(Call::new(Operation::Scan, 9, 0)), Choice::None);
}

#[test]
fn the_nonblocking_form_is_an_operation_of_its_own() {
    let call = Call {
        nonblocking: true,
        ..broadcast(4, 1)
    };
    let ring = Choice::Known(Algorithm::BroadcastScatterRingAllgather);
    assert_eq!(choose(call), ring);
}

#[test]
fn members_are_compared_as_mpich_does_once_data_was_asked_for() {
    let call = |members| Call::new(Operation::Alltoall, members, 0).elements(1, 1);
    let scattered = Choice::Known(Algorithm::AlltoallScattered);
    assert_eq!(choose(call(8)), scattered, "8 is not less, but no more");
    let brucks = Choice::Known(Algorithm::AlltoallBrucks);
    assert_eq!(choose(call(9)), brucks);
    let in_place = Call {
        in_place: true,
        ..call(9)
    };
    let replace = Choice::Known(Algorithm::AlltoallPairwiseReplace);
    assert_eq!(choose(in_place), replace);
}

#[test]
fn every_algorithm_has_a_name() {
    for (name, algorithm) in [
        (
            "MPIR_Ialltoallw_intra_sched_inplace",
            Algorithm::AlltoallvPairwiseReplace,
        ),
        (
            "MPIR_Ialltoall_intra_sched_inplace",
            Algorithm::AlltoallPairwiseReplace,
        ),
        (
            "MPIR_Alltoallw_intra_pairwise_sendrecv_replace",
            Algorithm::AlltoallvPairwiseReplace,
        ),
        (
            "MPIR_Ialltoallw_intra_sched_blocked",
            Algorithm::AlltoallvScattered,
        ),
        (
            "MPIR_Ireduce_scatter_block_intra_sched_pairwise",
            Algorithm::ReduceScatterPairwise,
        ),
        (
            "MPIR_Ibarrier_intra_sched_recursive_doubling",
            Algorithm::BarrierDissemination,
        ),
        (
            "MPIR_Iexscan_intra_sched_recursive_doubling",
            Algorithm::ScanRecursiveDoubling,
        ),
        (
            "MPIR_Ireduce_intra_sched_reduce_scatter_gather",
            Algorithm::ReduceScatterGather,
        ),
        (
            "MPIR_Igatherv_allcomm_sched_linear",
            Algorithm::GathervLinear,
        ),
    ] {
        assert_eq!(Algorithm::named(name), Some(algorithm), "{name}");
    }
    assert_eq!(Algorithm::named("MPIR_Bcast_intra_smp"), None);
    assert_eq!(Algorithm::named("nonsense"), None);
}

#[test]
fn tables_are_found_in_a_library() {
    let mut library = b"\x7fELF\0{\"collective=bcast\":{\"composition=X\":{}}}\0".to_vec();
    library.extend(
        TABLE
            .trim()
            .replace('\n', "")
            .replacen("{    ", "{", 1)
            .bytes(),
    );
    library.push(0);
    let tables = Tables::of_library(&library).unwrap();
    assert_eq!(tables, Tables::parse(TABLE.as_bytes()).unwrap());
    let missing = Tables::of_library(b"\x7fELF").unwrap_err();
    assert!(matches!(missing, TableError::Missing));
}

#[test]
fn what_is_no_table_is_refused() {
    for text in [
        "",
        "[]",
        "{\"collective=bcast\": 5}",
        "{\"moon=full\": {}}",
        "{\"comm_size<many\": {}}",
    ] {
        assert!(Tables::parse(text.as_bytes()).is_err(), "{text}");
    }
    let deep = "{\"count=any\":".repeat(100_000);
    assert!(Tables::parse(deep.as_bytes()).is_err());
}

proptest! {
    #[test]
    fn anything_may_be_in_a_table(text in "\\PC*", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Tables::parse(text.as_bytes());
        let _ = Tables::of_library(&bytes);
    }
}
