//! What launchers tell of the processes that they start, as PMI, PMIx and Open MPI have it.
//!
//! Most of it is in the environment, which stands on the stack of a process at its first
//! instruction. MPICH asks its launcher for the job's name while it initializes itself, and keeps
//! it. Called by the tracer when a process begins and when it has initialized MPI.

use bincode::{Decode, Encode};

use crate::memory::{BadAddress, GuestMemory, Reader};
use crate::object::JobIdentity;
use crate::targets::Library;

/// Most arguments, and most variables of an environment, that are gone through.
const MOST_WORDS: u64 = 1 << 14;
/// Bytes of a library's data that are searched at most.
const MOST_DATA: u64 = 8 << 20;
const PAGE: u64 = 4096;
/// What the names begin with that Hydra gives to jobs.
const HYDRA: &[u8; 4] = b"kvs_";

/// Variables that tell a process's rank, its job's size, and its job's name: those of PMI, of Open
/// MPI, and of PMIx.
const RANK: [&str; 3] = ["PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"];
const SIZE: [&str; 2] = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"];
const NAME: [&str; 2] = ["PMIX_NAMESPACE", "PMI_JOBID"];

/// A process that a launcher started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Launched {
    pub(crate) rank: u32,
    pub(crate) job: JobIdentity,
    /// The program's name, as it was started.
    pub(crate) program: String,
}

/// What the environment tells of a process that is at its first instruction, where its `stack`
/// is as the kernel made it (System V ABI, 3.4.1): the number of arguments, each argument's
/// address, zero, each variable's address, zero. `None` when no launcher started it.
///
/// # Errors
/// When the stack can't be read.
pub(crate) fn launched(stack: u64, memory: Reader<'_>) -> Result<Option<Launched>, BadAddress> {
    let arguments = memory.u64(stack)?.min(MOST_WORDS);
    let word = |index: u64| memory.u64(stack.wrapping_add(8 * index));
    let (mut rank, mut size, mut name) = (None, None, None);
    for index in 0..MOST_WORDS {
        let entry = word(arguments + 2 + index)?;
        if entry == 0 {
            break;
        }
        let Ok(text) = memory.text(entry) else {
            continue;
        };
        let Some((variable, value)) = text.split_once('=') else {
            continue;
        };
        if RANK.contains(&variable) {
            rank = rank.or(value.parse().ok());
        } else if SIZE.contains(&variable) {
            size = size.or(value.parse().ok());
        } else if NAME.contains(&variable) {
            name = name.or(Some(value.to_owned()));
        }
    }
    let Some(rank) = rank else {
        return Ok(None);
    };
    let program = word(1).and_then(|at| memory.text(at)).unwrap_or_default();
    let name = name.unwrap_or_default();
    let job = JobIdentity { name, size };
    Ok(Some(Launched { rank, job, program }))
}

/// The name that MPICH was told of its job by Hydra, from the data of its `library`, mapped at
/// `base`, once it is initialized; and where in the data it was. It is looked for at `known`
/// first, and else wherever there is a pointer to such a name.
pub(crate) fn hydra_name(
    library: &Library,
    base: u64,
    known: Option<u64>,
    memory: &dyn GuestMemory,
) -> Option<(u64, String)> {
    let name_at = |slot: u64, pointer: u64| {
        let mut start = [0; 4];
        memory.read(pointer, &mut start).ok()?;
        let name = (start == *HYDRA).then(|| Reader(memory).text(pointer).ok());
        Some((slot, name.flatten()?))
    };
    if let Some(slot) = known {
        let pointer = Reader(memory).u64(base.wrapping_add(slot)).ok()?;
        return name_at(slot, pointer);
    }
    let end = library
        .data
        .end
        .min(library.data.start.saturating_add(MOST_DATA));
    let mut page = [0; PAGE as usize];
    (library.data.start / PAGE..end.div_ceil(PAGE)).find_map(|number| {
        memory
            .read(base.wrapping_add(number * PAGE), &mut page)
            .ok()?;
        let words = (0u64..).zip(page.as_chunks::<8>().0);
        words
            .map(|(index, bytes)| (number * PAGE + 8 * index, u64::from_le_bytes(*bytes)))
            // What is allocated is aligned to 16 bytes, in the lower half of the addresses.
            .filter(|(_, pointer)| *pointer >= PAGE && pointer % 16 == 0 && pointer >> 47 == 0)
            .find_map(|(slot, pointer)| name_at(slot, pointer))
    })
}
