//! Jobs that meet: spawned ones, ports, groups of sessions.

use belljar_abi::{IMPLEMENTATION_MPICH, fact};
use belljar_sim::Frequency;
use belljar_trace::{Event, Fact, Implementation, Peer, TraceHeader};
use belljar_tracer::scripted::{Guest, int};
use belljar_tracer::{NodeTracer, Selection};

use super::super::{Collector, Communicators, Member, Members};
use super::{Cluster, MPICH_WORLD, NULL, key};

const MPICH_SELF: u64 = 0x4400_0001;

/// Processes of several jobs on one node, and the collector of their calls.
struct Node {
    tracer: NodeTracer,
    guests: Vec<Guest>,
    collector: Collector,
    header: TraceHeader,
    clock: u64,
}

impl Node {
    fn new() -> Self {
        Self {
            tracer: NodeTracer::new(0, &Selection::default()),
            guests: Vec::new(),
            collector: Collector::new(),
            header: TraceHeader::new("test", &[Frequency::from_hz(1_000_000_000).unwrap()]),
            clock: 1000,
        }
    }

    /// Starts a job, whose processes initialize MPI; returns their numbers.
    fn start(&mut self, name: &str, size: usize) -> Vec<usize> {
        let first = self.guests.len();
        for rank in 0..size as u64 {
            let mut guest = Guest::new(Implementation::Mpich, self.guests.len() as u64);
            guest.clock = self.now();
            guest.tell(&mut self.tracer, fact::PROCESS, rank, IMPLEMENTATION_MPICH);
            let (name, size) = (format!("PMI_JOBID={name}"), format!("PMI_SIZE={size}"));
            let environment = guest.environment(&[&name, &size]);
            guest.tell(&mut self.tracer, fact::ENVIRONMENT, environment, 0);
            guest.call(&mut self.tracer, "MPI_Init", &[0, 0]);
            self.guests.push(guest);
            self.gather();
        }
        (first..first + size).collect()
    }

    fn now(&mut self) -> u64 {
        self.clock += 1000;
        self.clock
    }

    fn gather(&mut self) -> Option<Event> {
        let events = self.tracer.take_events();
        for event in &events {
            self.collector.observe(event, &self.header);
        }
        events.last().cloned()
    }

    /// Enters a call; returns the argument of [`leave`](Self::leave).
    fn enter(&mut self, process: usize, name: &str, arguments: &[u64]) -> (usize, u64, u64) {
        let now = self.now();
        let guest = &mut self.guests[process];
        let out = guest.handles(&[0]);
        let mut arguments = arguments.to_vec();
        // Later arguments follow the new communicator.
        let place = arguments.iter().position(|word| *word == OUT).unwrap();
        arguments[place] = out;
        guest.clock = now;
        let slot = guest.enter(&mut self.tracer, name, &arguments);
        (process, out, slot)
    }

    /// Returns from a call with a communicator; returns the process's own number of it.
    fn leave(&mut self, process: usize, out: u64, slot: u64, handle: u64) -> Option<u32> {
        let now = self.now();
        let guest = &mut self.guests[process];
        guest.put_handle(out, handle);
        guest.clock = now;
        guest.leave(&mut self.tracer, slot, 0);
        guest.stack = slot + 8;
        match self.gather()?.fact {
            Some(Fact::Communicator(new)) => new.number,
            other => panic!("{other:?}"),
        }
    }

    fn make(&mut self, process: usize, name: &str, arguments: &[u64], handle: u64) -> Option<u32> {
        let call = self.enter(process, name, arguments);
        self.leave(call.0, call.1, call.2, handle)
    }

    fn resolve(&self) -> Communicators {
        self.collector.clone().resolve()
    }
}

/// Placeholder for the pointer to the new communicator.
const OUT: u64 = 0xbad_0000_0000_0bad;

fn spawn(count: i32, communicator: u64) -> Vec<u64> {
    vec![0, 0, int(count), 0x1c00_0000, int(0), communicator, OUT, 0]
}

fn ranks(members: Option<&Members>) -> Vec<(u32, u32)> {
    members
        .unwrap()
        .iter()
        .map(|it| (it.job, it.rank))
        .collect()
}

fn keys(process: usize) -> (u32, u32) {
    (0, process as u32)
}

#[test]
fn a_spawned_job_is_linked_to_its_parents() {
    let mut node = Node::new();
    let parents = node.start("kvs_77_0_x_host", 2);
    let calls: Vec<_> = parents
        .iter()
        .map(|parent| node.enter(*parent, "MPI_Comm_spawn", &spawn(2, MPICH_WORLD)))
        .collect();
    // Another launcher's job of the same size starts meanwhile.
    node.start("kvs_88_0_x_host", 2);
    let children = node.start("kvs_77_1_x_host", 2);
    let spawned: Vec<_> = calls
        .into_iter()
        .map(|call| node.leave(call.0, call.1, call.2, 0x8400_0001))
        .collect();
    let parent: Vec<_> = children
        .iter()
        .map(|child| node.make(*child, "MPI_Comm_get_parent", &[OUT], 0x8400_0001))
        .collect();
    // A second query returns the same one.
    let again = node.make(children[0], "MPI_Comm_get_parent", &[OUT], 0x8400_0001);
    assert_eq!(again, parent[0]);
    let mut merged = Vec::new();
    for (process, high) in [(0, 0), (1, 0), (children[0], 1), (children[1], 1)] {
        let arguments = [0x8400_0001, int(high), OUT];
        merged.push(node.make(process, "MPI_Intercomm_merge", &arguments, 0x8400_0009));
    }
    let resolved = node.resolve();
    assert_eq!(resolved.jobs(), 3);
    let (ours, theirs) = ([(0, 0), (0, 1)], [(2, 0), (2, 1)]);
    for parent in parents {
        let number = spawned[parent].unwrap();
        assert_eq!(ranks(resolved.members(keys(parent), number)), ours);
        assert_eq!(ranks(resolved.remote_members(keys(parent), number)), theirs);
        let peer = resolved.peer(keys(parent), number, Peer::Rank(1));
        assert_eq!(peer, Some(Member { job: 2, rank: 1 }));
    }
    for (child, number) in children.iter().zip(&parent) {
        let number = number.unwrap();
        assert_eq!(ranks(resolved.members(keys(*child), number)), theirs);
        assert_eq!(ranks(resolved.remote_members(keys(*child), number)), ours);
    }
    let all = ranks(resolved.members(keys(children[1]), merged[3].unwrap()));
    assert_eq!(all, [(0, 0), (0, 1), (2, 0), (2, 1)]);
}

#[test]
fn spawns_at_once_are_told_apart_by_their_sizes_or_not_at_all() {
    for sizes in [[1, 2], [2, 2]] {
        let mut node = Node::new();
        node.start("kvs_77_0_x_host", 2);
        let first = node.enter(0, "MPI_Comm_spawn", &spawn(sizes[0], MPICH_SELF));
        let second = node.enter(1, "MPI_Comm_spawn", &spawn(sizes[1], MPICH_SELF));
        node.start("kvs_77_1_x_host", sizes[0] as usize);
        node.start("kvs_77_2_x_host", sizes[1] as usize);
        let first = node.leave(first.0, first.1, first.2, 0x8400_0001).unwrap();
        let second = node
            .leave(second.0, second.1, second.2, 0x8400_0001)
            .unwrap();
        let resolved = node.resolve();
        let job = |process, number| {
            let peer = resolved.peer(keys(process), number, Peer::Rank(0));
            peer.map(|member| member.job)
        };
        let expected = if sizes[0] == sizes[1] {
            (None, None)
        } else {
            (Some(1), Some(2))
        };
        assert_eq!((job(0, first), job(1, second)), expected);
    }
}

#[test]
fn one_spawn_after_the_other_finds_its_own() {
    let mut node = Node::new();
    node.start("kvs_77_0_x_host", 1);
    let mut numbers = Vec::new();
    for turn in 1..=2u64 {
        let call = node.enter(0, "MPI_Comm_spawn", &spawn(1, MPICH_WORLD));
        let child = node.start(&format!("kvs_77_{turn}_x_host"), 1);
        numbers.push(
            node.leave(call.0, call.1, call.2, 0x8400_0000 + turn)
                .unwrap(),
        );
        node.make(child[0], "MPI_Comm_get_parent", &[OUT], 0x8400_0001);
    }
    // This job was not spawned, and its processes get no parent.
    let call = node.enter(0, "MPI_Comm_spawn", &spawn(1, MPICH_WORLD));
    let stranger = node.start("kvs_77_3_x_host", 1);
    node.make(stranger[0], "MPI_Comm_get_parent", &[OUT], NULL);
    numbers.push(node.leave(call.0, call.1, call.2, 0x8400_0007).unwrap());
    let resolved = node.resolve();
    let job = |number: u32| {
        let peer = resolved.peer(keys(0), number, Peer::Rank(0));
        peer.map(|member| member.job)
    };
    let found: Vec<_> = numbers.into_iter().map(job).collect();
    assert_eq!(found, [Some(1), Some(2), None]);
}

#[test]
fn those_who_come_to_a_port_find_each_other() {
    let mut node = Node::new();
    let server = node.start("kvs_77_0_x_host", 2);
    let client = node.start("kvs_78_0_x_host", 1);
    let mut call = |process: usize, name: &str, port: &str| {
        let port = node.guests[process].text(port);
        let arguments = [port, 0x1c00_0000, int(0), MPICH_WORLD, OUT];
        node.enter(process, name, &arguments)
    };
    // Only the root's port name is significant.
    let calls = [
        call(server[0], "MPI_Comm_accept", "tag#0$port"),
        call(server[1], "MPI_Comm_accept", "rubbish"),
        call(client[0], "MPI_Comm_connect", "tag#0$port"),
    ];
    let numbers = calls.map(|call| node.leave(call.0, call.1, call.2, 0x8400_0001).unwrap());
    let resolved = node.resolve();
    let remote = |process: usize| ranks(resolved.remote_members(keys(process), numbers[process]));
    assert_eq!((remote(0), remote(1)), (vec![(1, 0)], vec![(1, 0)]));
    assert_eq!(remote(2), [(0, 0), (0, 1)]);
}

#[test]
fn two_groups_of_a_session_make_an_intercommunicator() {
    let mut cluster = Cluster::new(3);
    let (world, _) = cluster.all(
        "MPI_Group_from_session_pset",
        |guest, _| vec![0x3800_0000, guest.text("mpi://WORLD")],
        |_| true,
    );
    let mut half = |ranks: &[i32]| {
        let (group, _) = cluster.all(
            "MPI_Group_incl",
            |guest, _| vec![world, ranks.len() as u64, guest.ints(ranks)],
            |_| true,
        );
        group
    };
    let (left, right) = (half(&[0, 2]), half(&[1]));
    let (_, numbers) = cluster.all(
        "MPI_Intercomm_create_from_groups",
        |guest, rank| {
            let (own, other) = if rank == 1 {
                (right, left)
            } else {
                (left, right)
            };
            vec![
                own,
                int(0),
                other,
                int(0),
                guest.text("org.example"),
                0x1c00_0000,
                0,
            ]
        },
        |_| true,
    );
    let resolved = cluster.resolve();
    for (rank, local, remote) in [(0, vec![0, 2], vec![1]), (1, vec![1], vec![0, 2])] {
        let number = numbers[rank].unwrap();
        let ranks = |members: Option<&Members>| -> Vec<u32> {
            members.unwrap().iter().map(|it| it.rank).collect()
        };
        assert_eq!(ranks(resolved.members(key(rank), number)), local);
        assert_eq!(ranks(resolved.remote_members(key(rank), number)), remote);
    }
}
