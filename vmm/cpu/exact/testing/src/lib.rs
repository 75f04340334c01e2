//! Shared code of the exact engine's tests: guests without a kernel, the host's processor as a machine for
//! comparison, random encodings and programs.
//!
//! Only tests depend on this crate. Its functions return results, and the tests decide whether they pass; `machine`
//! and `host` exclude results that differ between makers of processors.
//!
//! From top to bottom: `program` and `process` make guests that run long; `machine` is an arena, which `native` and
//! `bare` execute; `encoding` makes single instructions; `host`, `plain` and `skipping` are independent.
#![allow(missing_docs)]

/// A guest without a kernel: flat 64-bit code over identity-mapped pages.
pub mod bare;
/// Random encodings of instruction forms.
pub mod encoding;
/// This host's features for comparisons.
pub mod host;
/// Registers and an arena of memory, the same natively and in a guest; results that differ between makers.
pub mod machine;
/// Machine code on the host's processor; its exceptions are returned as traps.
pub mod native;
/// A simple implementation of the time model.
pub mod plain;
/// A static Linux program in user mode, without a kernel.
pub mod process;
/// Random programs of all forms, with branches and loops, that stay in the arena.
pub mod program;
/// Steps of random programs, some skipped by conditional jumps.
pub mod skipping;
