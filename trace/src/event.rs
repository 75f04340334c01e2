//! The record of one call of an MPI function.
//!
//! An event holds only facts visible in this process's call, in the process's own numbers; facts that need other processes are
//! computed when a trace is read. Its encoding is the trace's format. Created by tracers, ordered by the run, written by `file`.

/// Details of a call that a replay does not need.
pub(crate) mod details;
/// Events as in earlier versions of the trace.
pub(crate) mod earlier;

pub use belljar_mpi::Phase;
use belljar_mpi::{Access, FUNCTIONS, Function, Meaning, Operation, SendMode, meaning};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use self::details::Detailed;
use crate::account::Accounts;
use crate::codec::not_encoded;
use crate::implementation::{Implementation, Peer};
use crate::object::{Datatype, Fact};
use crate::polls::Folded;
use crate::site::Site;

/// One call of an MPI function.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Event {
    /// The node on which it was called.
    pub node: u32,
    /// The virtual processor of the node that entered it.
    pub vcpu: u32,
    /// The calling MPI process's number on the node, from 0 in the order of their starts.
    pub process: u32,
    /// The calling thread's number in the process, from 0 in the order of their first calls.
    pub thread: u32,
    /// The process's rank in `MPI_COMM_WORLD`; 0 for a process started without a launcher.
    pub rank: u32,
    /// The MPI implementation of the process.
    pub implementation: Implementation,
    /// The function: its index in [`FUNCTIONS`].
    pub function: u16,
    /// When it was entered, in cycles of the node's processor since its reset.
    pub entry: u64,
    /// When it was left. `None` if the call never returned, or not before the run's end.
    pub exit: Option<u64>,
    /// Its result, sign-extended. `None` for a call that did not return and for the few functions whose result travels in a
    /// floating-point register.
    pub result: Option<i64>,
    /// The number of MPI calls around it in its thread: 0 for a call by the program itself, more for calls that the MPI library
    /// makes internally.
    pub depth: u16,
    /// True if the scenario selected it. Unselected calls are kept where they define communicators or groups, because other calls'
    /// ranks depend on those.
    pub selected: bool,
    /// The index of the first argument that points to unreadable memory.
    pub bad: Option<u8>,
    /// The argument words: `int`s sign-extended, handles zero-extended, pointers as they are.
    pub arguments: Vec<u64>,
    /// The texts that arguments point to, truncated to 256 bytes.
    pub texts: Vec<Text>,
    /// The communicator it was called on, by the process's own number; `None`
    /// when there is none or it is unknown.
    pub communicator: Option<u32>,
    /// The messages that it transfers or prepares to transfer.
    pub transfers: Vec<Transfer>,
    /// The collective operations that it takes part in.
    pub collectives: Vec<Collective>,
    /// Requests that became active through it, by the process's own numbers: those of its transfers, then those of its collective
    /// operations. One request may cover several transfers.
    pub started: Vec<u64>,
    /// Requests that it completed.
    pub completed: Vec<Completion>,
    /// The returned or observed status, if there is exactly one and it does not belong to a request.
    pub status: Option<Status>,
    /// The change to the process's MPI objects that it reports.
    pub fact: Option<Fact>,
    /// The node's accounts at its entry and exit.
    pub accounts: Accounts,
    /// Its call site, if the run records frames.
    pub site: Site,
    /// Its details, such as displacements and windows.
    pub details: Detailed,
    /// The calls that it stands for, if there are several: then `entry` belongs to the first, `exit` to the last, and all other
    /// fields to each.
    pub folded: Folded,
    /// The time at which it was found that the call will not return.
    pub given_up: GivenUp,
}

/// The time at which a call was found not to return, in cycles as [`Event::entry`]: its position in a trace, among calls that did
/// return. Not part of a trace and not encoded with an event: `None` in events that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp(pub Option<u64>);

not_encoded!(GivenUp);

impl Event {
    /// Returns the function's description. For a function number of a newer Belljar, returns a description without parameters.
    pub fn description(&self) -> &'static Function {
        const UNKNOWN: Function = Function {
            name: "MPI_?",
            result: belljar_mpi::Base::Int,
            standard: belljar_mpi::Standard::Mpi40,
            parameters: &[],
        };
        FUNCTIONS
            .get(usize::from(self.function))
            .unwrap_or(const { &UNKNOWN })
    }

    /// Returns the meaning of the function.
    pub fn meaning(&self) -> &'static Meaning {
        meaning(self.function)
    }

    /// Returns the function's name.
    pub fn name(&self) -> &'static str {
        self.description().name
    }

    /// True if it returned an error code, and so transferred nothing.
    pub fn failed(&self) -> bool {
        let tells = self.description().result == belljar_mpi::Base::Int;
        tells && self.result.is_some_and(|result| result != 0)
    }

    /// Returns the end of the time for which it was open, in cycles: its position among a node's calls in a trace. `None` if it was
    /// still open at the run's end.
    pub fn end(&self) -> Option<u64> {
        self.exit.or(self.given_up.0)
    }

    /// Returns the number of calls that it stands for.
    pub fn calls(&self) -> u64 {
        self.folded.0.as_ref().map_or(1, |polls| polls.calls.max(1))
    }

    /// Returns the cycles in the call, or in all calls that it stands for together.
    pub fn duration(&self) -> Option<u64> {
        match &self.folded.0 {
            Some(polls) if self.exit.is_some() => Some(polls.inside),
            _ => self.exit.map(|exit| exit.saturating_sub(self.entry)),
        }
    }

    /// Returns the cycles of its shortest and its longest call.
    pub fn durations(&self) -> Option<(u64, u64)> {
        match &self.folded.0 {
            Some(polls) if self.exit.is_some() => Some((polls.shortest, polls.longest)),
            _ => self.duration().map(|cycles| (cycles, cycles)),
        }
    }

    /// Returns the cycles between the calls that it stands for, which the program spent itself.
    pub fn outside(&self) -> u64 {
        let extent = self.exit.map(|exit| exit.saturating_sub(self.entry));
        let inside = self.duration().unwrap_or(0);
        extent.unwrap_or(0).saturating_sub(inside)
    }
}

/// A text argument.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Text {
    /// The argument's index.
    pub argument: u8,
    /// The text.
    pub text: String,
}

/// The direction of a message, seen from the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize)]
pub enum Direction {
    /// To the peer.
    Send,
    /// From the peer.
    Receive,
}

/// The kind of a transfer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
pub enum TransferKind {
    /// A message, sent in this mode. The mode of a receive is [`SendMode::Standard`].
    Message(SendMode),
    /// An access to the memory of another process.
    Access(Access),
}

impl TransferKind {
    /// Returns the kind of the transfers that a call of a function with this meaning makes.
    pub fn of(meaning: &Meaning) -> Self {
        match meaning.access() {
            Some(access) => Self::Access(access),
            None => Self::Message(meaning.mode()),
        }
    }
}

/// One message, or an access to another process's memory.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Transfer {
    /// Its direction.
    pub direction: Direction,
    /// Its progress.
    pub phase: Phase,
    /// Its communicator, by the process's own number.
    pub communicator: Option<u32>,
    /// The peer.
    pub peer: Peer,
    /// The tag; `None` for `MPI_ANY_TAG` and where there is none (one-sided access).
    pub tag: Option<i32>,
    /// The number of elements of the datatype.
    pub count: u64,
    /// The datatype.
    pub datatype: Datatype,
    /// Bytes of data, saturating: the bytes sent, or the bytes received according to the status, or, without a status, the size of
    /// the receive buffer. 0 if the datatype's size is unknown.
    pub bytes: u64,
    /// True if `bytes` is the actual amount, not just the size of the buffer.
    pub exact: bool,
    /// A message in a send mode, or an access. A transfer that `MPI_Start` begins has the kind from the call that prepared it.
    pub kind: TransferKind,
}

impl Transfer {
    /// True if it accesses the memory of another process.
    pub fn is_access(&self) -> bool {
        matches!(self.kind, TransferKind::Access(_))
    }

    /// Returns the mode in which a message is sent; [`SendMode::Standard`] for other transfers.
    pub fn mode(&self) -> SendMode {
        match self.kind {
            TransferKind::Message(mode) => mode,
            TransferKind::Access(_) => SendMode::Standard,
        }
    }
}

/// The members for which an [`Amount`] counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
pub enum Who {
    /// For every member.
    Everyone,
    /// For the root only.
    Root,
    /// For every member but the root.
    Others,
}

/// The partners with which an [`Amount`] is exchanged.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
pub enum Share {
    /// One total.
    Whole,
    /// The same amount with each member of the communicator (of the remote group, for an intercommunicator), or one piece with
    /// each.
    Members,
    /// The same for the neighbours in its topology from which it receives.
    Sources,
    /// The same for the neighbours in its topology to which it sends.
    Destinations,
    /// The process's own piece.
    Own,
    /// The same amount for each member of the process's own group, or a piece for each; in an intercommunicator that is the local
    /// group.
    Group,
}

/// Bytes that a process contributes to or receives from a collective operation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Amount {
    /// Bytes, for each of `share`; `None` if unknown at the call.
    pub bytes: Option<u64>,
    /// Bytes with each member or neighbour, in order, of operations that have a count for each. If the call could not determine
    /// their number (`bytes` is `None`), there are at least as many as exist, if they could be read; the rest are meaningless.
    /// Otherwise, all of them, with the sum `bytes`; or empty, in traces of earlier Belljars.
    pub pieces: Vec<u64>,
    /// The partners.
    pub share: Share,
    /// The members for which it counts.
    pub who: Who,
}

impl Amount {
    /// No bytes.
    pub const NOTHING: Self = Self {
        bytes: Some(0),
        pieces: Vec::new(),
        share: Share::Whole,
        who: Who::Everyone,
    };

    /// Returns an amount of this many bytes as a whole, for every member.
    pub fn whole(bytes: Option<u64>) -> Self {
        Self {
            bytes,
            ..Self::NOTHING
        }
    }

    /// Returns the same amount with each of `share`.
    pub fn each(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// Returns the same amount for these members only.
    pub fn only(self, who: Who) -> Self {
        Self { who, ..self }
    }
}

/// A process's part in one collective operation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Collective {
    /// The operation. For a part that `MPI_Start` begins: the operation for which the request was prepared. `None` in traces of
    /// earlier versions where several prepared operations are possible.
    pub operation: Option<Operation>,
    /// Its progress.
    pub phase: Phase,
    /// Its communicator, by the process's own number.
    pub communicator: Option<u32>,
    /// The root, if the operation has one.
    pub root: Option<Peer>,
    /// Bytes that leave this process's buffers.
    pub sent: Amount,
    /// Bytes that enter this process's buffers.
    pub received: Amount,
}

/// The public part of an `MPI_Status`, and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Status {
    /// The message's sender, as a rank in its communicator.
    pub source: Peer,
    /// The message's tag.
    pub tag: i32,
    /// Bytes received.
    pub bytes: u64,
    /// True if the operation was cancelled.
    pub cancelled: bool,
    /// True if the program passed `MPI_STATUS_IGNORE` or `MPI_STATUSES_IGNORE` and the tracer saw in the library which
    /// message was received; false if the library wrote this status for the program.
    pub observed: bool,
}

/// The outcome of a completed request's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub enum Ending {
    /// Success.
    Well,
    /// An error of this class or code, according to the status or the call: nothing was received.
    Error(i32),
    /// Unknown: some of the call's operations failed, and the trace does not say which.
    Untold,
}

/// A request that a call completed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Completion {
    /// The request, by the process's own number (see [`Event::started`]).
    pub request: u64,
    /// Its status, if it was a receive and the program asked for one or the tracer observed the match.
    pub status: Option<Status>,
    /// Bytes received through it: by the status, else the size of the buffer; 0 for a send.
    pub received: u64,
    /// True if `received` is from the status.
    pub exact: bool,
    /// The outcome of the operation.
    pub ending: Ending,
}
