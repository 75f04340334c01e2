//! Host code: the assembler, the emitter, and the memory of translated code.
//!
//! Host code does not use the host's stack, and accesses only the context and guest RAM. There is a single entry
//! and a single exit. Modules `code` and `processor` are the callers.

/// Host registers that hold lent guest registers.
pub mod allocation;
/// An assembler for the few host instructions of checks and counters.
pub mod asm;
/// Translated blocks, and the charges of their entries.
pub mod block;
/// The memory of translated code, mapped once to write and once to execute.
pub mod cache;
/// The emitter: from a decoded block to host code and its exit stubs.
pub mod emit;
/// Exit stubs and their operands.
pub mod exit_stub;
/// Rewrites an instruction's operands: scratch registers, host addresses.
pub mod rewrite;
/// Data common to all blocks: counter, prices, shared code.
pub mod shared;
/// Code that all blocks share: entry, exit, lookup of jumps.
pub mod stubs;
