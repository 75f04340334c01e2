//! Events of versions 11 to 13 of the trace.
//!
//! Functions have the numbers of the table before functions of later standards were added. Operations, modes and kinds
//! of accesses are not recorded: they follow from the function, except for transfers that `MPI_Start` begins. Readers
//! of traces fill those in from earlier calls. Decoded by `belljar-archive`; never written.

use belljar_mpi::{meaning, renumbered};
use bincode::{Decode, Encode};

use super::{
    Amount, Collective, Completion, Direction, Ending, Event, Phase, Status, Text, Transfer,
    TransferKind,
};
use crate::account::Accounts;
use crate::event::GivenUp;
use crate::event::details::Detailed;
use crate::implementation::{Implementation, Peer};
use crate::object::{Datatype, Fact};
use crate::polls::Folded;
use crate::site::Site;

/// An [`Event`] of versions 11 to 13. Fields mean the same as the fields of [`Event`] with the same names.
#[derive(Clone, Debug, Encode, Decode)]
pub struct EarlierEvent {
    node: u32,
    vcpu: u32,
    process: u32,
    thread: u32,
    rank: u32,
    implementation: Implementation,
    function: u16,
    entry: u64,
    exit: Option<u64>,
    result: Option<i64>,
    depth: u16,
    selected: bool,
    bad: Option<u8>,
    arguments: Vec<u64>,
    texts: Vec<Text>,
    communicator: Option<u32>,
    transfers: Vec<EarlierTransfer>,
    collectives: Vec<EarlierCollective>,
    started: Vec<u64>,
    completed: Vec<EarlierCompletion>,
    status: Option<EarlierStatus>,
    fact: Option<Fact>,
    accounts: Accounts,
    site: Site,
    details: Detailed,
    folded: Folded,
    given_up: GivenUp,
}

#[derive(Clone, Debug, Encode, Decode)]
struct EarlierTransfer {
    direction: Direction,
    phase: Phase,
    communicator: Option<u32>,
    peer: Peer,
    tag: Option<i32>,
    count: u64,
    datatype: Datatype,
    bytes: u64,
    exact: bool,
}

#[derive(Clone, Debug, Encode, Decode)]
struct EarlierCollective {
    phase: Phase,
    communicator: Option<u32>,
    root: Option<Peer>,
    sent: Amount,
    received: Amount,
}

#[derive(Clone, Copy, Debug, Encode, Decode)]
struct EarlierStatus {
    source: Peer,
    tag: i32,
    bytes: u64,
    cancelled: bool,
}

#[derive(Clone, Debug, Encode, Decode)]
struct EarlierCompletion {
    request: u64,
    status: Option<EarlierStatus>,
    received: u64,
    exact: bool,
    ending: Ending,
}

impl EarlierStatus {
    fn current(self) -> Status {
        Status {
            source: self.source,
            tag: self.tag,
            bytes: self.bytes,
            cancelled: self.cancelled,
            observed: false,
        }
    }
}

impl EarlierEvent {
    /// Returns the function's number in those versions.
    pub fn function(&self) -> u16 {
        self.function
    }

    /// Converts the event to the current version. `None` for a function that those versions cannot contain.
    pub fn current(self) -> Option<Event> {
        let function = renumbered(self.function)?;
        let meaning = meaning(function);
        let transfers = self.transfers.into_iter().map(|earlier| Transfer {
            direction: earlier.direction,
            phase: earlier.phase,
            communicator: earlier.communicator,
            peer: earlier.peer,
            tag: earlier.tag,
            count: earlier.count,
            datatype: earlier.datatype,
            bytes: earlier.bytes,
            exact: earlier.exact,
            kind: TransferKind::of(meaning),
        });
        let collectives = self.collectives.into_iter().map(|earlier| Collective {
            operation: meaning.collective(),
            phase: earlier.phase,
            communicator: earlier.communicator,
            root: earlier.root,
            sent: earlier.sent,
            received: earlier.received,
        });
        let completed = self.completed.into_iter().map(|earlier| Completion {
            request: earlier.request,
            status: earlier.status.map(EarlierStatus::current),
            received: earlier.received,
            exact: earlier.exact,
            ending: earlier.ending,
        });
        Some(Event {
            node: self.node,
            vcpu: self.vcpu,
            process: self.process,
            thread: self.thread,
            rank: self.rank,
            implementation: self.implementation,
            function,
            entry: self.entry,
            exit: self.exit,
            result: self.result,
            depth: self.depth,
            selected: self.selected,
            bad: self.bad,
            arguments: self.arguments,
            texts: self.texts,
            communicator: self.communicator,
            transfers: transfers.collect(),
            collectives: collectives.collect(),
            started: self.started,
            completed: completed.collect(),
            status: self.status.map(EarlierStatus::current),
            fact: self.fact,
            accounts: self.accounts,
            site: self.site,
            details: self.details,
            folded: self.folded,
            given_up: self.given_up,
        })
    }
}
