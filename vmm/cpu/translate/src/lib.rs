//! The exact engine's translator: guest code made into host code.
//!
//! What a block becomes is a function of the guest's bytes and of the mode they run in, and of nothing else: no file here
//! knows a vCPU, a store of code or a run. `belljar-exact` is the caller; it keeps what is made here, runs it, and carries
//! out what translated code leaves to Rust.
//!
//! The rooms, from top to bottom; each imports from those below it alone.
//!
//! | room | what is in it |
//! |---|---|
//! | [`host`] | host code: assembler, emitter, blocks, exit stubs, the memory that they stand in |
//! | [`context`] | what host code finds through the GS base |
//! | [`prices`] | what running costs under a time model |
//! | [`guest`] | guest code: decoded, classified, understood |
//! | [`defined`] | approximations that makers of processors leave open |
//! | [`architecture`] | names of bits |
//!
//! `unsafe` is in `host/cache.rs` and `context/memory.rs` alone: memory that is mapped, and its parts.

/// Names of bits in the architecture's registers, and of exception vectors.
pub mod architecture;
/// What translated code finds through the GS base: registers, TLB, slots, jump caches.
pub mod context;
/// Results that makers of processors leave open, as the engine defines them.
pub mod defined;
/// Guest code: decoded, classified, understood and made into traces' best order.
pub mod guest;
/// Host code: what is emitted for guest code, and where it stands.
pub mod host;
/// What instructions and accesses cost under a time model.
pub mod prices;
