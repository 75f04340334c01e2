//! The meaning of each function: kind, phase, and the processes that it synchronises.
//!
//! A meaning follows from the row of the base function (`rows`) and from the form of the name (`forms`). The compiler
//! computes all of them once; a look-up is one index. Chapters are those of MPI-4.0.

/// Large-count, nonblocking and persistent forms of base functions.
mod forms;
/// One row for each base function.
mod rows;

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::functions::FUNCTIONS;
use crate::operation::Operation;

/// Progress of an operation at the return of the call that names it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
pub enum Phase {
    /// Complete, as far as MPI guarantees it to the caller.
    Done,
    /// Begun; a request completes later.
    Begun,
    /// Described in a persistent request; nothing moves yet.
    Prepared,
}

/// The mode of a send (MPI-4.0, 3.4).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Encode,
    Decode,
    Serialize,
    Deserialize,
)]
pub enum SendMode {
    /// The library decides whether to buffer the message.
    #[default]
    Standard,
    /// The message goes to a buffer of the program.
    Buffered,
    /// The send completes after its receive has started.
    Synchronous,
    /// The program promises that the receive is posted.
    Ready,
}

/// The kind of an access to the memory of another process (MPI-4.0, 12.3).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
pub enum Access {
    /// Writes (`MPI_Put`).
    Put,
    /// Reads (`MPI_Get`).
    Get,
    /// Combines with the target's data (`MPI_Accumulate`).
    Accumulate,
    /// Combines and returns the earlier data (`MPI_Get_accumulate`).
    GetAccumulate,
    /// The same of one element (`MPI_Fetch_and_op`).
    FetchAndOp,
    /// Exchanges one element if it equals another (`MPI_Compare_and_swap`).
    CompareAndSwap,
}

impl Access {
    /// True if data goes to the target.
    pub const fn puts(self) -> bool {
        !matches!(self, Self::Get)
    }

    /// True if data comes from the target.
    pub const fn gets(self) -> bool {
        !matches!(self, Self::Put | Self::Accumulate)
    }
}

/// A synchronisation of accesses to windows (MPI-4.0, 12.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// `MPI_Win_fence`.
    Fence,
    /// `MPI_Win_post`: exposes the window to a group.
    Post,
    /// `MPI_Win_start`: begins accesses to a group.
    Start,
    /// `MPI_Win_complete`: ends the accesses.
    Complete,
    /// `MPI_Win_wait`: waits for the accesses of the group.
    Wait,
    /// `MPI_Win_test`: queries whether these are complete.
    Test,
    /// `MPI_Win_lock`.
    Lock,
    /// `MPI_Win_lock_all`.
    LockAll,
    /// `MPI_Win_unlock`.
    Unlock,
    /// `MPI_Win_unlock_all`.
    UnlockAll,
    /// `MPI_Win_flush` and `MPI_Win_flush_all`.
    Flush,
    /// `MPI_Win_flush_local` and `MPI_Win_flush_local_all`.
    FlushLocal,
    /// `MPI_Win_sync`.
    Sync,
}

impl Epoch {
    /// True if the call returns after accesses of this process are over, at the origin at least.
    pub const fn ends_accesses(self) -> bool {
        matches!(
            self,
            Self::Fence
                | Self::Complete
                | Self::Unlock
                | Self::UnlockAll
                | Self::Flush
                | Self::FlushLocal
        )
    }

    /// True if the call returns after accesses of this process are over at their targets, too.
    pub const fn ends_accesses_at_targets(self) -> bool {
        self.ends_accesses() && !matches!(self, Self::FlushLocal)
    }
}

/// The requests that a call of the Wait and Test families completes (MPI-4.0, 3.7.3, 3.7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completes {
    /// One request.
    One,
    /// All requests of an array.
    All,
    /// The request at `indx`.
    Any,
    /// `outcount` requests, at `array_of_indices`.
    Some,
}

/// An object that calls create, free, query or change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A communicator.
    Communicator,
    /// A group of processes.
    Group,
    /// A datatype.
    Datatype,
    /// A window of memory.
    Window,
    /// A reduction operator.
    Reduction,
    /// A file.
    File,
    /// A session.
    Session,
    /// A buffer of buffered sends.
    Buffer,
    /// An attribute key, an error handler, an info object.
    Other,
}

/// The origin of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// From one communicator, by all of its members.
    OfParent,
    /// By the members of the new communicator alone.
    OfMembers,
    /// With processes that the call starts, or that another job has.
    Across,
    /// It exists already (`MPI_Comm_get_parent`).
    Existing,
}

/// The processes without which a call cannot return, for calls that are not a [collective
/// operation](CallKind::Collective): each of them must arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// No other process.
    Nobody,
    /// All processes of the job.
    World,
    /// All members of the communicator that the call names.
    Communicator,
    /// All members of the communicator that the call creates.
    NewCommunicator,
    /// All processes of the window.
    Window,
    /// All processes that opened the file.
    File,
    /// Processes that the trace does not join by one communicator: spawned ones, two jobs.
    Others,
}

/// A boundary of the main part of a program: the time between the start of MPI and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// MPI starts: `MPI_Init`, `MPI_Init_thread`, `MPI_Session_init`.
    Start,
    /// MPI ends: `MPI_Finalize`, `MPI_Session_finalize`.
    End,
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Nothing that other processes or later calls depend on.
    Local,
    /// Asks for the time.
    Clock,
    /// `MPI_Init`, `MPI_Init_thread`.
    Init,
    /// `MPI_Finalize`.
    Finalize,
    /// `MPI_Abort`.
    Abort,
    /// Sends a message to `dest`.
    Send(SendMode),
    /// Receives a message from `source`.
    Receive,
    /// Sends to `dest` and receives from `source`.
    SendReceive,
    /// Sends in partitions (MPI-4.0, 4).
    SendPartitioned,
    /// Receives in partitions.
    ReceivePartitioned,
    /// Receives the message that a matched probe removed from the queue.
    ReceiveMatched,
    /// Probes for a message.
    Probe,
    /// Probes for a message, and removes it from the queue.
    ProbeMatched,
    /// Takes part in a collective operation.
    Collective(Operation),
    /// Accesses the memory of another process.
    Access(Access),
    /// Synchronises accesses to a window.
    Epoch(Epoch),
    /// Completes requests.
    Complete(Completes),
    /// Starts persistent requests.
    Start,
    /// Cancels a request.
    Cancel,
    /// Frees a request.
    FreeRequest,
    /// Makes partitions of a partitioned send ready.
    Ready,
    /// Queries whether a partition has arrived.
    Arrived,
    /// Creates a communicator.
    MakeCommunicator(Creation),
    /// Creates an object.
    Make(Object),
    /// Frees an object.
    Free(Object),
    /// Queries an object.
    Ask(Object),
    /// Changes an object.
    Set(Object),
    /// Reads or writes a file.
    FileAccess,
}

/// The meaning of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The name of the base function without `MPI_`: `Bcast` for `MPI_Ibcast_c` and `MPI_Bcast_init`.
    pub base: &'static str,
    /// The kind of the call.
    pub kind: CallKind,
    /// Its progress at the return.
    pub phase: Phase,
    /// The other processes that it needs.
    pub meeting: Meeting,
    /// True for functions that programs poll.
    pub polls: bool,
    /// True if it queries the library or the process itself, or describes data, and moves nothing.
    pub asks: bool,
}

impl Meaning {
    /// The meaning of an unknown function number: no effect.
    pub const UNKNOWN: Self = Self {
        base: "?",
        kind: CallKind::Local,
        phase: Phase::Done,
        meeting: Meeting::Nobody,
        polls: false,
        asks: false,
    };

    /// Returns the collective operation that a call begins, executes or prepares.
    pub const fn collective(&self) -> Option<Operation> {
        match self.kind {
            CallKind::Collective(operation) => Some(operation),
            _ => None,
        }
    }

    /// Returns the kind of the access that a call makes.
    pub const fn access(&self) -> Option<Access> {
        match self.kind {
            CallKind::Access(access) => Some(access),
            _ => None,
        }
    }

    /// Returns the synchronisation of a window that a call is.
    pub const fn epoch(&self) -> Option<Epoch> {
        match self.kind {
            CallKind::Epoch(epoch) => Some(epoch),
            _ => None,
        }
    }

    /// Returns the mode of a message that a call sends; [`SendMode::Standard`] for all others.
    pub const fn mode(&self) -> SendMode {
        match self.kind {
            CallKind::Send(mode) => mode,
            _ => SendMode::Standard,
        }
    }

    /// Returns the boundary of the main part that a call is. Time in such calls is the start and the end of MPI itself,
    /// independent of the length of a run; analyses keep it separate.
    pub const fn boundary(&self) -> Option<Boundary> {
        match self.kind {
            CallKind::Init | CallKind::Make(Object::Session) => Some(Boundary::Start),
            CallKind::Finalize | CallKind::Free(Object::Session) => Some(Boundary::End),
            _ => None,
        }
    }

    /// True if a call creates a window.
    pub const fn makes_window(&self) -> bool {
        matches!(self.kind, CallKind::Make(Object::Window))
    }

    /// True if later calls depend on it: it creates, frees or changes an object that they name, or begins or ends MPI.
    pub const fn defines(&self) -> bool {
        matches!(
            self.kind,
            CallKind::Init
                | CallKind::Finalize
                | CallKind::Abort
                | CallKind::FreeRequest
                | CallKind::MakeCommunicator(_)
                | CallKind::Make(_)
                | CallKind::Free(_)
                | CallKind::Set(_)
                | CallKind::Epoch(_)
                | CallKind::FileAccess
        )
    }
}

/// The meanings of all functions, by their numbers.
#[allow(
    long_running_const_eval,
    reason = "some 670 functions are looked up among some 430 names"
)]
static MEANINGS: [Meaning; FUNCTIONS.len()] = forms::all();

/// Returns the meaning of the function with this number; [`Meaning::UNKNOWN`] for a number beyond the table.
pub fn meaning(function: u16) -> &'static Meaning {
    let meaning = MEANINGS.get(usize::from(function));
    meaning.unwrap_or(const { &Meaning::UNKNOWN })
}

/// True for the functions by which programs arrange ranks in a grid: `MPI_Dims_create` and `MPI_Cart_create`.
pub fn lays_out_grids(function: u16) -> bool {
    let known = crate::FUNCTIONS.get(usize::from(function));
    let name = known.map(|it| it.name);
    matches!(name, Some("MPI_Dims_create" | "MPI_Cart_create"))
}

/// True for the functions that set an attribute of a communicator, whose functions `MPI_Finalize` may call (MPI-4.0, 11.2.4).
pub fn sets_attribute(function: u16) -> bool {
    matches!(meaning(function).base, "Comm_set_attr" | "Attr_put")
}

/// True for `MPI_Request_get_status`, which observes the completion of a request without freeing it (MPI-4.0, 3.7.6).
pub fn observes_request(function: u16) -> bool {
    meaning(function).base == "Request_get_status"
}

/// True for the functions that make a window with memory besides the caller's own range, which processes access directly.
pub fn makes_window_of_other_memory(function: u16) -> bool {
    meaning(function).base == "Win_allocate_shared"
}

/// Returns the meaning of the function with this name. `None` for a name that the table lacks.
pub fn meaning_of(name: &str) -> Option<&'static Meaning> {
    crate::number(name).map(meaning)
}
