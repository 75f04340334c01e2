//! What a rank passes to a collective operation.
//!
//! Ranks are those in the communicator, and all of its members pass what fits together, as MPI demands; where they do
//! not, schedules do not fit together either, but nothing else goes wrong. Made by analyses of traces and by replay.

use belljar_mpi::Operation;
use serde::{Deserialize, Serialize};

/// What a rank passes to a collective operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// Whether it is the nonblocking form.
    pub nonblocking: bool,
    /// How many members the communicator has.
    pub members: u32,
    /// The caller's rank in it.
    pub rank: u32,
    /// The root's rank, where the operation has one.
    pub root: u32,
    /// Elements: of the whole buffer (broadcast, reductions but reduce-scatters, scans), or of the block that goes to or comes
    /// from each member. Operations with pieces have none.
    pub count: u64,
    /// Bytes of data of an element.
    pub element: u64,
    /// Bytes for each member, where they may differ: what the root of a scatterv and each rank of an alltoallv or w
    /// gives, each part of a reduce-scatter; of a gatherv the caller's own alone.
    pub sent: Vec<u64>,
    /// Bytes from each member, where they may differ: what the root of a gatherv and each rank of an allgatherv,
    /// alltoallv or w gets; of a scatterv the caller's own alone.
    pub received: Vec<u64>,
    /// Whether it passes `MPI_IN_PLACE`.
    pub in_place: bool,
    /// Whether the reduction is commutative.
    pub commutative: bool,
    /// Whether the reduction is one of MPI's own.
    pub built_in: bool,
}

impl Call {
    /// Of a communicator with so many members, by the one with this rank: blocking, without data, with root 0 and a
    /// reduction of MPI's own.
    pub fn new(operation: Operation, members: u32, rank: u32) -> Self {
        Self {
            operation,
            nonblocking: false,
            members,
            rank,
            root: 0,
            count: 0,
            element: 1,
            sent: Vec::new(),
            received: Vec::new(),
            in_place: false,
            commutative: true,
            built_in: true,
        }
    }

    /// With so many elements of so many bytes.
    pub fn elements(self, count: u64, element: u64) -> Self {
        Self {
            count,
            element,
            ..self
        }
    }

    /// With these pieces.
    pub fn pieces(self, sent: Vec<u64>, received: Vec<u64>) -> Self {
        Self {
            sent,
            received,
            ..self
        }
    }

    /// With this root.
    pub fn root(self, root: u32) -> Self {
        Self { root, ..self }
    }

    /// Bytes of `count` elements.
    pub fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.element)
    }

    /// Bytes of all members' data together, as decision tables mean it.
    pub fn total_bytes(&self) -> u64 {
        let sum = |pieces: &[u64]| {
            let pieces = pieces.iter().copied();
            pieces.fold(0, u64::saturating_add)
        };
        match self.operation {
            Operation::Allgatherv => sum(&self.received),
            Operation::Alltoallv | Operation::Alltoallw | Operation::ReduceScatter => {
                sum(&self.sent)
            }
            _ => self.bytes().saturating_mul(self.members.into()),
        }
    }

    /// The rank that is so far after the caller's, going round.
    pub(crate) fn after(&self, distance: u32) -> u32 {
        let members = u64::from(self.members.max(1));
        ((u64::from(self.rank) + u64::from(distance)) % members) as u32
    }

    /// The rank that is so far before the caller's, going round; at most as far as there are members.
    pub(crate) fn before(&self, distance: u32) -> u32 {
        self.after(self.members.saturating_sub(distance))
    }

    /// The caller's rank counted from the root on.
    pub(crate) fn relative(&self) -> u32 {
        relative(self.rank, self.root, self.members)
    }

    /// The rank that is this one counted from the root on.
    pub(crate) fn absolute(&self, relative: u32) -> u32 {
        let members = u64::from(self.members.max(1));
        ((u64::from(relative) + u64::from(self.root)) % members) as u32
    }

    /// Whether the caller is a member, and the root is one.
    pub fn is_sound(&self) -> bool {
        self.rank < self.members && self.root < self.members && self.members <= MOST_MEMBERS
    }
}

/// Members of a communicator, at most: calculations with ranks do not overflow.
pub(crate) const MOST_MEMBERS: u32 = 1 << 24;

/// `rank` counted from `root` on, going round.
pub(crate) fn relative(rank: u32, root: u32, members: u32) -> u32 {
    if rank >= root {
        rank - root
    } else {
        rank + members.saturating_sub(root)
    }
}
