//! Layouts of MPICH, Open MPI and the standard ABI in a process's memory: handles of predefined objects, statuses.
//!
//! Sources: `mpi.h` of MPICH 4.0 and Open MPI 4.1, whose ABIs are stable, and `mpi_abi.h` of MPI 5.0. The standard leaves the position of the
//! count in a status to the library, so a status of an unknown library is not read. Used by `process` and `arguments` for a process's
//! implementation.

use belljar_trace::{Implementation, MpiLibrary, Status, standard_abi};

use crate::guest::memory::{BadAddress, Reader};

/// MPICH's `MPI_COMM_WORLD`.
const MPICH_WORLD: u64 = 0x4400_0000;
/// MPICH's `MPI_COMM_SELF`.
const MPICH_SELF: u64 = 0x4400_0001;
/// MPICH's `MPI_COMM_NULL`.
pub(crate) const MPICH_COMM_NULL: u64 = 0x0400_0000;
/// MPICH's `MPI_NO_OP`.
const MPICH_NO_OP: u64 = 0x5800_000e;

/// `MPI_ANY_TAG` in a recorded status, as returned by a receive from `MPI_PROC_NULL`.
const ANY_TAG: i32 = -1;

/// Handles of predefined objects that are the same in all processes.
pub(crate) struct Constants {
    /// `MPI_COMM_WORLD`, `MPI_COMM_SELF` and `MPI_COMM_NULL`.
    pub(crate) communicators: [u64; 3],
    /// `MPI_NO_OP`.
    pub(crate) no_op: u64,
}

/// Returns the constants of an implementation; `None` for Open MPI, whose handles are addresses.
pub(crate) fn constants(implementation: Implementation) -> Option<Constants> {
    match implementation {
        Implementation::Mpich => Some(Constants {
            communicators: [MPICH_WORLD, MPICH_SELF, MPICH_COMM_NULL],
            no_op: MPICH_NO_OP,
        }),
        Implementation::OpenMpi => None,
        Implementation::StandardAbi(_) => Some(Constants {
            communicators: [
                standard_abi::COMM_WORLD,
                standard_abi::COMM_SELF,
                standard_abi::COMM_NULL,
            ],
            no_op: standard_abi::NO_OP,
        }),
    }
}

/// Returns the bytes from one status of an array to the next.
pub(crate) fn status_size(implementation: Implementation) -> u64 {
    match implementation {
        Implementation::Mpich => 20,
        Implementation::OpenMpi => 24,
        Implementation::StandardAbi(_) => 32,
    }
}

/// Reads a status; `None` if the position of the count is unknown.
pub(crate) fn status(
    implementation: Implementation,
    at: u64,
    memory: Reader<'_>,
) -> Result<Option<Status>, BadAddress> {
    let mut bytes = [0; 32];
    let bytes = &mut bytes[..status_size(implementation) as usize];
    memory.0.read(at, bytes)?;
    let word = |index: usize| {
        let at = 4 * index;
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    // Source and tag, then MPICH's count_lo and count_hi_and_cancelled, or Open MPI's cancelled and count (64 bits).
    let (source, library) = match implementation {
        Implementation::Mpich => (2, 0),
        Implementation::OpenMpi | Implementation::StandardAbi(_) => (0, 3),
    };
    let (bytes, cancelled) = match implementation.library() {
        MpiLibrary::Mpich => {
            let [low, high] = [word(library), word(library + 1)];
            (u64::from(low) | u64::from(high >> 1) << 32, high & 1 != 0)
        }
        MpiLibrary::OpenMpi => {
            let [low, high] = [word(library + 1), word(library + 2)];
            (u64::from(low) | u64::from(high) << 32, word(library) != 0)
        }
        MpiLibrary::Unknown => return Ok(None),
    };
    let tag = word(source + 1).cast_signed();
    Ok(Some(Status {
        source: implementation.peer(word(source).cast_signed()),
        tag: implementation.tag(tag).unwrap_or(ANY_TAG),
        bytes,
        cancelled,
        observed: false,
    }))
}

/// Reads the `MPI_ERROR` of the status at `at`.
pub(crate) fn status_error(
    implementation: Implementation,
    at: u64,
    memory: Reader<'_>,
) -> Result<i32, BadAddress> {
    let offset = match implementation {
        Implementation::Mpich => 16,
        Implementation::OpenMpi | Implementation::StandardAbi(_) => 8,
    };
    let at = at.checked_add(offset).ok_or(BadAddress(at))?;
    let mut bytes = [0; 4];
    memory.0.read(at, &mut bytes)?;
    Ok(i32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::memory::GuestMemory;
    use belljar_trace::Peer;

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
            observed: false,
            source: Peer::Rank(3),
            tag: 7,
            bytes: 0x2_0000_0010,
            cancelled: true,
        };
        let mpich = words(&[0x10, 2 << 1 | 1, 3, 7, 0]);
        let read = super::status(Implementation::Mpich, 0, Reader(&mpich));
        assert_eq!(read, Ok(Some(expected)));
        let open_mpi = words(&[3, 7, 0, 1, 0x10, 2]);
        let read = super::status(Implementation::OpenMpi, 0, Reader(&open_mpi));
        assert_eq!(read, Ok(Some(expected)));
        let of = |library, words: &[u32]| {
            let bytes = self::words(words);
            super::status(Implementation::StandardAbi(library), 0, Reader(&bytes))
        };
        let mpich = [3, 7, 0, 0x10, 2 << 1 | 1, 9, 9, 9];
        assert_eq!(of(MpiLibrary::Mpich, &mpich), Ok(Some(expected)));
        let open_mpi = [3, 7, 0, 1, 0x10, 2, 9, 9];
        assert_eq!(of(MpiLibrary::OpenMpi, &open_mpi), Ok(Some(expected)));
        assert_eq!(of(MpiLibrary::Unknown, &mpich), Ok(None));
        assert_eq!(of(MpiLibrary::Mpich, &mpich[..7]), Err(BadAddress(0)));
    }
}
