//! Facts about operations, in the order in which they become known.
//!
//! A fact names operations by [`OperationId`]: [`Fact::Begun`] comes first, then at most one [`Fact::Matched`] or
//! [`Fact::Met`], and [`Fact::Completed`] with the call that completes the operation. Readers find the arguments of an
//! operation in the event, at its [`Origin`]. Made by [`Operations`](super::Operations).

use belljar_mpi::Operation as CollectiveOperation;
use belljar_trace::Ending;

use crate::communicators::Member;
use crate::matching::{Channel, ReceiveSelector};

/// The number of an operation, from 0 in the order in which the events of a trace begin them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(pub(crate) u64);

/// The number of a meeting: a collective operation, or calls that wait for each other without being one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeetingId(pub(crate) u64);

/// The place of an operation in the event of the call that begins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The transfer with this index.
    Transfer(usize),
    /// The collective operation with this index.
    Collective(usize),
    /// The call itself.
    Call,
}

/// A window. All members of a communicator create its windows in the same order (MPI-4.0, 12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowId {
    /// The [identity](crate::Communicators::identity) of its communicator.
    pub communicator: u32,
    /// The number of windows that were created on the communicator before.
    pub sequence: u32,
}

/// A change of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locking {
    /// Acquired, possibly together with other shared locks.
    Shared,
    /// Acquired exclusively.
    Exclusive,
    /// Released.
    Release,
}

/// A notice between the processes of two epochs (MPI-4.0, 12.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// `MPI_Win_post` to `MPI_Win_start`: the window is exposed.
    Exposed,
    /// `MPI_Win_complete` to `MPI_Win_wait`: the accesses are over.
    Accessed,
}

/// Operations whose turns on a communicator are counted together. Meetings of one function have turns of their own, so
/// that a trace without the calls of one function still has the turns of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turns {
    /// Collective operations.
    Collectives,
    /// Calls of the function with this [base name](belljar_mpi::Meaning::base).
    Meetings(&'static str),
}

/// An operation that a call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A message is sent.
    Send {
        /// Its channel.
        channel: Channel,
        /// The process's own number of the partitioned request, for a message in partitions.
        partitioned: Option<u32>,
    },
    /// A receive is posted.
    Receive {
        /// The [identity](crate::Communicators::identity) of its communicator.
        communicator: u32,
        /// The receiver.
        to: Member,
        /// The sender and tag that it takes.
        wanted: ReceiveSelector,
        /// The process's own number of the partitioned request, for a message in partitions.
        partitioned: Option<u32>,
    },
    /// A process takes part in a collective operation.
    Collective {
        /// The collective operation.
        meeting: MeetingId,
        /// The operation, if the trace names it.
        operation: Option<CollectiveOperation>,
    },
    /// A process reaches a call that other processes need to return.
    Meeting {
        /// The meeting.
        meeting: MeetingId,
        /// Its communicator, by the process's own number.
        number: u32,
    },
    /// A process accesses the memory of another one.
    Access {
        /// The [identity](crate::Communicators::identity) of the window's communicator.
        communicator: u32,
        /// The process whose memory is accessed.
        target: Member,
    },
    /// A lock is acquired or released.
    Lock {
        /// The window.
        window: WindowId,
        /// The process at which it is locked.
        target: Member,
        /// The change.
        how: Locking,
    },
    /// A process sends a notice.
    Signal {
        /// The window.
        window: WindowId,
        /// The receiver.
        to: Member,
        /// The notice.
        signal: Signal,
    },
    /// A process waits for a notice.
    Await {
        /// The window.
        window: WindowId,
        /// The sender.
        from: Member,
        /// The notice.
        signal: Signal,
    },
}

/// The reason that the partner of an operation stays unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// The trace has no members of the communicator, group or window.
    Communicator,
    /// The peer or the tag is missing or outside of the communicator.
    Peer,
    /// A wildcard receive without a status, which several messages fit.
    Ambiguous,
    /// A message that a wildcard receive of unknown match may have taken, or a receive of such a message.
    Doubtful,
    /// More operations wait for a partner than are followed.
    Crowded,
    /// The trace does not map the requests of its call to operations, so that its completion stays unknown.
    Unmapped,
    /// More operations are open than are followed: nothing more is reported of it.
    Bound,
}

/// The description of a completion in the event that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completer {
    /// The call that began the operation.
    Call,
    /// The completion with this index.
    Completion(usize),
    /// A synchronisation that ends accesses.
    Epoch,
}

/// A process's part in a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeetingPart {
    /// The process's rank in the communicator, or in its group of an intercommunicator.
    pub rank: u32,
    /// Its operation.
    pub operation: OperationId,
}

/// Something that became known about operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The call of the present event begins an operation.
    Begun {
        /// Its number.
        operation: OperationId,
        /// Its place in the event.
        origin: Origin,
        /// Its description.
        what: Operation,
    },
    /// The status of a wildcard receive gives its channel. Its position among the receives of the channel may depend on
    /// earlier receives of unknown channel.
    Named {
        /// The receive.
        receive: OperationId,
        /// The channel of the message that it got.
        channel: Channel,
    },
    /// The channel of a receive is known, and its position among the receives of the channel.
    Located {
        /// The receive.
        receive: OperationId,
        /// The channel of the message that it gets.
        channel: Channel,
    },
    /// A send and a receive move one message.
    Matched {
        /// The send.
        send: OperationId,
        /// The receive.
        receive: OperationId,
    },
    /// All processes have reached a meeting.
    Met {
        /// The meeting.
        meeting: MeetingId,
        /// Its kind.
        turns: Turns,
        /// The part of each process, in order of arrival.
        parts: Vec<MeetingPart>,
    },
    /// The call of the present event completes an operation.
    Completed {
        /// The operation.
        operation: OperationId,
        /// Its ending. A receive that ended with an error or was cancelled got nothing.
        ending: Ending,
        /// True for an operation that was cancelled.
        cancelled: bool,
        /// The description of the completion.
        by: Completer,
    },
    /// The call of the present event makes a partition of a message ready.
    Ready {
        /// The send.
        send: OperationId,
    },
    /// The call of the present event found that a partition of a message has arrived.
    Arrived {
        /// The receive.
        receive: OperationId,
    },
    /// The call of the present event found a message of this channel without receiving it.
    Probed {
        /// The channel.
        channel: Channel,
    },
    /// The partner of an operation stays unknown, or the operation is no longer followed.
    Lost {
        /// The operation.
        operation: OperationId,
        /// The reason.
        why: Loss,
    },
    /// The call of the present event returns requests that the trace does not map to its operations, which are
    /// lost.
    Unmapped {
        /// The number of requests.
        requests: u32,
    },
    /// The call of the present event begins something that is not followed.
    Unknown {
        /// Its place in the event.
        origin: Origin,
        /// The reason.
        why: Loss,
    },
}
