//! Facts of a few scripted calls, in order.

use belljar_sim::Frequency;
use belljar_trace::{Event, TraceHeader};
use belljar_tracer::scripted::{Guest, int};
use belljar_tracer::{NodeTracer, Selection};

use super::fact::{Completer, Fact, Loss, MeetingPart, Operation, OperationId, Origin, Turns};
use super::{Operations, requests};
use crate::communicators::{Collector, Communicators};

const WORLD: u64 = 0x4400_0000;
const BYTE: u64 = 0x4c00_010d;
const INFO_NULL: u64 = 0x1c00_0000;
const WINDOW: u64 = 0xa000_0001;
const BUFFER: u64 = 0x5000;
/// `MPI_STATUS_IGNORE`.
const IGNORE: u64 = 1;

/// Ranks of MPICH, each on a node of its own.
struct Ranks {
    tracers: Vec<NodeTracer>,
    guests: Vec<Guest>,
    events: Vec<Event>,
}

impl Ranks {
    fn new(count: u32) -> Self {
        let mut tracers: Vec<_> = (0..count)
            .map(|node| NodeTracer::new(node, &Selection::default()))
            .collect();
        let guests = tracers.iter_mut().zip(0..);
        let guests = guests.map(|(tracer, rank)| Guest::mpich(tracer, rank));
        let guests = guests.collect();
        Self {
            tracers,
            guests,
            events: Vec::new(),
        }
    }

    fn call(&mut self, rank: usize, name: &str, arguments: &[u64]) {
        self.guests[rank].call(&mut self.tracers[rank], name, arguments);
        self.events.extend(self.tracers[rank].take_events());
    }

    /// A call that writes this handle to its last argument.
    fn make(&mut self, rank: usize, name: &str, arguments: &[u64], handle: u64) {
        let event = self.guests[rank].make(&mut self.tracers[rank], name, arguments, handle);
        self.events.push(event);
    }

    /// A message of four bytes from rank 0 to rank 1, or its receive.
    fn message(&mut self, rank: usize, name: &str, tag: i32) {
        let mut arguments = vec![BUFFER, int(4), BYTE, int(1 - rank as i32), int(tag), WORLD];
        match name {
            "MPI_Recv" => arguments.push(IGNORE),
            "MPI_Isend" | "MPI_Irecv" => return self.make(rank, name, &arguments, 0x9c00_0001),
            _ => {}
        }
        self.call(rank, name, &arguments);
    }

    fn resolved(&self) -> (TraceHeader, Communicators) {
        let rate = Frequency::from_hz(1_000_000_000).unwrap();
        let header = TraceHeader::new("facts", &vec![rate; self.tracers.len()]);
        let mut collector = Collector::new();
        for event in &self.events {
            collector.observe(event, &header);
        }
        (header, collector.resolve())
    }

    fn facts(&self) -> Vec<Fact> {
        let (header, communicators) = self.resolved();
        let mut operations = Operations::new(&header, &communicators);
        let mut facts = Vec::new();
        for event in &self.events {
            operations.observe(event, &mut facts);
        }
        operations.end(&mut facts);
        facts
    }
}

/// The operations that are complete, with their completers, in order.
fn completed(facts: &[Fact]) -> Vec<(u64, Completer)> {
    let completed = facts.iter().filter_map(|fact| match fact {
        Fact::Completed { operation, by, .. } => Some((operation.0, *by)),
        _ => None,
    });
    completed.collect()
}

#[test]
fn a_message_begins_matches_and_completes() {
    let mut ranks = Ranks::new(2);
    ranks.message(0, "MPI_Isend", 7);
    ranks.message(1, "MPI_Recv", 7);
    let request = ranks.guests[0].handles(&[0x9c00_0001]);
    ranks.call(0, "MPI_Wait", &[request, IGNORE]);
    let facts = ranks.facts();
    let [send, receive] = [OperationId(0), OperationId(1)];
    assert!(
        matches!(
            facts[..],
            [
                Fact::Begun {
                    operation: a,
                    origin: Origin::Transfer(0),
                    what: Operation::Send { .. },
                },
                Fact::Begun {
                    operation: b,
                    what: Operation::Receive { .. },
                    ..
                },
                Fact::Located { receive: c, channel },
                Fact::Matched { .. },
                Fact::Completed { .. },
                Fact::Completed { .. },
            ] if (a, b, c, channel.tag) == (send, receive, receive, 7)
        ),
        "{facts:?}"
    );
    assert_eq!(facts[3], Fact::Matched { send, receive });
    let expected = [(1, Completer::Call), (0, Completer::Completion(0))];
    assert_eq!(completed(&facts), expected);
}

#[test]
fn a_collective_operation_is_met_by_its_last_process() {
    let mut ranks = Ranks::new(3);
    for rank in [2, 0, 1] {
        ranks.call(rank, "MPI_Barrier", &[WORLD]);
    }
    let facts = ranks.facts();
    let met = facts
        .iter()
        .position(|fact| matches!(fact, Fact::Met { .. }));
    let Some(Fact::Met { turns, parts, .. }) = met.map(|at| &facts[at]) else {
        panic!("{facts:?}");
    };
    let part = |rank, operation| MeetingPart {
        rank,
        operation: OperationId(operation),
    };
    assert_eq!(*turns, Turns::Collectives);
    assert_eq!(*parts, [part(2, 0), part(0, 1), part(1, 2)]);
}

#[test]
fn the_oldest_of_too_many_requests_loses_its_operation() {
    let mut ranks = Ranks::new(2);
    ranks.message(0, "MPI_Isend", 7);
    ranks.message(1, "MPI_Irecv", 7);
    let (header, communicators) = ranks.resolved();
    let mut operations = Operations::new(&header, &communicators);
    let mut facts = Vec::new();
    for request in 0..=requests::MOST_REQUESTS as u64 {
        let mut event = ranks.events[0].clone();
        event.started = vec![request];
        facts.clear();
        operations.observe(&event, &mut facts);
        let lost = Fact::Lost {
            operation: OperationId(0),
            why: Loss::Bound,
        };
        let last = request == requests::MOST_REQUESTS as u64;
        assert_eq!(facts.contains(&lost), last, "{request}: {facts:?}");
    }
}

#[test]
fn a_synchronisation_ends_accesses_to_its_target_alone() {
    let mut ranks = Ranks::new(3);
    for rank in 0..3 {
        let arguments = [BUFFER, 64, int(1), INFO_NULL, WORLD];
        ranks.make(rank, "MPI_Win_create", &arguments, WINDOW);
    }
    ranks.call(0, "MPI_Win_lock_all", &[int(0), WINDOW]);
    for target in [1, 2] {
        let arguments = [BUFFER, int(4), BYTE, int(target), 0, int(4), BYTE, WINDOW];
        ranks.call(0, "MPI_Put", &arguments);
    }
    let before = completed(&ranks.facts()).len();
    ranks.call(0, "MPI_Win_flush", &[int(2), WINDOW]);
    ranks.call(0, "MPI_Win_unlock_all", &[WINDOW]);
    let facts = ranks.facts();
    let accesses = facts.iter().filter_map(|fact| match fact {
        Fact::Begun {
            operation,
            what: Operation::Access { target, .. },
            ..
        } => Some((operation.0, target.rank)),
        _ => None,
    });
    let accesses: Vec<(u64, u32)> = accesses.collect();
    let [(first, 1), (second, 2)] = accesses[..] else {
        panic!("{accesses:?}");
    };
    let ended = completed(&facts).split_off(before);
    let ended = ended.into_iter().filter(|(_, by)| *by == Completer::Epoch);
    let ended: Vec<u64> = ended.map(|(operation, _)| operation).collect();
    assert_eq!(ended, [second, first]);
}

#[test]
fn a_lock_that_is_asserted_to_be_free_is_neither_requested_nor_released() {
    const NOCHECK: i32 = 1024;
    const SHARED: i32 = 235;
    let mut ranks = Ranks::new(2);
    for rank in 0..2 {
        let arguments = [BUFFER, 64, int(1), INFO_NULL, WORLD];
        ranks.make(rank, "MPI_Win_create", &arguments, WINDOW);
    }
    let mut lock = |assert: i32| {
        ranks.call(0, "MPI_Win_lock_all", &[int(assert), WINDOW]);
        ranks.call(0, "MPI_Win_unlock_all", &[WINDOW]);
        let arguments = [int(SHARED), int(1), int(assert), WINDOW];
        ranks.call(0, "MPI_Win_lock", &arguments);
        ranks.call(0, "MPI_Win_unlock", &[int(1), WINDOW]);
        let facts = ranks.facts();
        let locks = facts.iter().filter(|fact| {
            let lock = |what: &Operation| matches!(what, Operation::Lock { .. });
            matches!(fact, Fact::Begun { what, .. } if lock(what))
        });
        locks.count()
    };
    assert_eq!(lock(NOCHECK), 0);
    // Both at all two processes, and both at one process.
    assert_eq!(lock(0), 6);
    assert_eq!(lock(NOCHECK), 6);
}

#[test]
fn a_matched_probe_takes_its_message_before_later_receives() {
    let mut ranks = Ranks::new(2);
    for _ in 0..2 {
        ranks.message(0, "MPI_Send", 7);
    }
    let guest = &mut ranks.guests[1];
    let (message, status) = (guest.handles(&[0]), guest.room(20));
    let probe = [int(0), int(7), WORLD, message, status];
    guest.call_with(&mut ranks.tracers[1], "MPI_Mprobe", &probe, |guest, _| {
        guest.put_handle(message, 0xac00_0001);
        guest.put_status(status, 0, 7, 4);
    });
    ranks.events.extend(ranks.tracers[1].take_events());
    ranks.message(1, "MPI_Recv", 7);
    ranks.call(1, "MPI_Mrecv", &[BUFFER, int(4), BYTE, message, IGNORE]);
    let facts = ranks.facts();
    // The receive of the matched message is the third operation.
    let matched = facts.iter().filter_map(|fact| match fact {
        Fact::Matched { send, receive } => Some((send.0, receive.0)),
        _ => None,
    });
    assert_eq!(matched.collect::<Vec<_>>(), [(1, 3), (0, 2)]);
    let begun = facts.iter().filter_map(|fact| match fact {
        Fact::Begun { operation, .. } => Some(operation.0),
        _ => None,
    });
    assert_eq!(begun.collect::<Vec<_>>(), [0, 1, 3, 2]);
}
