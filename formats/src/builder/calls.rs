//! Builders for imported events; most fields are empty.
//!
//! Data missing from a format is absent: arguments, call sites, datatypes. The MPI library is declared as Open MPI, whose rules for collective operations
//! need no other data of a call. Used by the readers of all formats.

use std::collections::BTreeMap;

use belljar_mpi::{FUNCTIONS, SendMode};
use belljar_trace::{
    Collective, Completion, Datatype, Direction, Ending, Event, Implementation, Peer, Phase,
    Status, Transfer, TransferKind,
};

/// `MPI_BYTE`, among the predefined datatypes.
const BYTE: Datatype = Datatype::Predefined(0);

/// Numbers of functions by their names.
#[derive(Debug)]
pub(crate) struct Functions(BTreeMap<&'static str, u16>);

impl Functions {
    pub(crate) fn new() -> Self {
        let names = FUNCTIONS.iter().map(|function| function.name);
        Self(names.zip(0..).collect())
    }

    /// Returns the number of a function; `None` if it is not an MPI function.
    pub(crate) fn number(&self, name: &str) -> Option<u16> {
        self.0.get(name).copied()
    }
}

/// The thread of an imported call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImportedThread {
    pub(crate) node: u32,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    pub(crate) rank: u32,
}

/// Creates a call with only its caller and its times.
pub(crate) fn blank(place: ImportedThread, function: u16, entry: u64, exit: Option<u64>) -> Event {
    Event {
        node: place.node,
        vcpu: 0,
        process: place.process,
        thread: place.thread,
        rank: place.rank,
        implementation: Implementation::OpenMpi,
        function,
        entry,
        exit,
        result: exit.map(|_| 0),
        depth: 0,
        selected: true,
        bad: None,
        arguments: Vec::new(),
        texts: Vec::new(),
        communicator: None,
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
    }
}

/// A message of an imported call, seen from one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImportedMessage {
    pub(crate) peer: Peer,
    /// `None` for any.
    pub(crate) tag: Option<i32>,
    pub(crate) bytes: u64,
    /// By the process's own number; `None` if unknown.
    pub(crate) communicator: Option<u32>,
}

impl ImportedMessage {
    /// Returns the operation that sends or receives it.
    pub(crate) fn transfer(self, direction: Direction, phase: Phase) -> Transfer {
        Transfer {
            direction,
            phase,
            communicator: self.communicator,
            peer: self.peer,
            tag: self.tag,
            count: self.bytes,
            datatype: BYTE,
            bytes: self.bytes,
            exact: true,
            kind: TransferKind::Message(SendMode::Standard),
        }
    }

    /// Returns the status for its receiver.
    pub(crate) fn status(self) -> Option<Status> {
        Some(Status {
            source: self.peer,
            tag: self.tag?,
            bytes: self.bytes,
            cancelled: false,
            observed: false,
        })
    }
}

/// Creates a completed request, of a received message or of any other operation.
pub(crate) fn completion(request: u64, received: Option<ImportedMessage>) -> Completion {
    Completion {
        request,
        status: received.and_then(ImportedMessage::status),
        received: received.map_or(0, |message| message.bytes),
        exact: true,
        ending: Ending::Well,
    }
}

/// Adds a collective operation to a call.
pub(crate) fn take_part(event: &mut Event, collective: Collective) {
    event.communicator = event.communicator.or(collective.communicator);
    event.collectives.push(collective);
}
