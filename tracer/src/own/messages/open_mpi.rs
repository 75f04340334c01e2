//! Messages of Open MPI 4: communicators, groups and datatypes in its memory.
//!
//! Offsets are those of 64-bit builds without debugging, as in distributions. Other layouts are detected, as a communicator and its group
//! have to agree on the caller's rank: then the message's sides are missing. Used for calls of ob1's sends.

use super::MessageFields;
use crate::guest::memory::{BadAddress, Reader};
use crate::guest::registers::{ARGUMENT_REGISTERS, MagicRegisters, RSP};

/// `MCA_PML_BASE_SEND_BUFFERED`.
pub(super) const BUFFERED: u32 = 1;

/// Offsets in `ompi_communicator_t`: `c_contextid` and `c_my_rank`, `c_local_group`, `c_remote_group`.
const CONTEXT: u64 = 224;
const LOCAL_GROUP: u64 = 248;
const REMOTE_GROUP: u64 = 256;

/// Offsets in `ompi_group_t`: `grp_proc_count` and `grp_my_rank`, `grp_proc_pointers`.
const COUNTS: u64 = 16;
const PROCESSES: u64 = 32;

/// Offset in `opal_proc_t`: `proc_name`, which is a job's number and a rank in it.
const NAME: u64 = 40;

/// Offset in `opal_datatype_t`: `size`.
const SIZE: u64 = 24;

/// Returns the message of `mca_pml_ob1_send(buf, count, datatype, dst, tag, mode, comm)`, or `isend`, which has a request after these.
pub(super) fn message(registers: &MagicRegisters, memory: Reader<'_>) -> MessageFields {
    let argument = |number: usize| registers.gpr[ARGUMENT_REGISTERS[number]];
    let size = memory.u64(argument(2).wrapping_add(SIZE)).ok();
    let told = sides(registers, memory, argument(3) as u32).ok().flatten();
    MessageFields {
        from: told.map(|(_, from, _)| from),
        to: told.map(|(_, _, to)| to),
        context: told.map(|(context, ..)| context.into()),
        tag: Some(argument(4)),
        bytes: size.and_then(|size| size.checked_mul(argument(1))),
    }
}

/// Returns the communicator's number, and the names of the caller and of rank `to` there.
fn sides(
    registers: &MagicRegisters,
    memory: Reader<'_>,
    to: u32,
) -> Result<Option<(u32, u64, u64)>, BadAddress> {
    // The seventh argument is above the return address.
    let communicator = memory.u64(registers.gpr[RSP].wrapping_add(8))?;
    let field = |offset: u64| memory.u64(communicator.wrapping_add(offset));
    let (context, rank) = halves(field(CONTEXT)?);
    let (local, remote) = (field(LOCAL_GROUP)?, field(REMOTE_GROUP)?);
    let (size, own) = halves(memory.u64(local.wrapping_add(COUNTS))?);
    let (peers, _) = halves(memory.u64(remote.wrapping_add(COUNTS))?);
    if own != rank || rank >= size || to >= peers {
        return Ok(None);
    }
    let (from, to) = (name(local, rank, memory)?, name(remote, to, memory)?);
    Ok(Some((context, from, to)))
}

/// Returns the name of a rank of a group: the job's number, and the rank in that job.
fn name(group: u64, rank: u32, memory: Reader<'_>) -> Result<u64, BadAddress> {
    let processes = memory.u64(group.wrapping_add(PROCESSES))?;
    let process = memory.u64(processes.wrapping_add(8 * u64::from(rank)))?;
    let (job, rank) = match process & 1 {
        0 => halves(memory.u64(process.wrapping_add(NAME))?),
        // A peer without communication so far is represented by its name (`ompi_proc_sentinel_to_name`).
        _ => {
            let family = process as u32 & 0xffff_0000;
            (
                family | process as u32 >> 1 & 0x7fff,
                (process >> 32) as u32,
            )
        }
    };
    Ok(u64::from(job) << 32 | u64::from(rank))
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}
