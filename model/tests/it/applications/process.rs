//! One process of a program, whose calls are recorded as it makes them.

use std::sync::Arc;

use belljar_mpi::SendMode;
use belljar_trace::{
    Amount, CallStack, CodeFile, Collective, Completion, Datatype, Direction, Ending, Event, Frame,
    Peer, Phase, Site, Status, Transfer, TransferKind, WORLD,
};

use crate::programs::call;

/// Bytes of a `double`, the element of all messages.
pub(crate) const DOUBLE: u64 = 8;

/// Returns a predefined datatype of eight bytes.
fn double() -> Datatype {
    (0..64)
        .map(Datatype::Predefined)
        .find(|it| it.size() == Some(DOUBLE))
        .unwrap_or(Datatype::Predefined(0))
}

/// Returns the same calls, made from another file.
pub(crate) fn in_file(mut events: Vec<Event>, path: &str) -> Vec<Event> {
    for event in &mut events {
        let Some(stack) = &event.site.0 else {
            continue;
        };
        let file = CodeFile {
            path: path.to_owned(),
            build_id: vec![4, 5, 6],
        };
        let file = Arc::new(file);
        let frames = stack.0.iter().map(|frame| Frame {
            address: frame.address,
            file: Some(Arc::clone(&file)),
        });
        event.site = Site(Some(Arc::new(CallStack(frames.collect()))));
    }
    events
}

/// A process, and the calls that it made.
pub(crate) struct Process {
    /// True for a trace with call sites.
    sites: bool,
    events: Vec<Event>,
    requests: u64,
    /// Open requests, with the status of receives.
    open: Vec<(u64, Option<Status>)>,
}

impl Process {
    pub(crate) fn new(sites: bool) -> Self {
        Self {
            sites,
            events: Vec::new(),
            requests: 0,
            open: Vec::new(),
        }
    }

    pub(crate) fn done(self) -> Vec<Event> {
        self.events
    }

    fn push(&mut self, site: u32, mut event: Event) {
        if self.sites {
            let file = CodeFile {
                path: "program".to_owned(),
                build_id: vec![1, 2, 3],
            };
            let frame = Frame {
                address: 0x1000 + u64::from(site) * 16,
                file: Some(Arc::new(file)),
            };
            event.site = Site(Some(Arc::new(CallStack(vec![frame]))));
        }
        self.events.push(event);
    }

    fn transfer(direction: Direction, phase: Phase, peer: Peer, tag: i32, count: u64) -> Transfer {
        let count = if peer == Peer::Null { 0 } else { count };
        Transfer {
            kind: TransferKind::Message(SendMode::default()),
            direction,
            phase,
            communicator: Some(WORLD),
            peer,
            tag: Some(tag),
            count,
            datatype: double(),
            bytes: count * DOUBLE,
            exact: true,
        }
    }

    fn peer(of: Option<u32>) -> Peer {
        of.map_or(Peer::Null, Peer::Rank)
    }

    /// Adds a blocking send of this many doubles.
    pub(crate) fn send(&mut self, site: u32, to: Option<u32>, tag: i32, count: u64) {
        let transfer = Self::transfer(Direction::Send, Phase::Done, Self::peer(to), tag, count);
        let event = Event {
            transfers: vec![transfer],
            ..call("MPI_Send")
        };
        self.push(site, event);
    }

    /// Adds a blocking receive.
    pub(crate) fn receive(&mut self, site: u32, from: Option<u32>, tag: i32, count: u64) {
        let peer = Self::peer(from);
        let transfer = Self::transfer(Direction::Receive, Phase::Done, peer, tag, count);
        let event = Event {
            transfers: vec![transfer],
            ..call("MPI_Recv")
        };
        self.push(site, event);
    }

    /// Adds a blocking receive of any source, which gets its message from this one.
    pub(crate) fn receive_any(&mut self, site: u32, from: u32, tag: i32, count: u64) {
        let transfer = Self::transfer(Direction::Receive, Phase::Done, Peer::Any, tag, count);
        let event = Event {
            transfers: vec![transfer],
            status: Some(Status {
                source: Peer::Rank(from),
                tag,
                bytes: count * DOUBLE,
                cancelled: false,
                observed: true,
            }),
            ..call("MPI_Recv")
        };
        self.push(site, event);
    }

    fn begin(&mut self, site: u32, name: &str, transfer: Transfer) {
        let status = (transfer.direction == Direction::Receive).then_some(Status {
            source: transfer.peer,
            tag: transfer.tag.unwrap_or(0),
            bytes: transfer.bytes,
            cancelled: false,
            observed: false,
        });
        let event = Event {
            started: vec![self.requests],
            transfers: vec![transfer],
            ..call(name)
        };
        self.open.push((self.requests, status));
        self.requests += 1;
        self.push(site, event);
    }

    /// Adds a nonblocking send.
    pub(crate) fn isend(&mut self, site: u32, to: Option<u32>, tag: i32, count: u64) {
        let transfer = Self::transfer(Direction::Send, Phase::Begun, Self::peer(to), tag, count);
        self.begin(site, "MPI_Isend", transfer);
    }

    /// Adds a nonblocking receive.
    pub(crate) fn irecv(&mut self, site: u32, from: Option<u32>, tag: i32, count: u64) {
        let peer = Self::peer(from);
        let transfer = Self::transfer(Direction::Receive, Phase::Begun, peer, tag, count);
        self.begin(site, "MPI_Irecv", transfer);
    }

    fn complete(&mut self, site: u32, name: &str, which: Vec<(u64, Option<Status>)>) {
        let completed = which.into_iter().map(|(request, status)| Completion {
            request,
            status,
            received: status.map_or(0, |it| it.bytes),
            exact: true,
            ending: Ending::Well,
        });
        let event = Event {
            completed: completed.collect(),
            ..call(name)
        };
        self.push(site, event);
    }

    /// Waits for the request that was begun first.
    pub(crate) fn wait(&mut self, site: u32) {
        let first = self.open.remove(0);
        self.complete(site, "MPI_Wait", vec![first]);
    }

    /// Waits for all open requests.
    pub(crate) fn waitall(&mut self, site: u32) {
        let all = std::mem::take(&mut self.open);
        self.complete(site, "MPI_Waitall", all);
    }

    /// Adds a collective operation of this many doubles, with a root if there is one.
    pub(crate) fn collective(
        &mut self,
        site: u32,
        name: &str,
        operation: belljar_mpi::Operation,
        root: Option<u32>,
        count: u64,
    ) {
        let whole = || Amount::whole(Some(count * DOUBLE));
        let collective = Collective {
            operation: Some(operation),
            phase: Phase::Done,
            communicator: Some(WORLD),
            root: root.map(Peer::Rank),
            sent: whole(),
            received: whole(),
        };
        let event = Event {
            collectives: vec![collective],
            ..call(name)
        };
        self.push(site, event);
    }

    pub(crate) fn allreduce(&mut self, site: u32, count: u64) {
        let operation = belljar_mpi::Operation::Allreduce;
        self.collective(site, "MPI_Allreduce", operation, None, count);
    }

    pub(crate) fn barrier(&mut self, site: u32) {
        self.push(site, call("MPI_Barrier"));
    }

    pub(crate) fn bcast(&mut self, site: u32, root: u32, count: u64) {
        let operation = belljar_mpi::Operation::Broadcast;
        self.collective(site, "MPI_Bcast", operation, Some(root), count);
    }
}
