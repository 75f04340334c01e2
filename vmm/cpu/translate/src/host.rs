//! Host code: the assembler, the emitter, and the memory that holds what they make.
//!
//! Host code touches no host stack and nothing but the context and guest RAM; there is one way in and one way out.
//! The rooms `code` and `processor` are the callers.

/// Which host registers lent guest registers stand in.
pub mod allocation;
/// An assembler for the few host instructions that checks and counters need.
pub mod asm;
/// Translated blocks, and what their entries charge.
pub mod block;
/// The memory of translated code, mapped once to write and once to execute.
pub mod cache;
/// The emitter: from an understood block to host code and its exit stubs.
pub mod emit;
/// Exit stubs, and what each needs.
pub mod exit_stub;
/// An instruction with other operands: scratch registers, host addresses.
pub mod rewrite;
/// What all blocks have in common: counter, prices, shared code.
pub mod shared;
/// Code that all blocks share: entry, way out, lookup of jumps.
pub mod stubs;
