//! Changes to a process's MPI objects that events report: communicators, groups, datatypes.
//!
//! Objects are numbered within their process, because handles are reused. `belljar-analysis` later computes a
//! communicator's ranks from all processes' events, because a split depends on the arguments of all members.

use bincode::{Decode, Encode};
use serde::Serialize;

use crate::datatypes::PREDEFINED;
use crate::launch::Launch;

/// The number of `MPI_COMM_WORLD` in every process.
pub const WORLD: u32 = 0;

/// The number of `MPI_COMM_SELF` in every process.
pub const SELF: u32 = 1;

/// A datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize)]
pub enum Datatype {
    /// A predefined one: its index in [`PREDEFINED`].
    Predefined(u16),
    /// One that the program created: the process's own number for it, and its size in bytes.
    Derived {
        /// Its number among the process's datatypes.
        number: u32,
        /// Bytes of data in one element (`MPI_Type_size`).
        size: u64,
    },
    /// A datatype of unknown size.
    Unknown,
}

impl Datatype {
    /// Returns the bytes of data in one element; `None` if unknown.
    pub fn size(self) -> Option<u64> {
        match self {
            Self::Predefined(index) => PREDEFINED
                .get(usize::from(index))
                .map(|row| u64::from(row.size)),
            Self::Derived { size, .. } => Some(size),
            Self::Unknown => None,
        }
    }
}

/// A change to the process's MPI objects that a call reports.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Fact {
    /// The call took part in creating a communicator.
    Communicator(NewCommunicator),
    /// The call created a group.
    Group {
        /// The process's own number of the group.
        number: u32,
        /// Its members.
        members: GroupMembers,
    },
    /// The call created a datatype or queried its size.
    Datatype(Datatype),
    /// The launcher's description of the process's job.
    Launch(Launch),
    /// The size of a communicator.
    Size {
        /// The process's own number of the communicator.
        communicator: u32,
        /// Members (of the local group, for an intercommunicator).
        size: u32,
    },
    /// The caller's rank in a communicator.
    Rank {
        /// The process's own number of the communicator.
        communicator: u32,
        /// The rank.
        rank: u32,
    },
    /// The call belongs to an imported schedule, and has no times.
    Scheduled(ScheduledCall),
}

/// Conditions of a call of a schedule. Points are numbered within a process; each is reached once.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ScheduledCall {
    /// The processor of the process for the work and the call. It does one thing at a time.
    pub processor: u32,
    /// Cycles of work before the call.
    pub work: u64,
    /// Points that must be reached before the work begins.
    pub after: Vec<u32>,
    /// The point reached when the work begins; without work, at the call's entry.
    pub started: Option<u32>,
    /// The point reached when the call returns.
    pub complete: Option<u32>,
}

/// The creation of a communicator, seen from one process.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NewCommunicator {
    /// The process's own number of the new communicator; `None` when this process
    /// is not in it.
    pub number: Option<u32>,
    /// The process's own number of the communicator it was created from; `None` if there is none or it is unknown.
    pub parent: Option<u32>,
    /// The number of earlier communicators that this process created from the parent by operations collective over all
    /// members. All members of the parent have the same count.
    pub sequence: u32,
    /// The operation that created it.
    pub how: Making,
}

/// The operations that create communicators, with the arguments that determine the members.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Making {
    /// All of the parent's members in their order, and its topology (`dup`).
    Duplicate,
    /// `MPI_Comm_split`.
    Split {
        /// Members with the same color end up together; `None` (`MPI_UNDEFINED`) for no communicator.
        color: Option<i32>,
        /// The sort key of the members.
        key: i32,
    },
    /// `MPI_Comm_split_type` with `MPI_COMM_TYPE_SHARED`: by node.
    SplitByNode {
        /// True if the caller wants to be a member.
        member: bool,
        /// The sort key of the members.
        key: i32,
    },
    /// `MPI_Comm_create`: the members of the group, by the process's own number.
    Create {
        /// The group.
        group: Option<u32>,
    },
    /// `MPI_Comm_create_group`, which takes only the group's members, and
    /// `MPI_Comm_create_from_group`, whose tag is a hash of its text.
    CreateGroup {
        /// The group.
        group: Option<u32>,
        /// Distinguishes concurrent calls.
        tag: i32,
    },
    /// `MPI_Cart_create`: as many of the parent's members as the grid holds, in their
    /// order. (Neither MPICH nor Open MPI reorders grids by default.)
    Cart {
        /// The grid's dimensions.
        dimensions: Vec<u32>,
        /// The periodic dimensions.
        periods: Vec<bool>,
    },
    /// `MPI_Cart_sub`.
    CartSub {
        /// The parent's remaining dimensions.
        remain: Vec<bool>,
    },
    /// `MPI_Graph_create`: the first of the parent's members.
    Graph {
        /// The number of neighbours of each member.
        degrees: Vec<u32>,
    },
    /// `MPI_Dist_graph_create`: all of the parent's members in their order.
    DistGraph {
        /// The source and the destination of each edge that the caller specifies; other callers may specify more.
        edges: Vec<(u32, u32)>,
    },
    /// `MPI_Dist_graph_create_adjacent`: all of the parent's members in their order.
    DistGraphAdjacent {
        /// The number of neighbours that the caller receives from.
        sources: u32,
        /// The number of neighbours that the caller sends to.
        destinations: u32,
    },
    /// `MPI_Intercomm_create`; the parent is the local communicator.
    Intercomm {
        /// The local leader's rank in the parent.
        local_leader: u32,
        /// The communicator in which the leaders meet (significant at the leaders only).
        bridge: Option<u32>,
        /// The remote leader's rank in the bridge (significant at the local leader only).
        remote_leader: u32,
        /// Distinguishes concurrent calls.
        tag: i32,
    },
    /// `MPI_Intercomm_merge`; the parent is the intercommunicator.
    Merge {
        /// True if this side comes last.
        high: bool,
    },
    /// `MPI_Comm_spawn` or `MPI_Comm_spawn_multiple`; the parent is the spawning communicator, the
    /// remote group is a new job.
    Spawn {
        /// The rank in the parent whose arguments are used.
        root: u32,
        /// The number of processes requested; `None` except at the root.
        count: Option<u32>,
    },
    /// `MPI_Comm_get_parent`: the other side of a spawn.
    Parent,
    /// `MPI_Comm_accept` or `MPI_Comm_connect`; the parent is the local communicator.
    Meet {
        /// True if it accepts.
        accepts: bool,
        /// The rank in the parent whose arguments are used.
        root: u32,
        /// A hash of the port's name; `None` except at the root.
        port: Option<u32>,
    },
    /// `MPI_Intercomm_create_from_groups`: the members of two groups, by the process's own numbers.
    IntercommGroups {
        /// The local group.
        local: Option<u32>,
        /// The remote group (significant at the local leader only).
        remote: Option<u32>,
        /// The local leader's rank in the local group.
        leader: u32,
        /// A hash of the text that distinguishes concurrent calls.
        tag: i32,
    },
    /// An operation whose members cannot be determined (`MPI_Comm_join`, hardware-guided splits).
    Unknown,
}

/// The members of a group, in terms of other objects of the process.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum GroupMembers {
    /// A communicator's members.
    Of(u32),
    /// An intercommunicator's remote members.
    RemoteOf(u32),
    /// Ranks picked from a group, in order.
    Include(Option<u32>, Vec<u32>),
    /// A group without some ranks.
    Exclude(Option<u32>, Vec<u32>),
    /// The members of the first, then those members of the second that are not in the first.
    Union(Option<u32>, Option<u32>),
    /// The members of the first that are also in the second.
    Intersection(Option<u32>, Option<u32>),
    /// The members of the first that are not in the second.
    Difference(Option<u32>, Option<u32>),
    /// Unknown.
    Unknown,
}
