//! A call's arguments at its entry.
//!
//! Memory is read now, as the program may overwrite it while the call runs, and the process's state is not changed, as
//! a call may never return. Used by `node` for calls that are selected or must be followed.

use belljar_mpi::{Base, CallKind, Completes, Epoch, Meaning, SendMode};
use belljar_trace::{
    Collective, Datatype, Detailed, Details, Direction, Event, Peer, Text, Transfer, TransferKind,
};

use super::Process;
use crate::decode::action::Action;
use crate::decode::arguments::Arguments;
use crate::decode::collective;
use crate::guest::memory::Reader;

/// Values read at a call's entry.
#[derive(Default)]
struct EntryValues {
    texts: Vec<Text>,
    communicator: Option<u32>,
    transfers: Vec<Transfer>,
    collectives: Vec<Collective>,
    details: Details,
    handles: Vec<u64>,
    bad: Option<u8>,
}

impl Process {
    /// Reads the memory that the arguments point to and fills the event. Returns the handles that the call may change:
    /// of requests, or of the object to free.
    pub(crate) fn enter(&self, event: &mut Event, memory: Reader<'_>) -> Vec<u64> {
        let reading = self.read(event, memory);
        event.texts = reading.texts;
        event.communicator = reading.communicator;
        event.transfers = reading.transfers;
        event.collectives = reading.collectives;
        event.bad = reading.bad;
        event.details = Detailed::of(reading.details);
        reading.handles
    }

    fn read(&self, event: &Event, memory: Reader<'_>) -> EntryValues {
        let action = Action::of(event.function);
        let mut arguments = Arguments::new(event, memory);
        let mut reading = EntryValues {
            texts: arguments.texts(),
            communicator: self.communicator(&arguments).map(|known| known.number),
            ..EntryValues::default()
        };
        match action {
            Action::Message {
                sends, receives, ..
            } => {
                if sends {
                    let sent = self.message(Direction::Send, event.meaning(), &arguments);
                    reading.transfers.push(sent);
                }
                if receives {
                    let received = self.message(Direction::Receive, event.meaning(), &arguments);
                    reading.transfers.push(received);
                }
            }
            Action::ReceiveMatched(_) => {
                let handles = arguments.handles("message", 1).unwrap_or_default();
                let transfer = self.matched(handles.first().copied(), event.meaning(), &arguments);
                reading.communicator = transfer.communicator;
                reading.transfers.push(transfer);
                reading.handles = handles;
            }
            Action::Collective(operation, phase) => {
                let communicator = self.communicator(&arguments);
                let (collective, details) = collective::read(
                    operation,
                    phase,
                    &mut arguments,
                    communicator,
                    self.communicators.most_members(),
                    &self.datatypes,
                );
                reading.collectives.push(collective);
                reading.details = details;
            }
            Action::OneSided { puts, gets, .. } => {
                if puts && !(gets && self.has_no_op(&arguments)) {
                    reading.transfers.push(self.access(
                        Direction::Send,
                        event.meaning(),
                        &arguments,
                    ));
                }
                if gets {
                    reading.transfers.push(self.access(
                        Direction::Receive,
                        event.meaning(),
                        &arguments,
                    ));
                }
                reading.communicator = reading.transfers.first().and_then(|it| it.communicator);
            }
            _ => reading.handles = handles(action, &mut arguments),
        }
        if action == Action::FreeCommunicator {
            let handle = reading.handles.first();
            let known = handle.and_then(|handle| self.communicators.get(*handle));
            reading.communicator = known.map(|known| known.number);
        }
        self.window(action, event.meaning(), &arguments, &mut reading);
        self.partitioned(event.meaning(), &arguments, &mut reading);
        reading.bad = arguments.bad();
        reading
    }

    /// Returns the window of a call, and the datatype at its target.
    fn window(
        &self,
        action: Action,
        meaning: &Meaning,
        arguments: &Arguments<'_>,
        reading: &mut EntryValues,
    ) {
        let freed = reading.handles.first().copied();
        let handle = match action {
            Action::FreeWindow => freed,
            _ => arguments.first_handle(Base::Win),
        };
        let window = handle.and_then(|handle| self.windows.get(handle));
        reading.details.window = window.map(|window| window.number);
        if arguments.has("target_datatype") {
            let datatype = self.datatype("target_datatype", arguments);
            reading.details.target_datatype = Some(datatype).filter(|it| *it != Datatype::Unknown);
        }
        if matches!(meaning.epoch(), Some(Epoch::Post | Epoch::Start)) {
            let group = arguments.word("group");
            reading.details.group = group.and_then(|handle| self.communicators.group(handle));
        }
    }

    /// Reads the partitioned request whose partitions a call marks ready or queries.
    fn partitioned(&self, meaning: &Meaning, arguments: &Arguments<'_>, reading: &mut EntryValues) {
        if matches!(meaning.kind, CallKind::Ready | CallKind::Arrived) {
            let handle = arguments.word("request");
            let number = handle.and_then(|handle| self.requests.partitioned(handle));
            reading.details.partitioned.extend(number.map(Some));
        }
    }

    /// Returns a message as the arguments of a send or receive describe it.
    fn message(
        &self,
        direction: Direction,
        meaning: &Meaning,
        arguments: &Arguments<'_>,
    ) -> Transfer {
        let sends = direction == Direction::Send;
        let pick = |own: &'static str, shared: &'static str| {
            if arguments.has(own) { own } else { shared }
        };
        let (count, datatype, tag, peer) = if sends {
            let (count, datatype) = (pick("sendcount", "count"), pick("sendtype", "datatype"));
            (count, datatype, pick("sendtag", "tag"), "dest")
        } else {
            let (count, datatype) = (pick("recvcount", "count"), pick("recvtype", "datatype"));
            (count, datatype, pick("recvtag", "tag"), "source")
        };
        let implementation = arguments.implementation;
        let partitions = arguments.count("partitions").unwrap_or(1);
        let count = arguments
            .count(count)
            .unwrap_or(0)
            .saturating_mul(partitions);
        let tag = arguments.int(tag);
        self.transfer(Transfer {
            direction,
            phase: meaning.phase,
            communicator: self.communicator(arguments).map(|known| known.number),
            peer: implementation.peer(arguments.int(peer).unwrap_or(i32::MIN)),
            tag: tag.and_then(|tag| implementation.tag(tag)),
            count,
            datatype: self.datatype(datatype, arguments),
            bytes: 0,
            exact: sends,
            kind: match sends {
                true => TransferKind::of(meaning),
                false => TransferKind::Message(SendMode::Standard),
            },
        })
    }

    /// Returns the receive of a message that was matched before.
    fn matched(
        &self,
        handle: Option<u64>,
        meaning: &Meaning,
        arguments: &Arguments<'_>,
    ) -> Transfer {
        let matched = handle.and_then(|handle| self.messages.get(handle));
        self.transfer(Transfer {
            direction: Direction::Receive,
            phase: meaning.phase,
            communicator: matched.and_then(|matched| matched.communicator),
            peer: matched.map_or(Peer::Any, |matched| matched.source),
            tag: matched.and_then(|matched| matched.tag),
            count: arguments.count("count").unwrap_or(0),
            datatype: self.datatype("datatype", arguments),
            bytes: 0,
            exact: false,
            kind: TransferKind::Message(SendMode::Standard),
        })
    }

    /// True if a fetching call does not read the origin's buffer, because of `MPI_NO_OP` (MPI-4.0, 12.3.4).
    fn has_no_op(&self, arguments: &Arguments<'_>) -> bool {
        let op = arguments.word("op");
        self.no_op != 0 && op == Some(self.no_op)
    }

    /// Returns an access to another process's memory, counted by the origin's buffers.
    fn access(
        &self,
        direction: Direction,
        meaning: &Meaning,
        arguments: &Arguments<'_>,
    ) -> Transfer {
        let fetches = arguments.has("result_count") && direction == Direction::Receive;
        let (count, datatype) = if fetches {
            ("result_count", "result_datatype")
        } else {
            ("origin_count", "origin_datatype")
        };
        // The single-element operations have only one datatype, and no count.
        let datatype = if arguments.has(datatype) {
            datatype
        } else {
            "datatype"
        };
        let window = arguments.word("win");
        let rank = arguments.int("target_rank").unwrap_or(i32::MIN);
        self.transfer(Transfer {
            direction,
            phase: meaning.phase,
            communicator: window.and_then(|handle| self.windows.get(handle)?.communicator),
            peer: arguments.implementation.peer(rank),
            tag: None,
            count: arguments.count(count).unwrap_or(1),
            datatype: self.datatype(datatype, arguments),
            bytes: 0,
            exact: true,
            kind: TransferKind::of(meaning),
        })
    }

    /// Computes the bytes of a transfer.
    fn transfer(&self, transfer: Transfer) -> Transfer {
        let size = transfer.datatype.size();
        let (bytes, exact) = match transfer.peer {
            // Transfers with `MPI_PROC_NULL` move nothing.
            Peer::Null => (0, true),
            _ => (
                transfer.count.saturating_mul(size.unwrap_or(0)),
                transfer.exact && size.is_some(),
            ),
        };
        Transfer {
            bytes,
            exact,
            ..transfer
        }
    }

    fn datatype(&self, name: &str, arguments: &Arguments<'_>) -> Datatype {
        let handle = arguments.word(name);
        handle.map_or(Datatype::Unknown, |handle| self.datatypes.get(handle))
    }
}

/// Returns the handles that a call may change.
fn handles(action: Action, arguments: &mut Arguments<'_>) -> Vec<u64> {
    let array = |arguments: &mut Arguments<'_>, count| {
        let count = arguments.count(count)?;
        arguments.handles("array_of_requests", count)
    };
    let object = |arguments: &mut Arguments<'_>, base| {
        let handle = arguments.pointed_handle(base)?;
        Some(vec![handle])
    };
    let handles = match action {
        Action::Complete(Completes::Some) => array(arguments, "incount"),
        Action::Complete(Completes::All | Completes::Any) => array(arguments, "count"),
        Action::Start if arguments.has("count") => array(arguments, "count"),
        Action::Complete(Completes::One) | Action::Start | Action::FreeRequest => {
            object(arguments, Base::Request)
        }
        Action::FreeCommunicator => object(arguments, Base::Comm),
        Action::FreeGroup => object(arguments, Base::Group),
        Action::FreeDatatype => object(arguments, Base::Datatype),
        Action::FreeWindow => object(arguments, Base::Win),
        _ => None,
    };
    handles.unwrap_or_default()
}
