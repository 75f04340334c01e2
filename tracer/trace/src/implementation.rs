//! MPI implementations, and what numbers mean in each: ranks, tags, addresses, results.
//!
//! Sources: `mpi.h` of MPICH 4.0 and Open MPI 4.1, whose ABIs are stable. Argument words and results of events
//! are in the implementation's own numbers. Called by tracers for what they decode, and by analyses.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// `MPI_UNDEFINED` in an argument: alike in MPICH and Open MPI.
pub const UNDEFINED: i64 = -32766;

/// The bits of an MPICH error code that hold its class.
const MPICH_CLASS: i64 = 0x7f;

/// Which MPI implementation a process runs; it decides how handles, constants and
/// statuses look in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize)]
pub enum Implementation {
    /// MPICH and its derivatives: handles are 32-bit integers.
    Mpich,
    /// Open MPI: handles are addresses of objects.
    OpenMpi,
}

impl Implementation {
    /// Bytes of a handle.
    pub fn handle_width(self) -> u8 {
        match self {
            Self::Mpich => 4,
            Self::OpenMpi => 8,
        }
    }

    /// What a rank argument means.
    pub fn peer(self, rank: i32) -> Peer {
        match (u32::try_from(rank), self, rank) {
            (Ok(rank), _, _) => Peer::Rank(rank),
            (_, Self::Mpich, -1) | (_, Self::OpenMpi, -2) => Peer::Null,
            (_, Self::Mpich, -2) | (_, Self::OpenMpi, -1) => Peer::Any,
            (_, Self::Mpich, -3) | (_, Self::OpenMpi, -4) => Peer::Root,
            _ => Peer::Invalid(rank),
        }
    }

    /// What a tag argument means; `None` is `MPI_ANY_TAG`.
    pub fn tag(self, tag: i32) -> Option<i32> {
        (tag != -1).then_some(tag)
    }

    /// Whether a buffer is `MPI_IN_PLACE`.
    pub fn in_place(self, buffer: u64) -> bool {
        match self {
            Self::Mpich => buffer == u64::MAX,
            Self::OpenMpi => buffer == 1,
        }
    }

    /// Whether a pointer is `MPI_STATUS_IGNORE` or `MPI_STATUSES_IGNORE`.
    pub fn ignores_status(self, pointer: u64) -> bool {
        match self {
            Self::Mpich => pointer == 1 || pointer == 0,
            Self::OpenMpi => pointer == 0,
        }
    }

    /// The class of an error code, by its number in the implementation's `mpi.h`. Predefined
    /// codes of Open MPI are their classes.
    fn class(self, code: i64) -> i64 {
        match self {
            Self::Mpich => code & MPICH_CLASS,
            Self::OpenMpi => code,
        }
    }

    /// Whether a result is `MPI_ERR_IN_STATUS`: some of several operations failed, the
    /// others completed or are under way.
    pub fn is_error_in_status(self, result: i64) -> bool {
        let class = self.class(result);
        match self {
            Self::Mpich => class == 17,
            Self::OpenMpi => class == 18,
        }
    }

    /// Whether a status's error is `MPI_ERR_PENDING`: its operation neither failed nor completed.
    pub fn is_pending(self, error: i32) -> bool {
        let class = self.class(error.into());
        match self {
            Self::Mpich => class == 18,
            Self::OpenMpi => class == 19,
        }
    }

    /// Whether a result says that the call refused its arguments (`MPI_ERR_REQUEST`,
    /// `MPI_ERR_ARG`): then it did nothing to its requests.
    pub fn refused_arguments(self, result: i64) -> bool {
        let class = self.class(result);
        match self {
            Self::Mpich => class == 19 || class == 12,
            Self::OpenMpi => class == 7 || class == 13,
        }
    }
}

/// The other side of a message, or the root of a collective operation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
pub enum Peer {
    /// A rank in the communicator: in its remote group if it is an intercommunicator.
    Rank(u32),
    /// `MPI_ANY_SOURCE`.
    Any,
    /// `MPI_PROC_NULL`.
    Null,
    /// `MPI_ROOT`: this process is the root of an intercommunicator's operation.
    Root,
    /// A number that means nothing.
    Invalid(i32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_ranks_differ_between_implementations() {
        let (mpich, open_mpi) = (Implementation::Mpich, Implementation::OpenMpi);
        assert_eq!((mpich.peer(-1), open_mpi.peer(-1)), (Peer::Null, Peer::Any));
        assert_eq!((mpich.peer(-2), open_mpi.peer(-2)), (Peer::Any, Peer::Null));
        assert_eq!(mpich.peer(-3), Peer::Root);
        assert_eq!(open_mpi.peer(-4), Peer::Root);
        assert_eq!(mpich.peer(-4), Peer::Invalid(-4));
    }
}
