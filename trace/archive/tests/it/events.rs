//! Calls to write: arbitrary ones, one of each kind, and the calls of a ring.
#![allow(dead_code)] // Not every test has all of them.

use std::sync::Arc;

use belljar_mpi::{Access, Operation, SendMode};
use belljar_trace::{
    Account, Accounts, Amount, CallStack, CodeFile, Collective, Completion, Datatype, Direction,
    Ending, Event, Fact, Folded, Frame, GroupMembers, Implementation, Launch, Making,
    NewCommunicator, Peer, Phase, Polls, Share, Site, Status, Text, Transfer, TransferKind, Who,
};
use proptest::prelude::*;

/// Numbers among which small ones are frequent, and the largest not rare.
fn number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![6 => 0..4u64, 2 => 0..200u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

/// Up to `most` calls with arbitrary fields.
pub(crate) fn any_events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    let numbers = prop::collection::vec(number(), 44);
    prop::collection::vec(
        numbers.prop_map(|numbers| event(&mut numbers.into_iter())),
        0..most,
    )
}

/// A call site for each number, and no site for 0.
pub(crate) fn site(number: u64) -> Site {
    let frames = (1..=number % 4).map(|depth| Frame {
        address: 0x40_1000 + number * depth,
        file: (!number.is_multiple_of(5)).then(|| {
            Arc::new(CodeFile {
                path: format!("/usr/bin/program{}", number % 2),
                build_id: vec![number as u8 % 2; 20],
            })
        }),
    });
    let frames: Vec<Frame> = frames.collect();
    Site((!frames.is_empty()).then(|| Arc::new(CallStack(frames))))
}

fn peer(next: &mut impl FnMut() -> u64) -> Peer {
    match next() {
        1 => Peer::Any,
        2 => Peer::Null,
        3 => Peer::Invalid(next() as i32),
        other => Peer::Rank(other as u32),
    }
}

fn status(next: &mut impl FnMut() -> u64) -> Status {
    Status {
        observed: next() == 1,
        source: peer(next),
        tag: next() as i32,
        bytes: next(),
        cancelled: next() == 1,
    }
}

fn fact(next: &mut impl FnMut() -> u64) -> Option<Fact> {
    let number = next() as u32;
    match next() {
        1 => Some(Fact::Rank {
            communicator: number,
            rank: next() as u32,
        }),
        2 => Some(Fact::Size {
            communicator: number,
            size: next() as u32,
        }),
        6 => Some(Fact::Scheduled(belljar_trace::ScheduledCall {
            processor: number,
            work: next(),
            after: vec![next() as u32, 3],
            started: None,
            complete: Some(next() as u32),
        })),
        3 => Some(Fact::Launch(Launch {
            name: None,
            size: Some(next() as u32),
        })),
        4 => Some(Fact::Communicator(NewCommunicator {
            number: Some(number),
            parent: None,
            sequence: 1,
            how: Making::Split {
                color: None,
                key: next() as i32,
            },
        })),
        5 => Some(Fact::Group {
            number,
            members: GroupMembers::Include(None, vec![number; 3]),
        }),
        _ => None,
    }
}

/// One of the kinds of transfers.
fn kind(number: u64) -> TransferKind {
    match number % 4 {
        0 => TransferKind::Message(SendMode::Standard),
        1 => TransferKind::Message(SendMode::Synchronous),
        2 => TransferKind::Access(Access::Put),
        _ => TransferKind::Access(Access::GetAccumulate),
    }
}

fn transfer(next: &mut impl FnMut() -> u64) -> Transfer {
    Transfer {
        kind: kind(next()),
        direction: Direction::Receive,
        phase: Phase::Begun,
        communicator: (next() != 3).then(|| next() as u32),
        peer: peer(next),
        tag: (next() != 3).then(|| next() as i32),
        count: next(),
        datatype: Datatype::Derived {
            number: next() as u32,
            size: 8,
        },
        bytes: next(),
        exact: next() == 1,
    }
}

/// A call made of numbers, followed by zeros.
fn event(numbers: &mut impl Iterator<Item = u64>) -> Event {
    let mut next = || numbers.next().unwrap_or(0);
    let communicator = (next() != 3).then(|| next() as u32);
    let transfers = (0..next() % 3).map(|_| transfer(&mut next)).collect();
    let account = |number| Account {
        instructions: number,
        idle: !number,
        ..Account::default()
    };
    let amount = Amount {
        bytes: None,
        pieces: vec![next(); 2],
        share: Share::Members,
        who: Who::Root,
    };
    Event {
        node: next() as u32 % 4,
        vcpu: next() as u32 % 4,
        process: next() as u32,
        thread: next() as u32 % 4,
        rank: next() as u32,
        implementation: Implementation::of_number(next() as u32 % 5).unwrap(),
        function: next() as u16,
        entry: next(),
        exit: (next() != 3).then(&mut next),
        result: (next() != 3).then(|| next().cast_signed()),
        depth: next() as u16,
        selected: next() != 3,
        bad: (next() == 3).then(|| next() as u8),
        transfers,
        started: vec![next(); next() as usize % 3],
        completed: (0..next() % 3)
            .map(|_| Completion {
                request: next(),
                status: (next() != 3).then(|| status(&mut next)),
                received: next(),
                exact: false,
                ending: Ending::Well,
            })
            .collect(),
        status: (next() == 3).then(|| status(&mut next)),
        fact: fact(&mut next),
        arguments: (0..next() % 9).map(|_| next()).collect(),
        texts: vec![
            Text {
                argument: 1,
                text: "port".to_owned()
            };
            next() as usize % 2
        ],
        communicator,
        collectives: (0..next() % 2)
            .map(|_| Collective {
                operation: Operation::ALL.get(next() as usize).copied(),
                phase: Phase::Done,
                communicator,
                root: Some(peer(&mut next)),
                sent: amount.clone(),
                received: amount.clone(),
            })
            .collect(),
        accounts: Accounts((next() == 3).then(|| [account(next()), account(next())])),
        site: Site::default(),
        details: belljar_trace::Detailed::default(),
        folded: folded(&mut next),
        given_up: Default::default(),
    }
}

/// A record of several calls, or of one.
fn folded(next: &mut impl FnMut() -> u64) -> Folded {
    let polls = Polls {
        calls: next().min(belljar_trace::MOST_POLLS),
        inside: next(),
        shortest: next(),
        longest: next(),
        ..Polls::default()
    };
    Folded((polls.calls > 1).then(|| Box::new(polls)))
}

/// The objects that a call creates, names or frees.
fn a_fact(number: u64) -> Option<Fact> {
    match number % 3 {
        0 => None,
        1 => Some(Fact::Group {
            number: 1,
            members: GroupMembers::Include(Some(0), vec![1, 2, 3]),
        }),
        _ => Some(Fact::Communicator(NewCommunicator {
            number: Some(4),
            parent: Some(0),
            sequence: 2,
            how: Making::Cart {
                dimensions: vec![2, 3],
                periods: vec![true, false],
            },
        })),
    }
}

/// Events of all kinds, distinguished by `number`.
pub(crate) fn all_kinds(number: u64) -> Event {
    let transfer = Transfer {
        kind: belljar_trace::TransferKind::Message(Default::default()),
        direction: Direction::Receive,
        phase: Phase::Begun,
        communicator: Some(2),
        peer: Peer::Rank(number as u32),
        tag: Some(-5),
        count: 10,
        datatype: Datatype::Derived {
            number: 7,
            size: 48,
        },
        bytes: 480,
        exact: false,
    };
    let amount = Amount {
        bytes: Some(number),
        pieces: vec![number, 1],
        share: Share::Members,
        who: Who::Others,
    };
    Event {
        node: (number % 2) as u32,
        vcpu: 0,
        process: 1,
        thread: 2,
        rank: 3,
        implementation: Implementation::OpenMpi,
        function: belljar_mpi::renumbered((number % 500) as u16).unwrap(),
        entry: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        exit: (!number.is_multiple_of(5)).then(|| number.wrapping_mul(77)),
        result: (!number.is_multiple_of(7)).then_some(-1),
        depth: 1,
        selected: number.is_multiple_of(2),
        bad: number.is_multiple_of(3).then_some(4),
        arguments: vec![number, u64::MAX, 0],
        texts: vec![Text {
            argument: 1,
            text: format!("text {number}"),
        }],
        communicator: Some(0),
        transfers: vec![transfer],
        collectives: vec![Collective {
            operation: None,
            phase: Phase::Done,
            communicator: None,
            root: Some(Peer::Root),
            sent: amount.clone(),
            received: amount,
        }],
        started: vec![number],
        completed: vec![Completion {
            request: number,
            status: None,
            received: 9,
            exact: true,
            ending: Ending::Error(number as i32),
        }],
        status: Some(Status {
            observed: false,
            source: Peer::Any,
            tag: 3,
            bytes: number,
            cancelled: true,
        }),
        fact: a_fact(number),
        accounts: Accounts::default(),
        site: Site::default(),
        details: belljar_trace::Detailed::default(),
        folded: belljar_trace::Folded::default(),
        given_up: Default::default(),
    }
}

fn call(name: &str, rank: u32, arguments: Vec<u64>) -> Event {
    let mut event = event(&mut std::iter::empty());
    event.function = belljar_mpi::number(name).unwrap();
    (event.node, event.rank, event.arguments) = (rank, rank, arguments);
    (event.texts, event.collectives) = (Vec::new(), Vec::new());
    (event.transfers, event.started, event.completed) = (Vec::new(), Vec::new(), Vec::new());
    (event.result, event.communicator) = (Some(0), Some(0));
    event
}

/// A ring: each rank queries its rank, then receives, sends and waits `turns` times.
pub(crate) fn ring(ranks: u32, turns: u32) -> Vec<Event> {
    let mut events = Vec::new();
    for rank in 0..ranks {
        let mut size = call("MPI_Comm_size", rank, vec![0x4400_0000, 0x7ffe_0000]);
        size.fact = Some(Fact::Size {
            communicator: 0,
            size: ranks,
        });
        events.push(size);
    }
    for turn in 0..turns {
        for rank in 0..ranks {
            let (left, right) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
            let buffer = 0x5555_0000 + u64::from(rank) * 4096;
            let arguments = |peer: u32| vec![buffer, 1, 0x4c00_080b, peer.into(), 7, 0x4400_0000];
            let transfer = |direction, phase, peer| Transfer {
                kind: belljar_trace::TransferKind::Message(Default::default()),
                direction,
                phase,
                communicator: Some(0),
                peer: Peer::Rank(peer),
                tag: Some(7),
                count: 1,
                datatype: Datatype::Predefined(3),
                bytes: 8,
                exact: true,
            };
            let mut receive = call("MPI_Irecv", rank, arguments(left));
            receive.arguments.push(buffer + 8);
            receive.transfers = vec![transfer(Direction::Receive, Phase::Begun, left)];
            receive.started = vec![turn.into()];
            let mut send = call("MPI_Send", rank, arguments(right));
            send.transfers = vec![transfer(Direction::Send, Phase::Done, right)];
            let mut wait = call("MPI_Wait", rank, vec![buffer + 8, buffer + 16]);
            wait.completed = vec![Completion {
                request: turn.into(),
                status: Some(Status {
                    observed: false,
                    source: Peer::Rank(left),
                    tag: 7,
                    bytes: 8,
                    cancelled: false,
                }),
                received: 8,
                exact: true,
                ending: Ending::Well,
            }];
            events.extend([receive, send, wait]);
        }
    }
    let mut clock = 1000;
    for event in &mut events {
        event.entry = clock;
        clock += 100 + clock * 7 % 13;
        event.exit = Some(clock);
    }
    events
}
