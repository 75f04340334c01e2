//! How MPICH and Open MPI look from outside: constants, handles, statuses.
//!
//! Sources: `mpi.h` of MPICH 4.0 and Open MPI 4.1, whose ABIs are stable. Constants and layouts in memory
//! that differ between the two are here. Called by `process` and `arguments` for the implementation that a
//! process told of.

use crate::event::{Implementation, Peer, Status};
use crate::memory::{BadAddress, Reader};

/// `MPI_UNDEFINED`, alike in both.
pub(crate) const UNDEFINED: i64 = -32766;

/// MPICH's `MPI_COMM_WORLD`.
pub(crate) const MPICH_WORLD: u64 = 0x4400_0000;
/// MPICH's `MPI_COMM_SELF`.
pub(crate) const MPICH_SELF: u64 = 0x4400_0001;
/// MPICH's `MPI_COMM_NULL`.
pub(crate) const MPICH_COMM_NULL: u64 = 0x0400_0000;
/// MPICH's `MPI_NO_OP`.
pub(crate) const MPICH_NO_OP: u64 = 0x5800_000e;

/// The bits of an MPICH error code that hold its class.
const MPICH_CLASS: i64 = 0x7f;

impl Implementation {
    /// Bytes of a handle.
    pub(crate) fn handle_width(self) -> u8 {
        match self {
            Self::Mpich => 4,
            Self::OpenMpi => 8,
        }
    }

    /// What a rank argument means.
    pub(crate) fn peer(self, rank: i32) -> Peer {
        match (u32::try_from(rank), self, rank) {
            (Ok(rank), _, _) => Peer::Rank(rank),
            (_, Self::Mpich, -1) | (_, Self::OpenMpi, -2) => Peer::Null,
            (_, Self::Mpich, -2) | (_, Self::OpenMpi, -1) => Peer::Any,
            (_, Self::Mpich, -3) | (_, Self::OpenMpi, -4) => Peer::Root,
            _ => Peer::Invalid(rank),
        }
    }

    /// What a tag argument means; `None` is `MPI_ANY_TAG`.
    pub(crate) fn tag(self, tag: i32) -> Option<i32> {
        (tag != -1).then_some(tag)
    }

    /// Whether a buffer is `MPI_IN_PLACE`.
    pub(crate) fn in_place(self, buffer: u64) -> bool {
        match self {
            Self::Mpich => buffer == u64::MAX,
            Self::OpenMpi => buffer == 1,
        }
    }

    /// Whether a pointer is `MPI_STATUS_IGNORE` or `MPI_STATUSES_IGNORE`.
    pub(crate) fn ignores_status(self, pointer: u64) -> bool {
        match self {
            Self::Mpich => pointer == 1 || pointer == 0,
            Self::OpenMpi => pointer == 0,
        }
    }

    /// Bytes from one status of an array to the next.
    pub(crate) fn status_size(self) -> u64 {
        match self {
            Self::Mpich => 20,
            Self::OpenMpi => 24,
        }
    }

    /// Reads a status.
    pub(crate) fn status(self, at: u64, memory: Reader<'_>) -> Result<Status, BadAddress> {
        let mut bytes = [0; 24];
        let bytes = &mut bytes[..self.status_size() as usize];
        memory.0.read(at, bytes)?;
        let word = |index: usize| {
            let at = 4 * index;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Ok(match self {
            // count_lo, count_hi_and_cancelled, source, tag, error
            Self::Mpich => Status {
                source: self.peer(word(2).cast_signed()),
                tag: word(3).cast_signed(),
                bytes: u64::from(word(0)) | u64::from(word(1) >> 1) << 32,
                cancelled: word(1) & 1 != 0,
            },
            // source, tag, error, cancelled, count (64 bits)
            Self::OpenMpi => Status {
                source: self.peer(word(0).cast_signed()),
                tag: word(1).cast_signed(),
                bytes: u64::from(word(4)) | u64::from(word(5)) << 32,
                cancelled: word(3) != 0,
            },
        })
    }

    /// Reads the `MPI_ERROR` of the status at `at`.
    pub(crate) fn status_error(self, at: u64, memory: Reader<'_>) -> Result<i32, BadAddress> {
        let offset = match self {
            Self::Mpich => 16,
            Self::OpenMpi => 8,
        };
        let at = at.checked_add(offset).ok_or(BadAddress(at))?;
        let mut bytes = [0; 4];
        memory.0.read(at, &mut bytes)?;
        Ok(i32::from_le_bytes(bytes))
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
    pub(crate) fn is_error_in_status(self, result: i64) -> bool {
        let class = self.class(result);
        match self {
            Self::Mpich => class == 17,
            Self::OpenMpi => class == 18,
        }
    }

    /// Whether a status's error is `MPI_ERR_PENDING`: its operation neither failed nor completed.
    pub(crate) fn is_pending(self, error: i32) -> bool {
        let class = self.class(error.into());
        match self {
            Self::Mpich => class == 18,
            Self::OpenMpi => class == 19,
        }
    }

    /// Whether a result says that the call refused its arguments (`MPI_ERR_REQUEST`,
    /// `MPI_ERR_ARG`): then it did nothing to its requests.
    pub(crate) fn refused_arguments(self, result: i64) -> bool {
        let class = self.class(result);
        match self {
            Self::Mpich => class == 19 || class == 12,
            Self::OpenMpi => class == 7 || class == 13,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GuestMemory;

    struct Bytes(Vec<u8>);

    impl GuestMemory for Bytes {
        fn read(&self, linear: u64, into: &mut [u8]) -> Result<(), BadAddress> {
            let from = linear as usize;
            let bytes = self.0.get(from..from + into.len());
            into.copy_from_slice(bytes.ok_or(BadAddress(linear))?);
            Ok(())
        }
        fn write(&mut self, linear: u64, _: &[u8]) -> Result<(), BadAddress> {
            Err(BadAddress(linear))
        }
    }

    fn words(words: &[u32]) -> Bytes {
        Bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    #[test]
    fn statuses_of_more_than_four_gigabytes_are_read() {
        let expected = Status {
            source: Peer::Rank(3),
            tag: 7,
            bytes: 0x2_0000_0010,
            cancelled: true,
        };
        let mpich = words(&[0x10, 2 << 1 | 1, 3, 7, 0]);
        let read = Implementation::Mpich.status(0, Reader(&mpich));
        assert_eq!(read, Ok(expected));
        let open_mpi = words(&[3, 7, 0, 1, 0x10, 2]);
        let read = Implementation::OpenMpi.status(0, Reader(&open_mpi));
        assert_eq!(read, Ok(expected));
    }

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
