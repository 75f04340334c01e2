//! The exact engine's translator: from guest code to host code.
//!
//! A block's translation is a function of the guest's bytes and the mode in which they run: this crate has no vCPU, code
//! store or run loop. `belljar-exact` is the caller: it stores translations, runs them, and executes the instructions left
//! to Rust.
//!
//! The modules, from top to bottom; each imports only lower ones.
//!
//! | module | contents |
//! |---|---|
//! | [`host`] | host code: assembler, emitter, blocks, exit stubs, code memory |
//! | [`context`] | data of host code, relative to the GS base |
//! | [`prices`] | costs of instructions under a time model |
//! | [`guest`] | guest code: decoding, classification, analyses |
//! | [`defined`] | approximations that processors' manuals leave open |
//! | [`architecture`] | names of bits |
//!
//! `unsafe` is only in `host/cache.rs` and `context/memory.rs`: mapped memory and its parts.

/// Bits of the architecture's registers, and exception vectors.
pub mod architecture;
/// Data of translated code, relative to the GS base: registers, TLB, slots, jump caches.
pub mod context;
/// The engine's definitions of results that processors' manuals leave open.
pub mod defined;
/// Guest code: decoding, classification, analyses, and renaming of traces' registers.
pub mod guest;
/// Host code: emission and memory.
pub mod host;
/// Costs of instructions and accesses under a time model.
pub mod prices;
