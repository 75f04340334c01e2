//! Traces that contradict themselves.

use belljar_trace::{Fact, GroupMembers, Launch, Making, NewCommunicator, Peer, WORLD};
use proptest::prelude::*;

use super::{Cluster, MPICH_WORLD, key, world_rank};

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..4u32, Just(u32::MAX)]
}

fn making() -> impl Strategy<Value = Making> {
    let maybe = || prop::option::of(number());
    prop_oneof![
        3 => Just(Making::Duplicate),
        2 => (prop::option::of(0..2), -1..2).prop_map(|(color, key)| Making::Split { color, key }),
        1 => any::<bool>().prop_map(|member| Making::SplitByNode { member, key: 0 }),
        1 => maybe().prop_map(|group| Making::Create { group }),
        1 => maybe().prop_map(|group| Making::CreateGroup { group, tag: 0 }),
        1 => prop::collection::vec(number(), 0..3)
            .prop_map(|dimensions| {
                let periods = dimensions.iter().map(|size| size % 2 == 0).collect();
                Making::Cart { dimensions, periods }
            }),
        1 => prop::collection::vec(any::<bool>(), 0..3)
            .prop_map(|remain| Making::CartSub { remain }),
        1 => prop::collection::vec(number(), 0..4).prop_map(|degrees| Making::Graph { degrees }),
        1 => prop::collection::vec((number(), number()), 0..4)
            .prop_map(|edges| Making::DistGraph { edges }),
        1 => (number(), number()).prop_map(|(sources, destinations)| {
            Making::DistGraphAdjacent { sources, destinations }
        }),
        2 => (number(), maybe(), number()).prop_map(|(local_leader, bridge, remote_leader)| {
            Making::Intercomm { local_leader, bridge, remote_leader, tag: 0 }
        }),
        1 => any::<bool>().prop_map(|high| Making::Merge { high }),
        1 => (number(), maybe()).prop_map(|(root, count)| Making::Spawn { root, count }),
        1 => Just(Making::Parent),
        2 => (any::<bool>(), number(), maybe()).prop_map(|(accepts, root, port)| {
            Making::Meet { accepts, root, port }
        }),
        2 => (maybe(), maybe(), number()).prop_map(|(local, remote, leader)| {
            Making::IntercommGroups { local, remote, leader, tag: 0 }
        }),
        1 => Just(Making::Unknown),
    ]
}

fn group() -> impl Strategy<Value = GroupMembers> {
    let maybe = || prop::option::of(number());
    let ranks = || prop::collection::vec(number(), 0..3);
    prop_oneof![
        number().prop_map(GroupMembers::Of),
        number().prop_map(GroupMembers::RemoteOf),
        (maybe(), ranks()).prop_map(|(from, ranks)| GroupMembers::Include(from, ranks)),
        (maybe(), ranks()).prop_map(|(from, ranks)| GroupMembers::Exclude(from, ranks)),
        (maybe(), maybe()).prop_map(|(one, two)| GroupMembers::Union(one, two)),
        (maybe(), maybe()).prop_map(|(one, two)| GroupMembers::Intersection(one, two)),
        (maybe(), maybe()).prop_map(|(one, two)| GroupMembers::Difference(one, two)),
    ]
}

fn fact() -> impl Strategy<Value = Fact> {
    let new = (
        prop::option::of(number()),
        prop::option::of(number()),
        0..3u32,
        making(),
    );
    prop_oneof![
        4 => new.prop_map(|(number, parent, sequence, how)| {
            Fact::Communicator(NewCommunicator { number, parent, sequence, how })
        }),
        2 => (number(), group()).prop_map(|(number, members)| Fact::Group { number, members }),
        1 => prop::option::of(number()).prop_map(|size| Fact::Launch(Launch { name: None, size })),
        1 => number().prop_map(|size| Fact::Size { communicator: WORLD, size }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Contradictory traces are resolved as far as possible, in bounded time.
    #[test]
    fn contradictions_do_no_harm(
        facts in prop::collection::vec((0..3usize, fact(), prop_oneof![9 => Just(0u32), 1 => any::<u32>()]), 0..40),
    ) {
        let mut cluster = Cluster::new(3);
        let template = {
            let tracer = &mut cluster.tracers[0];
            cluster.guests[0].make(tracer, "MPI_Comm_dup", &[MPICH_WORLD], 0x8400_0001)
        };
        for (rank, fact, more) in facts {
            let mut event = template.clone();
            (event.node, event.process) = key(rank);
            event.rank = (rank as u32).wrapping_add(more);
            event.fact = Some(fact);
            cluster.collector.observe(&event, &cluster.header);
        }
        let resolved = cluster.resolve();
        for rank in 0..3 {
            for number in 0..6 {
                let peer = world_rank(&resolved, key(rank), number, Peer::Rank(1));
                let members = resolved.members(key(rank), number);
                prop_assert!(peer.is_none() || members.is_some());
            }
        }
    }
}
