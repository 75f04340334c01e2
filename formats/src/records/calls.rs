//! A call, and what other formats have records for in it.
//!
//! Records of what a call begins stand for its entry, those of what it completes for its exit. Peers are ranks in the
//! communicator (of its remote group, if it has one) and processes both, as formats differ in which they want. Made by the source.

use belljar_job::Member;
use belljar_mpi::{Access, Operation};
use belljar_trace::Event;

/// A call that is exported.
#[derive(Clone, Debug)]
pub struct Call {
    /// The call as the trace has it.
    pub event: Event,
    /// Which process made it: its number among [`Places`](crate::Places).
    pub process: u32,
    /// When it was entered, in ticks (see [`Source::ticks_per_second`](crate::Source::ticks_per_second)); not before the thread's last call ended.
    pub entry: u64,
    /// When it was left; `None` if it never was.
    pub exit: Option<u64>,
    /// What it begins, and messages that it sends.
    pub begun: Vec<Record>,
    /// What it completes, and messages that it received. Empty if it never returned.
    pub done: Vec<Record>,
}

/// The other side of a message or an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its rank in the communicator, or in the remote group.
    pub rank: u32,
    /// The process.
    pub member: Member,
}

/// A message, as one side sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The communicator: its number among [`Places`](crate::Places).
    pub group: u32,
    /// The other side.
    pub other: Other,
    /// The tag.
    pub tag: i32,
    /// Bytes of data.
    pub bytes: u64,
    /// Its number, from 1, which sender and receiver have alike; `None` where it cannot be known.
    pub message: Option<u64>,
}

/// Something in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A message is sent; the call returns when its buffer is free.
    Send(Part),
    /// A message begins to be sent; the request completes later.
    SendBegun(Part, u64),
    /// What a request sent has left its buffer.
    SendCompleted(u64),
    /// A message was received.
    Receive(Part),
    /// A receive is posted.
    ReceiveBegun(u64),
    /// What a request waited for was received.
    ReceiveCompleted(Part, u64),
    /// The request's operation was cancelled.
    Cancelled(u64),
    /// A collective operation begins.
    CollectiveEntered,
    /// It is done, with what it moved.
    Collective(Collected),
    /// A collective operation begins; the request completes later.
    CollectiveBegun(u64),
    /// What a request stood for is done.
    CollectiveCompleted(Collected, u64),
    /// A window is made: its number among [`Places`](crate::Places).
    WindowMade(u32),
    /// A window is freed.
    WindowFreed(u32),
    /// Memory of another process is accessed.
    Accessed {
        /// How.
        access: Access,
        /// The window.
        window: u32,
        /// Whose memory.
        other: Other,
        /// Bytes that go there.
        sent: u64,
        /// Bytes that come from there.
        received: u64,
    },
}

/// A process's part in a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Which operation.
    pub operation: Operation,
    /// The communicator: its number among [`Places`](crate::Places).
    pub group: u32,
    /// The root, where the operation has one.
    pub root: Option<Root>,
    /// Bytes out of this process's buffers; `None` where the trace does not tell.
    pub sent: Option<u64>,
    /// Bytes into this process's buffers; `None` where the trace does not tell.
    pub received: Option<u64>,
}

/// The root of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A rank of the communicator, or of the remote group.
    Rank(u32),
    /// Between groups: this process.
    Own,
    /// Between groups: one of this process's own group.
    OwnGroup,
}
