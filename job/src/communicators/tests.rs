//! Communicators of scripted processes, resolved from their events.

/// Traces that contradict themselves.
mod contradictions;
/// Assignment of processes to jobs, by launchers' variables.
mod jobs;
/// Jobs that meet: spawned ones, ports, groups of sessions.
mod meetings;
/// Volumes of collective operations that a process alone does not know.
mod volumes;

use belljar_sim::Frequency;
use belljar_trace::{Fact, Peer, SELF, TraceHeader, WORLD};
use belljar_tracer::scripted::{Guest, int};
use belljar_tracer::{NodeTracer, Selection};

use super::{Collector, Communicators, ProcessKey};

const MPICH_WORLD: u64 = 0x4400_0000;
const NULL: u64 = 0x0400_0000;
const UNDEFINED: i32 = -32766;

/// Processes of one program, two on each node.
struct Cluster {
    tracers: Vec<NodeTracer>,
    guests: Vec<Guest>,
    collector: Collector,
    header: TraceHeader,
    handle: u64,
}

impl Cluster {
    fn new(ranks: u64) -> Self {
        // Communicators are followed even if nothing is selected.
        let selection = Selection {
            functions: vec!["MPI_Pcontrol".into()],
            ..Selection::default()
        };
        let nodes = ranks.div_ceil(2) as u32;
        let mut tracers: Vec<_> = (0..nodes)
            .map(|node| NodeTracer::new(node, &selection))
            .collect();
        let guests = (0..ranks)
            .map(|rank| Guest::mpich(&mut tracers[rank as usize / 2], rank))
            .collect();
        let frequency = Frequency::from_hz(1_000_000_000).unwrap();
        Self {
            tracers,
            guests,
            collector: Collector::new(),
            header: TraceHeader::new("test", &vec![frequency; nodes as usize]),
            handle: 0x8400_0000,
        }
    }

    /// A call on one rank with an output handle; returns its own number of the object, if any.
    fn make(&mut self, rank: usize, name: &str, arguments: &[u64], handle: u64) -> Option<u32> {
        let tracer = &mut self.tracers[rank / 2];
        let event = self.guests[rank].make(tracer, name, arguments, handle);
        self.collector.observe(&event, &self.header);
        match event.fact {
            Some(Fact::Communicator(new)) => new.number,
            Some(Fact::Group { number, .. }) => Some(number),
            other => panic!("{name}: {other:?}"),
        }
    }

    /// The same call on all ranks, with arguments by rank, last rank first. Returns handle and
    /// numbers.
    fn all(
        &mut self,
        name: &str,
        arguments: impl Fn(&mut Guest, usize) -> Vec<u64>,
        member: impl Fn(usize) -> bool,
    ) -> (u64, Vec<Option<u32>>) {
        self.handle += 1;
        let mut numbers = vec![None; self.guests.len()];
        for rank in (0..self.guests.len()).rev() {
            let arguments = arguments(&mut self.guests[rank], rank);
            let handle = if member(rank) { self.handle } else { NULL };
            numbers[rank] = self.make(rank, name, &arguments, handle);
        }
        (self.handle, numbers)
    }

    /// One rank queries its rank in a communicator, and gets `told`.
    fn asks_for_its_rank(&mut self, rank: usize, communicator: u64, told: u64) {
        let tracer = &mut self.tracers[rank / 2];
        let event = self.guests[rank].make(tracer, "MPI_Comm_rank", &[communicator], told);
        assert!(matches!(event.fact, Some(Fact::Rank { .. })), "{event:?}");
        self.collector.observe(&event, &self.header);
    }

    fn resolve(&self) -> Communicators {
        self.collector.clone().resolve()
    }
}

fn key(rank: usize) -> (u32, u32) {
    (rank as u32 / 2, rank as u32 % 2)
}

fn world_rank(
    resolved: &Communicators,
    process: ProcessKey,
    communicator: u32,
    peer: Peer,
) -> Option<u32> {
    let member = resolved.peer(process, communicator, peer)?;
    Some(member.rank)
}

fn members(resolved: &Communicators, rank: usize, number: Option<u32>) -> Vec<u32> {
    let members = resolved.members(key(rank), number.unwrap());
    members
        .expect("resolved")
        .iter()
        .map(|it| it.rank)
        .collect()
}

#[test]
fn the_world_and_oneself_are_known_from_the_start() {
    let mut cluster = Cluster::new(4);
    cluster.all("MPI_Comm_dup", |_, _| vec![MPICH_WORLD], |_| true);
    let resolved = cluster.resolve();
    assert_eq!(members(&resolved, 2, Some(WORLD)), [0, 1, 2, 3]);
    assert_eq!(members(&resolved, 2, Some(SELF)), [2]);
    assert_eq!((resolved.jobs(), resolved.job_size(0)), (1, 4));
    assert_eq!(world_rank(&resolved, key(2), SELF, Peer::Rank(0)), Some(2));
    assert_eq!(world_rank(&resolved, key(2), WORLD, Peer::Any), None);
    assert_eq!(world_rank(&resolved, key(2), WORLD, Peer::Rank(4)), None);
}

#[test]
fn splits_go_by_color_key_and_rank() {
    let mut cluster = Cluster::new(6);
    // Odd ranks in reverse; rank 4 in no communicator.
    let (first, numbers) = cluster.all(
        "MPI_Comm_split",
        |_, rank| {
            let color = if rank == 4 {
                UNDEFINED
            } else {
                rank as i32 % 2
            };
            let key = if rank % 2 == 1 { -(rank as i32) } else { 7 };
            vec![MPICH_WORLD, int(color), int(key)]
        },
        |rank| rank != 4,
    );
    assert_eq!(numbers[4], None);
    // A second one from the world, and one from the first.
    let (_, dup) = cluster.all("MPI_Comm_dup", |_, _| vec![MPICH_WORLD], |_| true);
    let mut inner = [None; 6];
    for rank in [1, 3, 5] {
        let arguments = [first, int((rank == 3).into()), int(0)];
        inner[rank] = cluster.make(rank, "MPI_Comm_split", &arguments, 0x8400_0099);
    }
    let resolved = cluster.resolve();
    assert_eq!(members(&resolved, 0, numbers[0]), [0, 2]);
    assert_eq!(members(&resolved, 3, numbers[3]), [5, 3, 1]);
    assert_eq!(members(&resolved, 4, dup[4]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(members(&resolved, 5, inner[5]), [5, 1]);
    assert_eq!(members(&resolved, 3, inner[3]), [3]);
    let number = numbers[1].unwrap();
    assert_eq!(
        world_rank(&resolved, key(1), number, Peer::Rank(0)),
        Some(5)
    );
}

#[test]
fn shared_memory_splits_go_by_node() {
    let mut cluster = Cluster::new(4);
    let (_, numbers) = cluster.all(
        "MPI_Comm_split_type",
        |_, _| vec![MPICH_WORLD, int(1), int(0), 0x1c00_0000],
        |_| true,
    );
    let resolved = cluster.resolve();
    assert_eq!(members(&resolved, 1, numbers[1]), [0, 1]);
    assert_eq!(members(&resolved, 2, numbers[2]), [2, 3]);
}

#[test]
fn grids_and_their_rows() {
    let mut cluster = Cluster::new(7);
    let (grid, numbers) = cluster.all(
        "MPI_Cart_create",
        |guest, _| {
            let (dims, periods) = (guest.ints(&[2, 3]), guest.ints(&[0, 0]));
            vec![MPICH_WORLD, int(2), dims, periods, int(0)]
        },
        |rank| rank < 6,
    );
    assert_eq!(numbers[6], None);
    let mut rows = [None; 6];
    let mut columns = [None; 6];
    for rank in 0..6 {
        let keep = cluster.guests[rank].ints(&[0, 1]);
        rows[rank] = cluster.make(rank, "MPI_Cart_sub", &[grid, keep], 0x8400_0050);
        let keep = cluster.guests[rank].ints(&[1, 0]);
        columns[rank] = cluster.make(rank, "MPI_Cart_sub", &[grid, keep], 0x8400_0051);
    }
    let resolved = cluster.resolve();
    assert_eq!(members(&resolved, 0, numbers[0]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(members(&resolved, 4, rows[4]), [3, 4, 5]);
    assert_eq!(members(&resolved, 4, columns[4]), [1, 4]);
}

#[test]
fn groups_make_communicators() {
    let mut cluster = Cluster::new(5);
    let (world, _) = cluster.all("MPI_Comm_group", |_, _| vec![MPICH_WORLD], |_| true);
    let (picked, _) = cluster.all(
        "MPI_Group_range_incl",
        |guest, _| {
            let ranges = guest.ints(&[4, 0, -2]);
            vec![world, int(1), ranges]
        },
        |_| true,
    );
    let (rest, _) = cluster.all("MPI_Group_difference", |_, _| vec![world, picked], |_| true);
    let (some, _) = cluster.all(
        "MPI_Group_excl",
        |guest, _| {
            let ranks = guest.ints(&[0]);
            vec![rest, int(1), ranks]
        },
        |_| true,
    );
    let (both, _) = cluster.all("MPI_Group_union", |_, _| vec![some, picked], |_| true);
    let (_, numbers) = cluster.all(
        "MPI_Comm_create",
        |_, _| vec![MPICH_WORLD, both],
        |rank| rank != 1,
    );
    // Only its members make this call, which does not count on the parent.
    let mut few = [None; 5];
    for rank in [0, 2, 4] {
        let arguments = [MPICH_WORLD, picked, int(3)];
        few[rank] = cluster.make(rank, "MPI_Comm_create_group", &arguments, 0x8400_0077);
    }
    let (_, dup) = cluster.all("MPI_Comm_dup", |_, _| vec![MPICH_WORLD], |_| true);
    let resolved = cluster.resolve();
    assert_eq!(members(&resolved, 3, numbers[3]), [3, 4, 2, 0]);
    assert_eq!(members(&resolved, 2, few[2]), [4, 2, 0]);
    assert_eq!(members(&resolved, 1, dup[1]), [0, 1, 2, 3, 4]);
}

#[test]
fn two_groups_meet_and_merge() {
    let mut cluster = Cluster::new(5);
    let (half, halves) = cluster.all(
        "MPI_Comm_split",
        |_, rank| vec![MPICH_WORLD, int((rank >= 2).into()), int(0)],
        |_| true,
    );
    let (between, inter) = cluster.all(
        "MPI_Intercomm_create",
        |_, rank| {
            let remote = if rank < 2 { 3 } else { 0 };
            // The second half's leader is its rank 1: world rank 3.
            let local = if rank < 2 { 0 } else { 1 };
            vec![half, int(local), MPICH_WORLD, int(remote), int(42)]
        },
        |_| true,
    );
    let (_, merged) = cluster.all(
        "MPI_Intercomm_merge",
        |_, rank| vec![between, int((rank < 2).into())],
        |_| true,
    );
    let resolved = cluster.resolve();
    assert_eq!(members(&resolved, 4, halves[4]), [2, 3, 4]);
    assert_eq!(members(&resolved, 0, inter[0]), [0, 1]);
    let number = inter[0].unwrap();
    assert_eq!(
        world_rank(&resolved, key(0), number, Peer::Rank(2)),
        Some(4)
    );
    let number = inter[4].unwrap();
    assert_eq!(
        world_rank(&resolved, key(4), number, Peer::Rank(1)),
        Some(1)
    );
    assert_eq!(members(&resolved, 1, merged[1]), [2, 3, 4, 0, 1]);
    assert_eq!(members(&resolved, 3, merged[3]), [2, 3, 4, 0, 1]);
}

#[test]
fn sides_that_say_the_same_merge_in_the_order_that_a_rank_tells() {
    // World ranks 0 and 1 on one side, 2, 3 and 4 on the other.
    let merge = |asks: Option<(usize, u64)>| {
        let mut cluster = Cluster::new(5);
        let (half, _) = cluster.all(
            "MPI_Comm_split",
            |_, rank| vec![MPICH_WORLD, int((rank >= 2).into()), int(0)],
            |_| true,
        );
        let (between, _) = cluster.all(
            "MPI_Intercomm_create",
            |_, rank| {
                let remote = if rank < 2 { 2 } else { 0 };
                vec![half, int(0), MPICH_WORLD, int(remote), int(42)]
            },
            |_| true,
        );
        let (both, merged) = cluster.all(
            "MPI_Intercomm_merge",
            |_, _| vec![between, int(0)],
            |_| true,
        );
        if let Some((rank, told)) = asks {
            cluster.asks_for_its_rank(rank, both, told);
        }
        let resolved = cluster.resolve();
        let members = resolved.members(key(1), merged[1].unwrap());
        members.map(|members| members.iter().map(|it| it.rank).collect::<Vec<_>>())
    };
    assert_eq!(merge(None), None);
    assert_eq!(merge(Some((1, 1))), Some(vec![0, 1, 2, 3, 4]));
    assert_eq!(merge(Some((1, 4))), Some(vec![2, 3, 4, 0, 1]));
    assert_eq!(merge(Some((3, 3))), Some(vec![0, 1, 2, 3, 4]));
    assert_eq!(merge(Some((3, 1))), Some(vec![2, 3, 4, 0, 1]));
    // A rank that no order explains is ignored.
    assert_eq!(merge(Some((3, 4))), None);
}

#[test]
fn what_is_made_of_an_intercommunicator_has_two_sides() {
    let mut cluster = Cluster::new(5);
    // World ranks 0, 1 and 2 on one side, 3 and 4 on the other.
    let first = |rank: usize| rank < 3;
    let split = |rank: usize| vec![MPICH_WORLD, int(first(rank).into()), int(0)];
    let (half, _) = cluster.all("MPI_Comm_split", |_, rank| split(rank), |_| true);
    let leaders = |rank| if first(rank) { int(3) } else { int(0) };
    let (between, _) = cluster.all(
        "MPI_Intercomm_create",
        |_, rank| vec![half, int(0), MPICH_WORLD, leaders(rank), int(1)],
        |_| true,
    );
    // Ranks 0, 2 and 4 have a color of both sides; rank 1's color is only its own, and rank 3 has
    // none.
    let color = [7, 8, 7, UNDEFINED, 7];
    let (parts, numbers) = cluster.all(
        "MPI_Comm_split",
        |_, rank| vec![between, int(color[rank]), int(-(rank as i32))],
        |rank| color[rank] == 7,
    );
    let (copy, copies) = cluster.all("MPI_Comm_dup", |_, _| vec![between], |_| true);
    let (_, merged) = cluster.all(
        "MPI_Intercomm_merge",
        |_, rank| vec![copy, int(first(rank).into())],
        |_| true,
    );
    assert_ne!(parts, copy);
    let resolved = cluster.resolve();
    let remote = |rank: usize, number: Option<u32>| -> Vec<u32> {
        let members = resolved.remote_members(key(rank), number.unwrap());
        members
            .expect("resolved")
            .iter()
            .map(|it| it.rank)
            .collect()
    };
    assert_eq!(members(&resolved, 0, numbers[0]), [2, 0]);
    assert_eq!(remote(0, numbers[0]), [4]);
    assert_eq!(members(&resolved, 4, numbers[4]), [4]);
    assert_eq!(remote(4, numbers[4]), [2, 0]);
    assert_eq!(remote(1, copies[1]), [3, 4]);
    assert_eq!(members(&resolved, 2, merged[2]), [3, 4, 0, 1, 2]);
}

#[test]
fn what_one_process_did_not_reach_is_not_resolved() {
    let mut cluster = Cluster::new(3);
    cluster.make(2, "MPI_Comm_dup", &[0x4400_0001], 0x8400_0001);
    let arguments = [MPICH_WORLD, int(0), int(0)];
    let number = cluster.make(0, "MPI_Comm_split", &arguments, 0x8400_0001);
    cluster.make(1, "MPI_Comm_split", &arguments, 0x8400_0001);
    let resolved = cluster.resolve();
    assert!(resolved.members(key(0), number.unwrap()).is_none());
}

#[test]
fn programs_after_one_another_have_worlds_of_their_own() {
    let mut cluster = Cluster::new(2);
    cluster.all("MPI_Comm_dup", |_, _| vec![MPICH_WORLD], |_| true);
    for rank in 0..2 {
        let clock = cluster.guests[rank].clock;
        cluster.guests[rank] = Guest::mpich(&mut cluster.tracers[0], rank as u64);
        cluster.guests[rank].clock = clock + 1000;
    }
    let (_, numbers) = cluster.all(
        "MPI_Comm_split",
        |_, rank| vec![MPICH_WORLD, int(0), int(-(rank as i32))],
        |_| true,
    );
    let resolved = cluster.resolve();
    assert_eq!(resolved.jobs(), 2);
    assert_eq!(
        (resolved.job((0, 1)), resolved.job((0, 3))),
        (Some(0), Some(1))
    );
    let second = resolved.members((0, 2), numbers[0].unwrap()).unwrap();
    let ranks: Vec<u32> = second.iter().map(|it| it.rank).collect();
    assert_eq!(ranks, [1, 0]);
}

#[test]
fn freed_handles_do_not_confuse() {
    let mut cluster = Cluster::new(2);
    let (handle, first) = cluster.all("MPI_Comm_dup", |_, _| vec![MPICH_WORLD], |_| true);
    for rank in 0..2 {
        let behind = cluster.guests[rank].handles(&[handle]);
        cluster.guests[rank].call(&mut cluster.tracers[0], "MPI_Comm_free", &[behind]);
    }
    let mut second = [None; 2];
    for (rank, number) in second.iter_mut().enumerate() {
        let arguments = [MPICH_WORLD, int(rank as i32), int(0)];
        *number = cluster.make(rank, "MPI_Comm_split", &arguments, handle);
    }
    let resolved = cluster.resolve();
    assert_eq!(members(&resolved, 1, first[1]), [0, 1]);
    assert_eq!(members(&resolved, 1, second[1]), [1]);
}
