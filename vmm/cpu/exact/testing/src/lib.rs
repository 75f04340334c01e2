//! What tests of the exact engine share: guests without a kernel, the host's processor as a machine to compare with,
//! random encodings and programs.
//!
//! Tests alone depend on this crate. Nothing here decides whether a test passes but what it returns; what a test
//! must not compare, since makers of processors differ in it, `machine` and `host` know.
//!
//! From top to bottom: `program` and `process` make guests that run long; `machine` is one arena, `native` and
//! `bare` carry it out; `encoding` makes single instructions; `host`, `plain` and `skipping` stand alone.
#![allow(missing_docs)]

/// A guest without a kernel: flat 64-bit code over pages that map themselves.
pub mod bare;
/// Random encodings of instruction forms.
pub mod encoding;
/// What this host can be compared with.
pub mod host;
/// Registers and an arena of memory, the same natively and in a guest; what makers leave open.
pub mod machine;
/// Machine code on the host's processor; what it does wrong comes out as a trap.
pub mod native;
/// The time model as one would explain it.
pub mod plain;
/// A static Linux program in user mode, without a kernel.
pub mod process;
/// Random programs of all forms, with branches and loops, that stay in the arena.
pub mod program;
/// Steps of random programs, some of which conditional jumps skip.
pub mod skipping;
