//! A call, and its records for other formats.
//!
//! Records of operations that a call begins belong to its entry, those of operations that it completes to its exit. Peers are given both as ranks
//! in the communicator (in its remote group, if it has one) and as processes, as formats differ in their need. Created by the source.

use belljar_job::Member;
use belljar_mpi::{Access, Operation};
use belljar_trace::Event;

/// An exported call.
#[derive(Clone, Debug)]
pub struct ExportedCall {
    /// The call in the trace.
    pub event: Event,
    /// Its process's number among [`Places`](crate::Places).
    pub process: u32,
    /// Its entry, in ticks (see [`Source::ticks_per_second`](crate::Source::ticks_per_second)); not before the end of the thread's last call.
    pub entry: u64,
    /// Its exit; `None` if it never returned.
    pub exit: Option<u64>,
    /// Operations that it begins, and messages that it sends.
    pub begun: Vec<Record>,
    /// Operations that it completes, and messages that it received. Empty if it never returned.
    pub done: Vec<Record>,
}

/// The peer of a message or an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its rank in the communicator, or in the remote group.
    pub rank: u32,
    /// The process.
    pub member: Member,
}

/// A message of an exported call, as seen from one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedMessage {
    /// The communicator: its number among [`Places`](crate::Places).
    pub group: u32,
    /// The peer.
    pub other: Other,
    /// The tag.
    pub tag: i32,
    /// Bytes of data.
    pub bytes: u64,
    /// Its number, from 1, equal at sender and receiver; `None` if unknown.
    pub message: Option<u64>,
}

/// A record of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A message is sent; the call returns when its buffer is free.
    Send(ExportedMessage),
    /// A message's send begins; the request completes later.
    SendBegun(ExportedMessage, u64),
    /// The message of a request has left its buffer.
    SendCompleted(u64),
    /// A message was received.
    Receive(ExportedMessage),
    /// A receive is posted.
    ReceiveBegun(u64),
    /// The message of a request was received.
    ReceiveCompleted(ExportedMessage, u64),
    /// The request's operation was cancelled.
    Cancelled(u64),
    /// A collective operation begins.
    CollectiveEntered,
    /// A collective operation is complete, with its amounts.
    Collective(Collected),
    /// A collective operation begins; the request completes later.
    CollectiveBegun(u64),
    /// The collective operation of a request is complete.
    CollectiveCompleted(Collected, u64),
    /// A window is created: its number among [`Places`](crate::Places).
    WindowMade(u32),
    /// A window is freed.
    WindowFreed(u32),
    /// Memory of another process is accessed.
    Accessed {
        /// The access.
        access: Access,
        /// The window.
        window: u32,
        /// The process that owns the memory.
        other: Other,
        /// Bytes sent there.
        sent: u64,
        /// Bytes received from there.
        received: u64,
    },
}

/// A process's part in a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// The operation.
    pub operation: Operation,
    /// The communicator: its number among [`Places`](crate::Places).
    pub group: u32,
    /// The root, if the operation has one.
    pub root: Option<Root>,
    /// Bytes that leave this process's buffers; `None` if unknown.
    pub sent: Option<u64>,
    /// Bytes that enter this process's buffers; `None` if unknown.
    pub received: Option<u64>,
}

/// The root of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A rank of the communicator, or of the remote group.
    Rank(u32),
    /// Between groups: this process.
    Own,
    /// Between groups: a process of this process's own group.
    OwnGroup,
}
