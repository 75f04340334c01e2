//! A rank's arguments of a collective operation.
//!
//! Ranks are relative to the communicator, and all of its members pass consistent arguments, as MPI requires; otherwise,
//! schedules are inconsistent as well, without other consequences. Created by analyses of traces and by replay.

use belljar_mpi::Operation;
use serde::{Deserialize, Serialize};

/// A rank's arguments of a collective operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// True for the nonblocking form.
    pub nonblocking: bool,
    /// The number of the communicator's members.
    pub members: u32,
    /// The caller's rank in it.
    pub rank: u32,
    /// The root's rank, if the operation has one.
    pub root: u32,
    /// Elements: of the whole buffer (broadcast, reductions except reduce-scatters, scans), or of the block sent to or
    /// received from each member. Operations with pieces have none.
    pub count: u64,
    /// Bytes of data of an element.
    pub element: u64,
    /// Bytes for each member, if they may differ. They are sent by the root of a scatterv and by each rank of an alltoallv or
    /// alltoallw, or are the parts of a reduce-scatter; for a gatherv only the caller's own.
    pub sent: Vec<u64>,
    /// Bytes from each member, if they may differ. They are received by the root of a gatherv and by each rank of an
    /// allgatherv, alltoallv or alltoallw; for a scatterv only the caller's own.
    pub received: Vec<u64>,
    /// True if it passes `MPI_IN_PLACE`.
    pub in_place: bool,
    /// True if the reduction is commutative.
    pub commutative: bool,
    /// True if the reduction is predefined by MPI.
    pub built_in: bool,
}

impl Call {
    /// Creates a call of a communicator with this many members, by the one with this rank: blocking, without data, with root 0
    /// and a predefined reduction.
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

    /// Sets this many elements of this many bytes.
    pub fn elements(self, count: u64, element: u64) -> Self {
        Self {
            count,
            element,
            ..self
        }
    }

    /// Sets these pieces.
    pub fn pieces(self, sent: Vec<u64>, received: Vec<u64>) -> Self {
        Self {
            sent,
            received,
            ..self
        }
    }

    /// Sets this root.
    pub fn root(self, root: u32) -> Self {
        Self { root, ..self }
    }

    /// Returns the bytes of `count` elements.
    pub fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.element)
    }

    /// Returns the bytes of all members' data together, as defined by decision tables.
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

    /// Returns the rank at this distance after the caller's, modulo the number of members.
    pub(crate) fn after(&self, distance: u32) -> u32 {
        let members = u64::from(self.members.max(1));
        ((u64::from(self.rank) + u64::from(distance)) % members) as u32
    }

    /// Returns the rank at this distance before the caller's, modulo the number of members; at most this number.
    pub(crate) fn before(&self, distance: u32) -> u32 {
        self.after(self.members.saturating_sub(distance))
    }

    /// Returns the caller's rank relative to the root.
    pub(crate) fn relative(&self) -> u32 {
        relative(self.rank, self.root, self.members)
    }

    /// Returns the rank for one relative to the root.
    pub(crate) fn absolute(&self, relative: u32) -> u32 {
        let members = u64::from(self.members.max(1));
        ((u64::from(relative) + u64::from(self.root)) % members) as u32
    }

    /// True if the caller and the root are members.
    pub fn is_sound(&self) -> bool {
        self.rank < self.members && self.root < self.members && self.members <= MOST_MEMBERS
    }
}

/// Most members of a communicator, so that calculations with ranks do not overflow.
pub(crate) const MOST_MEMBERS: u32 = 1 << 24;

/// Returns `rank` relative to `root`, modulo the number of members.
pub(crate) fn relative(rank: u32, root: u32, members: u32) -> u32 {
    if rank >= root {
        rank - root
    } else {
        rank + members.saturating_sub(root)
    }
}
