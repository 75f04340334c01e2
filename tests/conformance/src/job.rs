//! Jobs as data: each actor's calls in order, and the operations that they begin.
//!
//! A job has no times and no matching: the simulation adds both. Made by the generator, recorded as events by
//! `record`.

/// Collective operations.
mod collective;
/// Communicators and topologies.
mod communicator;

pub(crate) use collective::Collective;
pub(crate) use communicator::{Communicator, Topology};

/// A rank's thread, by its index in [`Job::actors`].
pub(crate) type ActorId = usize;
/// An operation, by its index in [`Job::operations`].
pub(crate) type OperationId = usize;
/// A communicator, by its index in [`Job::communicators`]; 0 is `MPI_COMM_WORLD`.
pub(crate) type CommunicatorId = usize;

/// An MPI job that was not executed yet.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub(crate) ranks: u32,
    /// By rank, its node.
    pub(crate) nodes: Vec<u32>,
    /// True for a job of Open MPI, false for one of MPICH.
    pub(crate) open_mpi: bool,
    /// True if some calls at the end never return.
    pub(crate) is_cut: bool,
    /// True if polls that follow one another are one record of the trace.
    pub(crate) folded: bool,
    pub(crate) actors: Vec<Actor>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) communicators: Vec<Communicator>,
}

/// A thread of a rank, with its calls.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) rank: u32,
    pub(crate) thread: u32,
    pub(crate) calls: Vec<Call>,
}

/// Modes of sends (MPI-4.0, 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMode {
    Standard,
    Buffered,
    Synchronous,
    Ready,
}

/// Kinds of accesses to windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Put,
    Get,
    Accumulate,
}

/// One rank's side of a message, or its part in a collective operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Send {
        to: u32,
        tag: i32,
        bytes: u64,
        mode: SendMode,
    },
    Receive {
        /// `None`: from any source.
        from: Option<u32>,
        /// `None`: with any tag.
        tag: Option<i32>,
        /// Size of the receive buffer in bytes.
        room: u64,
        /// True if the completing call requests a status.
        status: bool,
    },
    /// A send to or a receive from `MPI_PROC_NULL`, which moves nothing.
    Nothing { sends: bool, status: bool },
    /// An access to another rank's memory, by the job's window.
    Access {
        access: Access,
        target: u32,
        bytes: u64,
    },
    Collective {
        /// The number of the collective operation in the job.
        instance: usize,
        operation: Collective,
        root: u32,
        bytes: u64,
    },
}

impl Action {
    /// True for a receive whose completing call requests a status.
    pub(crate) fn asks_for_status(self) -> bool {
        match self {
            Self::Receive { status, .. } => status,
            Self::Nothing { sends, status } => status && !sends,
            _ => false,
        }
    }
}

/// An operation of an actor. Peers and roots are ranks of `MPI_COMM_WORLD`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) actor: ActorId,
    pub(crate) communicator: CommunicatorId,
    pub(crate) action: Action,
    /// The persistent request that it is a start of.
    pub(crate) persistent: Option<usize>,
    /// For a side of a partitioned message, the number of its partitions.
    pub(crate) partitions: Option<u64>,
}

impl Operation {
    /// True for a part in an operation of neighbours.
    pub(crate) fn is_of_neighbors(&self) -> bool {
        matches!(self.action, Action::Collective { operation, .. } if operation.is_neighborhood())
    }

    /// The number of the collective operation that it is a part of.
    pub(crate) fn instance(&self) -> Option<usize> {
        match self.action {
            Action::Collective { instance, .. } => Some(instance),
            _ => None,
        }
    }
}

/// A call's relation to its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Begins them and returns when they are over.
    Blocking,
    /// The same, after an `MPI_Probe` for the receive.
    Probed,
    /// The same, by `MPI_Mprobe` and `MPI_Mrecv`.
    Matched,
    /// Begins one and returns a request.
    Begin,
    /// Prepares one and returns a persistent request.
    Prepare,
    /// Begins persistent ones, by `MPI_Start` or `MPI_Startall`.
    Start,
    /// Returns when they are over, by `MPI_Wait` or `MPI_Waitall`.
    Wait,
    /// Calls this function until they are over.
    Each(Each),
    /// Polls until they are complete, by `MPI_Test` or `MPI_Testall`.
    Test,
    /// Cancels a receive.
    Cancel,
    /// Makes this partition of a message ready.
    Ready(u64),
    /// Makes, synchronises or frees the job's window.
    Window(Window),
    /// Frees a persistent request.
    Free,
    /// Makes a communicator.
    Communicator(CommunicatorId, Making),
    /// A send or receive that returns an error, and moves nothing.
    Fail,
}

/// Functions that complete some of several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Each {
    Waitany,
    Waitsome,
    Testany,
    Testsome,
}

impl Each {
    /// True if one call completes one request at most.
    pub(crate) fn is_one(self) -> bool {
        matches!(self, Self::Waitany | Self::Testany)
    }

    /// True if it returns when no request is over, too.
    pub(crate) fn polls(self) -> bool {
        matches!(self, Self::Testany | Self::Testsome)
    }
}

impl Form {
    /// True if it returns when its operations are not over, too.
    pub(crate) fn polls(self) -> bool {
        match self {
            Self::Test => true,
            Self::Each(each) => each.polls(),
            _ => false,
        }
    }
}

/// Calls on a window. Those of all ranks have a number, which no two of them share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Create(usize),
    Allocate(usize),
    Fence(usize),
    Free(usize),
    Lock(u32, bool),
    LockAll,
    FlushAll,
    UnlockAll,
    Flush(u32),
    Unlock(u32),
    /// Makes the group of one rank, for `MPI_Win_post` and `MPI_Win_start`.
    Group(u32),
    /// Exposes the window to a rank. The number is one that `Start` waits for.
    Post(u32, usize),
    Start(u32, usize),
    /// Ends accesses. The number is one that `Wait` waits for.
    Complete(usize),
    Wait(usize),
}

impl Window {
    /// The number of a call of all ranks.
    pub(crate) fn meeting(self) -> Option<usize> {
        match self {
            Self::Create(number)
            | Self::Allocate(number)
            | Self::Fence(number)
            | Self::Free(number) => Some(number),
            _ => None,
        }
    }

    /// The number that it gives to others.
    pub(crate) fn signals(self) -> Option<usize> {
        match self {
            Self::Post(_, number) | Self::Complete(number) => Some(number),
            _ => None,
        }
    }

    /// The number that it waits for.
    pub(crate) fn awaits(self) -> Option<usize> {
        match self {
            Self::Start(_, number) | Self::Wait(number) => Some(number),
            _ => None,
        }
    }
}

/// Functions that make communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    /// `MPI_Comm_dup`.
    Copy,
    /// `MPI_Comm_split`, by even and odd ranks.
    Split,
    /// `MPI_Cart_create` or `MPI_Dist_graph_create_adjacent`.
    Topology,
    /// `MPI_Intercomm_create`, between this part of a split and the other one.
    Between(CommunicatorId),
}

/// A call of an actor.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) form: Form,
    pub(crate) operations: Vec<OperationId>,
    /// Cycles of own work before it.
    pub(crate) work: u64,
}
