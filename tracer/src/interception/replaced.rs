//! Return addresses on the guest's stacks that are replaced by the preloaded library's, so that a
//! return is seen: for hosts that cannot watch return addresses.
//!
//! What was replaced stands in a table of the process meanwhile (`belljar_abi::PENDING_OFFSET`),
//! where the library's unwind information finds it for unwinders, debuggers, exceptions and
//! cancellation. The tracer goes by its own books, and by the table only for calls
//! that it had to drop: a process that changes it harms itself alone.
//! After a fork a page of the table is shared until the process itself writes to it, which the
//! library's search does. Called for calls through the library.

use belljar_abi::{
    PENDING_BUCKET_SHIFT, RESOLVER_SIZE, RESOLVERS_OFFSET, RETURN_ADDRESS, RETURN_OFFSET,
    STUB_BASE, pending_bucket,
};

use crate::memory::{BadAddress, GuestMemory, Reader};

const PAIR: u64 = 16;
const PAIRS: u64 = (1 << PENDING_BUCKET_SHIFT) / PAIR;

/// What replaces return addresses in this process.
pub(crate) fn replacement(memory: &dyn GuestMemory) -> u64 {
    match Reader(memory).u64(STUB_BASE + RETURN_OFFSET) {
        Ok(0) | Err(_) => RETURN_ADDRESS,
        Ok(address) => address,
    }
}

/// Replaces the return address at `slot`, and describes it to unwinders where the table is there.
/// Returns what it was.
pub(crate) fn replace(slot: u64, memory: &mut dyn GuestMemory) -> Result<u64, BadAddress> {
    let address = Reader(memory).u64(slot)?;
    let by = replacement(memory);
    let stack = slot.wrapping_add(8);
    if let Ok(pair) = pair_for(stack, memory)
        // The address first: whoever finds the stack pointer finds its address.
        && memory.write(pair + 8, &address.to_le_bytes()).is_ok()
    {
        // It was writable just now.
        let _ = memory.write(pair, &stack.to_le_bytes());
    }
    memory.write(slot, &by.to_le_bytes())?;
    Ok(address)
}

/// The call has returned to stack pointer `stack`: its pair is free. Returns what address the
/// process has in it, where it has one.
pub(crate) fn forget(stack: u64, memory: &mut dyn GuestMemory) -> Option<u64> {
    let pair = pair_for(stack, memory).ok()?;
    if Reader(memory).u64(pair) != Ok(stack) {
        return None;
    }
    let address = Reader(memory).u64(pair + 8).ok();
    // Where it cannot be written it stays, until a call in the same place.
    let _ = memory.write(pair, &0_u64.to_le_bytes());
    address
}

/// Where the pair of `stack` is, or where it may be put: a free one, or that of some call
/// which was left by a jump, as no thread has so many open calls.
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

/// Where `operation`, which is about to return to `stack`, has to pass first so that its process
/// has a table of its own. None where it has, and where there is no library that could do it.
pub(crate) fn detour(operation: u64, stack: u64, memory: &mut dyn GuestMemory) -> Option<u64> {
    let bucket = pending_bucket(stack);
    let word = Reader(memory).u64(bucket).unwrap_or(0);
    if memory.write(bucket, &word.to_le_bytes()).is_ok() {
        return None;
    }
    let resolvers = Reader(memory).u64(STUB_BASE + RESOLVERS_OFFSET).ok()?;
    (resolvers != 0).then(|| resolvers.wrapping_add(operation.wrapping_mul(RESOLVER_SIZE)))
}
