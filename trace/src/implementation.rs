//! MPI implementations, and the meaning of numbers in each: ranks, tags, addresses, results.
//!
//! Sources: `mpi.h` of MPICH 4.0 and Open MPI 4.1, whose ABIs are stable, and `mpi_abi.h` of MPI 5.0. Argument words and results of events
//! are in the implementation's own numbers. Used by tracers to decode calls, and by analyses.

/// Predefined handles of the standard ABI.
pub mod standard_abi;

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// `MPI_UNDEFINED` in an argument, the same in all implementations.
pub const UNDEFINED: i64 = -32766;

/// The bits of an MPICH error code that hold its class.
const MPICH_CLASS: i64 = 0x7f;

/// The binary interface between a process and its MPI library; it determines the layout of handles, constants and statuses in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize)]
pub enum Implementation {
    /// MPICH's interface, shared by its derivatives: handles are 32-bit integers.
    Mpich,
    /// Open MPI's interface: handles are addresses of objects.
    OpenMpi,
    /// The standard ABI of MPI 5.0 (`mpi_abi.h`) of this library: handles are constants or the library's pointers.
    StandardAbi(MpiLibrary),
}

/// The library that executes a process's calls, regardless of its binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize)]
pub enum MpiLibrary {
    /// MPICH or one of its derivatives.
    Mpich,
    /// Open MPI.
    OpenMpi,
    /// A library that the tracer does not know.
    Unknown,
}

impl Implementation {
    /// Returns the number of the implementation in a trace.
    pub fn number(self) -> u32 {
        match self {
            Self::Mpich => 0,
            Self::OpenMpi => 1,
            Self::StandardAbi(MpiLibrary::Mpich) => 2,
            Self::StandardAbi(MpiLibrary::OpenMpi) => 3,
            Self::StandardAbi(MpiLibrary::Unknown) => 4,
        }
    }

    /// Returns the implementation with this number in a trace.
    pub fn of_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Mpich,
            1 => Self::OpenMpi,
            2 => Self::StandardAbi(MpiLibrary::Mpich),
            3 => Self::StandardAbi(MpiLibrary::OpenMpi),
            4 => Self::StandardAbi(MpiLibrary::Unknown),
            _ => return None,
        })
    }

    /// Returns the library that executes the calls.
    pub fn library(self) -> MpiLibrary {
        match self {
            Self::Mpich => MpiLibrary::Mpich,
            Self::OpenMpi => MpiLibrary::OpenMpi,
            Self::StandardAbi(library) => library,
        }
    }

    /// Returns the bytes of a handle.
    pub fn handle_width(self) -> u8 {
        match self {
            Self::Mpich => 4,
            Self::OpenMpi | Self::StandardAbi(_) => 8,
        }
    }

    /// Interprets a rank argument.
    pub fn peer(self, rank: i32) -> Peer {
        if let Ok(rank) = u32::try_from(rank) {
            return Peer::Rank(rank);
        }
        let [any, null, root] = match self {
            Self::Mpich => [-2, -1, -3],
            Self::OpenMpi => [-1, -2, -4],
            Self::StandardAbi(_) => [-1, -3, -4],
        };
        match rank {
            _ if rank == any => Peer::Any,
            _ if rank == null => Peer::Null,
            _ if rank == root => Peer::Root,
            _ => Peer::Invalid(rank),
        }
    }

    /// Interprets a tag argument; `None` is `MPI_ANY_TAG`.
    pub fn tag(self, tag: i32) -> Option<i32> {
        let any = match self {
            Self::Mpich | Self::OpenMpi => -1,
            Self::StandardAbi(_) => -2,
        };
        (tag != any).then_some(tag)
    }

    /// True if a buffer is `MPI_IN_PLACE`.
    pub fn in_place(self, buffer: u64) -> bool {
        match self {
            Self::Mpich => buffer == u64::MAX,
            Self::OpenMpi | Self::StandardAbi(_) => buffer == 1,
        }
    }

    /// True if a pointer is `MPI_STATUS_IGNORE` or `MPI_STATUSES_IGNORE`.
    pub fn ignores_status(self, pointer: u64) -> bool {
        match self {
            Self::Mpich => pointer == 1 || pointer == 0,
            Self::OpenMpi | Self::StandardAbi(_) => pointer == 0,
        }
    }

    /// Returns `MPI_MODE_NOCHECK`, an assertion of calls on windows.
    pub fn mode_no_check(self) -> i32 {
        match self {
            Self::Mpich | Self::StandardAbi(_) => 1024,
            Self::OpenMpi => 1,
        }
    }

    /// Returns `MPI_LOCK_SHARED`, a type of locks of windows.
    pub fn lock_shared(self) -> i32 {
        match self {
            Self::Mpich => 235,
            Self::OpenMpi => 2,
            Self::StandardAbi(_) => 302,
        }
    }

    /// Returns `MPI_COMM_TYPE_SHARED`, which splits communicators by node.
    pub fn comm_type_shared(self) -> i32 {
        match self {
            Self::Mpich => 1,
            Self::OpenMpi => 0,
            Self::StandardAbi(_) => 221,
        }
    }

    /// Returns the class of an error code, by its number in the implementation's header. Open MPI's predefined codes equal their classes;
    /// MPICH adds bits to them under both of its interfaces.
    fn class(self, code: i64) -> i64 {
        match self.library() {
            MpiLibrary::Mpich => code & MPICH_CLASS,
            MpiLibrary::OpenMpi | MpiLibrary::Unknown => code,
        }
    }

    /// True if a result is `MPI_ERR_IN_STATUS`: some of several operations failed, the others completed or are in progress.
    pub fn is_error_in_status(self, result: i64) -> bool {
        let class = self.class(result);
        match self {
            Self::Mpich => class == 17,
            Self::OpenMpi => class == 18,
            Self::StandardAbi(_) => class == 19,
        }
    }

    /// True if a status's error is `MPI_ERR_PENDING`: its operation neither failed nor completed.
    pub fn is_pending(self, error: i32) -> bool {
        let class = self.class(error.into());
        match self {
            Self::Mpich | Self::StandardAbi(_) => class == 18,
            Self::OpenMpi => class == 19,
        }
    }

    /// True if the call rejected its arguments (`MPI_ERR_REQUEST`, `MPI_ERR_ARG`) and so did not touch its requests.
    pub fn refused_arguments(self, result: i64) -> bool {
        let class = self.class(result);
        match self {
            Self::Mpich => class == 19 || class == 12,
            Self::OpenMpi | Self::StandardAbi(_) => class == 7 || class == 13,
        }
    }
}

/// The peer of a message, or the root of a collective operation.
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
    /// A number without a meaning.
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

    #[test]
    fn numbers_in_traces_come_back() {
        let all: Vec<Implementation> = (0..9).filter_map(Implementation::of_number).collect();
        assert_eq!(all.len(), 5);
        for (number, implementation) in (0..).zip(all) {
            assert_eq!(implementation.number(), number);
        }
        assert_eq!(Implementation::of_number(5), None);
        assert_eq!(Implementation::of_number(u32::MAX), None);
    }
}
