//! A small program of two ranks whose calls cover all kinds of records, and larger ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_analysis::generated::Stencil;
use belljar_archive::{Contents, TraceWriter};
use belljar_mpi::FUNCTIONS;
use belljar_sim::Frequency;
use belljar_trace::{
    Amount, CallStack, CodeFile, Collective, Completion, Datatype, Detailed, Details, Direction,
    Ending, Event, Fact, Frame, Implementation, Launch, Peer, Phase, Site, Status, TraceHeader,
    TraceSummary, Transfer, WORLD,
};

/// `MPI_BYTE`.
const BYTE: Datatype = Datatype::Predefined(0);

/// Writes a trace, and returns its path.
pub(crate) fn written(
    folder: &Path,
    header: &TraceHeader,
    events: impl Iterator<Item = Event>,
) -> PathBuf {
    let path = folder.join("trace.bjt");
    let file = std::fs::File::create(&path).expect("a file");
    let contents = Contents {
        accounted: false,
        frames: 2,
    };
    let mut writer = TraceWriter::over(file, &path, header, contents).expect("a writer");
    for event in events {
        writer.push(event).expect("it is written");
    }
    writer.finish(&TraceSummary::default()).expect("it ends");
    path
}

/// Writes the trace of a stencil of 3 by 2 ranks.
pub(crate) fn stencil(folder: &Path, steps: u64) -> PathBuf {
    let stencil = Stencil {
        width: 3,
        height: 2,
        steps,
        rounds: 1,
        report: 4,
    };
    written(folder, &stencil.header(), stencil.events())
}

/// Writes the trace of the small program.
pub(crate) fn small(folder: &Path) -> PathBuf {
    let rate = Frequency::from_hz(2_000_000_000).expect("a frequency");
    let header = TraceHeader::new("small", &[rate, rate]);
    written(folder, &header, calls().into_iter())
}

/// The same of a run that modelled a processor.
pub(crate) fn small_on(folder: &Path, processor: &str) -> PathBuf {
    let rate = Frequency::from_hz(2_000_000_000).expect("a frequency");
    let header = TraceHeader::new("small", &[rate, rate]);
    let header = header.with_processors(&[processor.to_owned()]);
    written(folder, &header, calls().into_iter())
}

/// Returns its calls: a rank for each node, in the order of their returns.
pub(crate) fn calls() -> Vec<Event> {
    let mut calls = Vec::new();
    for rank in [0, 1] {
        calls.push(call(rank, "MPI_Init", 100, 200, |event| {
            let name = Some("small".to_owned());
            let size = Some(2);
            event.fact = Some(Fact::Launch(Launch { name, size }));
        }));
    }
    messages(&mut calls);
    for rank in [0, 1] {
        let name = if rank == 0 { "MPI_Bcast" } else { "MPI_Ibcast" };
        calls.push(call(rank, name, 1000, 1100, |event| {
            let phase = if rank == 0 { Phase::Done } else { Phase::Begun };
            event.collectives.push(broadcast(phase));
            event.started.extend((rank == 1).then_some(9));
        }));
    }
    calls.push(call(1, "MPI_Wait", 1200, 1300, |event| {
        event.completed.push(completion(9, None, 0));
    }));
    windows(&mut calls);
    calls.push(call(1, "MPI_Finalize", 3000, 3100, |_| {}));
    calls.push(Event {
        exit: None,
        ..call(0, "MPI_Finalize", 3000, 3100, |_| {})
    });
    calls
}

/// A message sent and one received by requests from any source; one received without a known source; one cancelled request.
fn messages(calls: &mut Vec<Event>) {
    let receive = |peer, tag| transfer(Direction::Receive, peer, tag);
    calls.push(call(0, "MPI_Send", 300, 350, |event| {
        let mut sent = transfer(Direction::Send, Peer::Rank(1), Some(5));
        sent.phase = Phase::Done;
        event.transfers.push(sent);
        event.site = site();
    }));
    calls.push(call(1, "MPI_Irecv", 300, 360, |event| {
        event.transfers.push(receive(Peer::Any, None));
        event.started.push(7);
    }));
    calls.push(call(1, "MPI_Isend", 370, 380, |event| {
        let sent = transfer(Direction::Send, Peer::Rank(0), Some(6));
        event.transfers.push(sent);
        event.started.push(8);
    }));
    calls.push(call(1, "MPI_Waitall", 390, 400, |event| {
        let status = Status {
            observed: false,
            source: Peer::Rank(0),
            tag: 5,
            bytes: 1000,
            cancelled: false,
        };
        event.completed.push(completion(7, Some(status), 1000));
        event.completed.push(completion(8, None, 0));
    }));
    calls.push(call(0, "MPI_Recv", 390, 410, |event| {
        let mut received = receive(Peer::Any, Some(6));
        received.phase = Phase::Done;
        event.transfers.push(received);
    }));
    calls.push(call(0, "MPI_Irecv", 420, 430, |event| {
        event.transfers.push(receive(Peer::Rank(1), Some(1)));
        event.started.push(3);
    }));
    calls.push(call(0, "MPI_Wait", 440, 450, |event| {
        let status = Status {
            observed: false,
            source: Peer::Any,
            tag: 0,
            bytes: 0,
            cancelled: true,
        };
        event.completed.push(completion(3, Some(status), 0));
    }));
}

/// A site in the program, called by code outside of any file.
fn site() -> Site {
    let file = CodeFile {
        path: "/opt/small".to_owned(),
        build_id: vec![0xab, 1],
    };
    let inner = Frame {
        address: 0x1234,
        file: Some(Arc::new(file)),
    };
    let outer = Frame {
        address: 0x7000,
        file: None,
    };
    Site(Some(Arc::new(CallStack(vec![inner, outer]))))
}

fn windows(calls: &mut Vec<Event>) {
    let details = || {
        Detailed::of(Details {
            window: Some(0),
            ..Details::default()
        })
    };
    for rank in [0, 1] {
        calls.push(call(rank, "MPI_Win_create", 2000, 2100, |event| {
            event.details = details();
        }));
    }
    calls.push(call(0, "MPI_Put", 2200, 2300, |event| {
        event.details = details();
        let mut put = transfer(Direction::Send, Peer::Rank(1), None);
        put.phase = Phase::Done;
        put.kind = belljar_trace::TransferKind::of(event.meaning());
        event.transfers.push(put);
    }));
    for rank in [0, 1] {
        calls.push(call(rank, "MPI_Win_free", 2400, 2500, |event| {
            event.details = details();
        }));
    }
}

fn call(rank: u32, name: &str, entry: u64, exit: u64, with: impl FnOnce(&mut Event)) -> Event {
    let function = FUNCTIONS.iter().position(|function| function.name == name);
    let mut event = Event {
        node: rank,
        vcpu: 0,
        process: 0,
        thread: 0,
        rank,
        implementation: Implementation::Mpich,
        function: function.expect("a function") as u16,
        entry,
        exit: Some(exit),
        result: Some(0),
        depth: 0,
        selected: true,
        bad: None,
        arguments: Vec::new(),
        texts: Vec::new(),
        communicator: Some(WORLD),
        transfers: Vec::new(),
        collectives: Vec::new(),
        started: Vec::new(),
        completed: Vec::new(),
        status: None,
        fact: None,
        accounts: Default::default(),
        site: Default::default(),
        details: Default::default(),
        folded: Default::default(),
        given_up: Default::default(),
    };
    with(&mut event);
    event
}

fn transfer(direction: Direction, peer: Peer, tag: Option<i32>) -> Transfer {
    Transfer {
        kind: belljar_trace::TransferKind::Message(Default::default()),
        direction,
        phase: Phase::Begun,
        communicator: Some(WORLD),
        peer,
        tag,
        count: 1000,
        datatype: BYTE,
        bytes: 1000,
        exact: direction == Direction::Send,
    }
}

fn broadcast(phase: Phase) -> Collective {
    Collective {
        operation: Some(belljar_mpi::Operation::Broadcast),
        phase,
        communicator: Some(WORLD),
        root: Some(Peer::Rank(0)),
        sent: Amount::whole(Some(64)).only(belljar_trace::Who::Root),
        received: Amount::whole(Some(64)).only(belljar_trace::Who::Others),
    }
}

fn completion(request: u64, status: Option<Status>, received: u64) -> Completion {
    Completion {
        request,
        status,
        received,
        exact: status.is_some(),
        ending: Ending::Well,
    }
}
