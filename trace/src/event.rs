//! What is recorded of one call of an MPI function.
//!
//! An event tells what this process's call alone shows, in the process's own numbers; what needs other
//! processes is worked out when a trace is read. Its encoding is the trace's format. Made by tracers,
//! ordered by the run, written by `file`.

/// What a call tells besides that replay needs.
pub(crate) mod details;
/// Events as earlier versions of the trace have them.
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
    /// Which of the node's MPI processes called it, counted from 0 in the order in
    /// which they started.
    pub process: u32,
    /// Which of the process's threads called it, counted from 0 in the order of
    /// their first calls.
    pub thread: u32,
    /// The process's rank in `MPI_COMM_WORLD`; 0 for a process started without a launcher.
    pub rank: u32,
    /// The MPI implementation of the process.
    pub implementation: Implementation,
    /// The function: its index in [`FUNCTIONS`].
    pub function: u16,
    /// When it was entered, in cycles of the node's processor since its reset.
    pub entry: u64,
    /// When it was left. `None`: the call never returned, or not before the run's end.
    pub exit: Option<u64>,
    /// What it returned, sign-extended. `None` for a call that did not return and for the few
    /// functions whose result travels in a floating-point register.
    pub result: Option<i64>,
    /// How many calls of MPI functions surround it in its thread: 0 when the program
    /// itself made the call, more when the MPI implementation called itself.
    pub depth: u16,
    /// Whether the scenario selected it. Calls that were not are kept where they define
    /// communicators or groups, without which other calls' ranks mean nothing.
    pub selected: bool,
    /// The index of the first argument that points to memory that could not be read.
    pub bad: Option<u8>,
    /// The argument words: `int`s sign-extended, handles zero-extended, pointers as they are.
    pub arguments: Vec<u64>,
    /// The texts that arguments point to, cut at 256 bytes.
    pub texts: Vec<Text>,
    /// The communicator it was called on, by the process's own number; `None`
    /// when there is none or it is unknown.
    pub communicator: Option<u32>,
    /// The messages that it moves or prepares to move.
    pub transfers: Vec<Transfer>,
    /// The collective operations that it takes part in.
    pub collectives: Vec<Collective>,
    /// Requests that became active through it, by the process's own numbers: those of its transfers, then those of its
    /// collective operations. One request may stand for several transfers.
    pub started: Vec<u64>,
    /// Requests that it completed.
    pub completed: Vec<Completion>,
    /// The status that it returned or that was observed, where it is just one and not for a request.
    pub status: Option<Status>,
    /// What it told of the process's MPI objects.
    pub fact: Option<Fact>,
    /// What the node's time went into until entry and until exit.
    pub accounts: Accounts,
    /// Where in the program it was called, where the run asked for frames.
    pub site: Site,
    /// What it tells besides: displacements, windows.
    pub details: Detailed,
    /// The calls that it stands for, if these are several: then `entry` is the first one's and `exit` the last one's, and
    /// all else is that of each.
    pub folded: Folded,
    /// When it was found that the call will not return.
    pub given_up: GivenUp,
}

/// When a call was found not to return any more, in cycles as [`Event::entry`]: its place in a trace, among calls that
/// did return. No part of a trace, nor encoded with an event: `None` in what was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp(pub Option<u64>);

not_encoded!(GivenUp);

impl Event {
    /// The function's description. For a number of a newer Belljar, one without parameters.
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

    /// The meaning of the function.
    pub fn meaning(&self) -> &'static Meaning {
        meaning(self.function)
    }

    /// The function's name.
    pub fn name(&self) -> &'static str {
        self.description().name
    }

    /// Whether it returned an error code: then it moved nothing.
    pub fn failed(&self) -> bool {
        let tells = self.description().result == belljar_mpi::Base::Int;
        tells && self.result.is_some_and(|result| result != 0)
    }

    /// Until when it was open, in cycles: its place among a node's calls in a trace. `None` where it still was at the run's end.
    pub fn end(&self) -> Option<u64> {
        self.exit.or(self.given_up.0)
    }

    /// How many calls it stands for.
    pub fn calls(&self) -> u64 {
        self.folded.0.as_ref().map_or(1, |polls| polls.calls.max(1))
    }

    /// Cycles in the call, or in all that it stands for together.
    pub fn duration(&self) -> Option<u64> {
        match &self.folded.0 {
            Some(polls) if self.exit.is_some() => Some(polls.inside),
            _ => self.exit.map(|exit| exit.saturating_sub(self.entry)),
        }
    }

    /// Cycles of the shortest and of the longest of its calls.
    pub fn durations(&self) -> Option<(u64, u64)> {
        match &self.folded.0 {
            Some(polls) if self.exit.is_some() => Some((polls.shortest, polls.longest)),
            _ => self.duration().map(|cycles| (cycles, cycles)),
        }
    }

    /// Cycles between the calls that it stands for: the program's own.
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

/// Which way a message goes, seen from the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize)]
pub enum Direction {
    /// From here to the peer.
    Send,
    /// From the peer to here.
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
    /// The kind of the transfers that a call of a function with this meaning makes.
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
    /// Which way it goes.
    pub direction: Direction,
    /// How far it is.
    pub phase: Phase,
    /// Its communicator, by the process's own number.
    pub communicator: Option<u32>,
    /// The other side.
    pub peer: Peer,
    /// The tag; `None` for `MPI_ANY_TAG` and where there is none (one-sided access).
    pub tag: Option<i32>,
    /// How many elements of the datatype.
    pub count: u64,
    /// The datatype.
    pub datatype: Datatype,
    /// Bytes of data, saturating: what is sent; or what was received as the status tells;
    /// or, where nothing tells it, what there was room for. 0 if the datatype's size is unknown.
    pub bytes: u64,
    /// Whether `bytes` is what really moves, not just the room for it.
    pub exact: bool,
    /// A message in a send mode, or an access. Of a transfer that `MPI_Start` begins: as the call that prepared it says.
    pub kind: TransferKind,
}

impl Transfer {
    /// True if it accesses the memory of another process.
    pub fn is_access(&self) -> bool {
        matches!(self.kind, TransferKind::Access(_))
    }

    /// The mode in which a message is sent; [`SendMode::Standard`] for all else.
    pub fn mode(&self) -> SendMode {
        match self.kind {
            TransferKind::Message(mode) => mode,
            TransferKind::Access(_) => SendMode::Standard,
        }
    }
}

/// For whom an [`Amount`] counts.
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

/// With whom an [`Amount`] is exchanged.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
pub enum Share {
    /// It is told as a whole.
    Whole,
    /// As much with each member of the communicator (of the remote group, for an
    /// intercommunicator), or a piece with each.
    Members,
    /// The same for the neighbours in its topology that data comes from.
    Sources,
    /// The same for the neighbours in its topology that data goes to.
    Destinations,
    /// The process's own piece.
    Own,
    /// As much for each member of the process's own group, or a piece for each; in an
    /// intercommunicator that is the local group.
    Group,
}

/// Bytes that a process gives to or gets from a collective operation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Amount {
    /// Bytes, for each of `share`; `None` when they could not be known at the call.
    pub bytes: Option<u64>,
    /// Bytes with each member or neighbour, in order, of operations that have a count for each. Where the call could
    /// not tell how many they are (`bytes` is `None`), at least as many as there are, if they could be read; those that follow mean
    /// nothing. Else all of them, which `bytes` is the sum of; or none, in traces of earlier Belljars.
    pub pieces: Vec<u64>,
    /// With whom.
    pub share: Share,
    /// Whose it is.
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

    /// So many bytes as a whole, for every member.
    pub fn whole(bytes: Option<u64>) -> Self {
        Self {
            bytes,
            ..Self::NOTHING
        }
    }

    /// The same with each of `share`.
    pub fn each(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// The same for these only.
    pub fn only(self, who: Who) -> Self {
        Self { who, ..self }
    }
}

/// A process's part in one collective operation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Collective {
    /// The operation. Of a part that `MPI_Start` begins: the operation that the request was prepared for. `None` in
    /// traces of earlier versions where several prepared operations could be meant.
    pub operation: Option<Operation>,
    /// How far it is.
    pub phase: Phase,
    /// Its communicator, by the process's own number.
    pub communicator: Option<u32>,
    /// The root, where the operation has one.
    pub root: Option<Peer>,
    /// What goes out of this process's buffers.
    pub sent: Amount,
    /// What comes into this process's buffers.
    pub received: Amount,
}

/// The public part of an `MPI_Status`, and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Status {
    /// Who sent the message, as a rank in its communicator.
    pub source: Peer,
    /// The message's tag.
    pub tag: i32,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
    /// True if the program passed `MPI_STATUS_IGNORE` or `MPI_STATUSES_IGNORE` and the tracer saw in the library which
    /// message was received; false if the library wrote this status for the program.
    pub observed: bool,
}

/// How the operation of a completed request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub enum Ending {
    /// Well.
    Well,
    /// With an error of this class or code, as the status or the call tells it: nothing was
    /// received through it.
    Error(i32),
    /// Some of the call's operations failed, and nothing tells whether this one did.
    Untold,
}

/// A request that a call completed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Completion {
    /// The request, by the process's own number (see [`Event::started`]).
    pub request: u64,
    /// Its status, if it was a receive and the program asked for one or the tracer observed the match.
    pub status: Option<Status>,
    /// Bytes received through it: by the status, else the room for them; 0 for a send.
    pub received: u64,
    /// Whether `received` is by the status.
    pub exact: bool,
    /// How the operation ended.
    pub ending: Ending,
}
