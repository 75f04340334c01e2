//! Return addresses on the guest's stacks that are replaced by the preloaded library's, for hosts that cannot watch
//! return addresses.
//!
//! The original addresses are meanwhile in a table of the process (`belljar_abi::PENDING_OFFSET`), where the library's
//! unwind information finds them for unwinders, debuggers, exceptions and cancellation. The tracer uses its own
//! records, and the table only for calls that it dropped: a process that changes the table only harms itself. After a
//! fork, a page of the table is shared until the process itself writes to it, which the library's search does. Used for
//! calls through the library.

use belljar_abi::{
    PENDING_BUCKET_SHIFT, RESOLVER_SIZE, RESOLVERS_OFFSET, RETURN_ADDRESS, RETURN_OFFSET,
    STUB_BASE, pending_bucket,
};

use crate::guest::memory::{BadAddress, GuestMemory, Reader};

const PAIR: u64 = 16;
const PAIRS: u64 = (1 << PENDING_BUCKET_SHIFT) / PAIR;

/// Returns the replacement of return addresses in this process.
pub(crate) fn replacement(memory: &dyn GuestMemory) -> u64 {
    match Reader(memory).u64(STUB_BASE + RETURN_OFFSET) {
        Ok(0) | Err(_) => RETURN_ADDRESS,
        Ok(address) => address,
    }
}

/// Replaces the return address at `slot`, and describes it to unwinders if the table is present. Returns the original
/// address.
pub(crate) fn replace(slot: u64, memory: &mut dyn GuestMemory) -> Result<u64, BadAddress> {
    let address = Reader(memory).u64(slot)?;
    let by = replacement(memory);
    let stack = slot.wrapping_add(8);
    if let Ok(pair) = pair_for(stack, memory)
        // The address is written first, so that a pair with a stack pointer always has its address.
        && memory.write(pair + 8, &address.to_le_bytes()).is_ok()
    {
        // It was writable just before.
        let _ = memory.write(pair, &stack.to_le_bytes());
    }
    memory.write(slot, &by.to_le_bytes())?;
    Ok(address)
}

/// Frees the pair of the call that has returned to stack pointer `stack`. Returns the address in the process's pair, if
/// there is one.
pub(crate) fn forget(stack: u64, memory: &mut dyn GuestMemory) -> Option<u64> {
    let pair = pair_for(stack, memory).ok()?;
    if Reader(memory).u64(pair) != Ok(stack) {
        return None;
    }
    let address = Reader(memory).u64(pair + 8).ok();
    // If it cannot be written, it remains until a call at the same place.
    let _ = memory.write(pair, &0_u64.to_le_bytes());
    address
}

/// Returns the address of the pair of `stack`, or of one to use for it. That is a free one, or the pair of a call that
/// was left by a jump, as no thread has that many open calls.
fn pair_for(stack: u64, memory: &dyn GuestMemory) -> Result<u64, BadAddress> {
    let bucket = pending_bucket(stack);
    let mut free = None;
    for pair in (0..PAIRS).map(|pair| bucket + PAIR * pair) {
        match Reader(memory).u64(pair)? {
            found if found == stack => return Ok(pair),
            0 => free = free.or(Some(pair)),
            _ => {}
        }
    }
    Ok(free.unwrap_or(bucket + stack / 16 % PAIRS * PAIR))
}

/// Returns the address through which `operation`, which will return to `stack`, must pass first so that its process
/// gets a private copy of the table. `None` if it has one, and if there is no library that could create it.
pub(crate) fn detour(operation: u64, stack: u64, memory: &mut dyn GuestMemory) -> Option<u64> {
    let bucket = pending_bucket(stack);
    let word = Reader(memory).u64(bucket).unwrap_or(0);
    if memory.write(bucket, &word.to_le_bytes()).is_ok() {
        return None;
    }
    let resolvers = Reader(memory).u64(STUB_BASE + RESOLVERS_OFFSET).ok()?;
    (resolvers != 0).then(|| resolvers.wrapping_add(operation.wrapping_mul(RESOLVER_SIZE)))
}
