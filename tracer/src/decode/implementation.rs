//! How MPICH and Open MPI look in a process's memory: handles of predefined objects, statuses.
//!
//! Sources: `mpi.h` of MPICH 4.0 and Open MPI 4.1, whose ABIs are stable. Called by `process` and `arguments` for the implementation that a
//! process told of.

use belljar_trace::{Implementation, Status};

use crate::memory::{BadAddress, Reader};

/// MPICH's `MPI_COMM_WORLD`.
pub(crate) const MPICH_WORLD: u64 = 0x4400_0000;
/// MPICH's `MPI_COMM_SELF`.
pub(crate) const MPICH_SELF: u64 = 0x4400_0001;
/// MPICH's `MPI_COMM_NULL`.
pub(crate) const MPICH_COMM_NULL: u64 = 0x0400_0000;
/// MPICH's `MPI_NO_OP`.
pub(crate) const MPICH_NO_OP: u64 = 0x5800_000e;

/// Bytes from one status of an array to the next.
pub(crate) fn status_size(implementation: Implementation) -> u64 {
    match implementation {
        Implementation::Mpich => 20,
        Implementation::OpenMpi => 24,
    }
}

/// Reads a status.
pub(crate) fn status(
    implementation: Implementation,
    at: u64,
    memory: Reader<'_>,
) -> Result<Status, BadAddress> {
    let mut bytes = [0; 24];
    let bytes = &mut bytes[..status_size(implementation) as usize];
    memory.0.read(at, bytes)?;
    let word = |index: usize| {
        let at = 4 * index;
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    Ok(match implementation {
        // count_lo, count_hi_and_cancelled, source, tag, error
        Implementation::Mpich => Status {
            source: implementation.peer(word(2).cast_signed()),
            tag: word(3).cast_signed(),
            bytes: u64::from(word(0)) | u64::from(word(1) >> 1) << 32,
            cancelled: word(1) & 1 != 0,
            observed: false,
        },
        // source, tag, error, cancelled, count (64 bits)
        Implementation::OpenMpi => Status {
            source: implementation.peer(word(0).cast_signed()),
            tag: word(1).cast_signed(),
            bytes: u64::from(word(4)) | u64::from(word(5)) << 32,
            cancelled: word(3) != 0,
            observed: false,
        },
    })
}

/// Reads the `MPI_ERROR` of the status at `at`.
pub(crate) fn status_error(
    implementation: Implementation,
    at: u64,
    memory: Reader<'_>,
) -> Result<i32, BadAddress> {
    let offset = match implementation {
        Implementation::Mpich => 16,
        Implementation::OpenMpi => 8,
    };
    let at = at.checked_add(offset).ok_or(BadAddress(at))?;
    let mut bytes = [0; 4];
    memory.0.read(at, &mut bytes)?;
    Ok(i32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GuestMemory;
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
        assert_eq!(read, Ok(expected));
        let open_mpi = words(&[3, 7, 0, 1, 0x10, 2]);
        let read = super::status(Implementation::OpenMpi, 0, Reader(&open_mpi));
        assert_eq!(read, Ok(expected));
    }
}
