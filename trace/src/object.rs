//! What events tell of a process's MPI objects: communicators, groups, datatypes.
//!
//! Objects are numbered within their process, because handles are reused. Which
//! ranks a communicator joins is worked out afterwards from all processes' events
//! (by `belljar-analysis`): a split's outcome depends on what the others passed.

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
    /// One that the program built: the process's own number of it, and its size in bytes.
    Derived {
        /// Counts the process's datatypes.
        number: u32,
        /// Bytes of data in one element (what `MPI_Type_size` says).
        size: u64,
    },
    /// One whose size is not known.
    Unknown,
}

impl Datatype {
    /// Bytes of data in one element; `None` when unknown.
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

/// What a call told of the process's MPI objects.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Fact {
    /// The call took part in making a communicator.
    Communicator(NewCommunicator),
    /// The call made a group.
    Group {
        /// The process's own number of the group.
        number: u32,
        /// Its members.
        members: GroupMembers,
    },
    /// The call made a datatype or told its size.
    Datatype(Datatype),
    /// What the launcher told the process of its job.
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
    /// The call is one of a schedule, which has no times of its own: an imported one.
    Scheduled(ScheduledCall),
}

/// Conditions of a call of a schedule. Points are numbers that a process has for them; each is reached once.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ScheduledCall {
    /// The processor of the process for the work and the call. It does one thing at a time.
    pub processor: u32,
    /// Cycles of work before the call.
    pub work: u64,
    /// Points that must be reached before the work begins.
    pub after: Vec<u32>,
    /// The point that is reached when the work begins, which is the call's entry where there is no work.
    pub started: Option<u32>,
    /// The point that is reached when the call is left.
    pub complete: Option<u32>,
}

/// A communicator in the making, seen from one process.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NewCommunicator {
    /// The process's own number of the new communicator; `None` when this process
    /// is not in it.
    pub number: Option<u32>,
    /// The process's own number of the communicator it was made from; `None` when there is none
    /// or it is unknown.
    pub parent: Option<u32>,
    /// How many communicators were made from the parent before, by this process, in the
    /// way that takes all members. All members of the parent count alike.
    pub sequence: u32,
    /// How it was made.
    pub how: Making,
}

/// How a communicator is made, with what decides its members.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Making {
    /// All of the parent's members in their order, and its topology (`dup`).
    Duplicate,
    /// `MPI_Comm_split`.
    Split {
        /// Members with the same color end up together; `None`: in none (`MPI_UNDEFINED`).
        color: Option<i32>,
        /// Orders them.
        key: i32,
    },
    /// `MPI_Comm_split_type` with `MPI_COMM_TYPE_SHARED`: by node.
    SplitByNode {
        /// Whether the caller wants to be in one.
        member: bool,
        /// Orders them.
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
        /// Tells calls of one time apart.
        tag: i32,
    },
    /// `MPI_Cart_create`: as many of the parent's members as the grid holds, in their
    /// order. (Neither MPICH nor Open MPI reorders grids by default.)
    Cart {
        /// The grid's dimensions.
        dimensions: Vec<u32>,
        /// Which of them go round.
        periods: Vec<bool>,
    },
    /// `MPI_Cart_sub`.
    CartSub {
        /// Which of the parent's dimensions remain.
        remain: Vec<bool>,
    },
    /// `MPI_Graph_create`: the first of the parent's members.
    Graph {
        /// How many neighbours each member has.
        degrees: Vec<u32>,
    },
    /// `MPI_Dist_graph_create`: all of the parent's members in their order.
    DistGraph {
        /// From and to whom the edges go that the caller tells; others may tell more.
        edges: Vec<(u32, u32)>,
    },
    /// `MPI_Dist_graph_create_adjacent`: all of the parent's members in their order.
    DistGraphAdjacent {
        /// How many neighbours the caller receives from.
        sources: u32,
        /// How many it sends to.
        destinations: u32,
    },
    /// `MPI_Intercomm_create`; the parent is the local communicator.
    Intercomm {
        /// The local leader's rank in the parent.
        local_leader: u32,
        /// The communicator in which the leaders meet (counts at the leaders only).
        bridge: Option<u32>,
        /// The remote leader's rank in the bridge (counts at the local leader only).
        remote_leader: u32,
        /// Tells calls of one time apart.
        tag: i32,
    },
    /// `MPI_Intercomm_merge`; the parent is the intercommunicator.
    Merge {
        /// Whether this side comes last.
        high: bool,
    },
    /// `MPI_Comm_spawn` or `MPI_Comm_spawn_multiple`; the parent is the spawning communicator, the
    /// remote group is a new job.
    Spawn {
        /// The rank in the parent whose arguments count.
        root: u32,
        /// How many processes were asked for; `None` but at the root.
        count: Option<u32>,
    },
    /// `MPI_Comm_get_parent`: the other side of that.
    Parent,
    /// `MPI_Comm_accept` or `MPI_Comm_connect`; the parent is the local communicator.
    Meet {
        /// Whether it accepts.
        accepts: bool,
        /// The rank in the parent whose arguments count.
        root: u32,
        /// A hash of the port's name; `None` but at the root.
        port: Option<u32>,
    },
    /// `MPI_Intercomm_create_from_groups`: the members of two groups, by the process's own numbers.
    IntercommGroups {
        /// The local group.
        local: Option<u32>,
        /// The remote group (counts at the local leader only).
        remote: Option<u32>,
        /// The local leader's rank in the local group.
        leader: u32,
        /// A hash of the text that tells calls of one time apart.
        tag: i32,
    },
    /// In a way whose members nothing here tells (`MPI_Comm_join`, hardware-guided splits).
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
    /// Those of the first, then those of the second that are not in the first.
    Union(Option<u32>, Option<u32>),
    /// Those of the first that are in the second.
    Intersection(Option<u32>, Option<u32>),
    /// Those of the first that are not in the second.
    Difference(Option<u32>, Option<u32>),
    /// Unknown.
    Unknown,
}
