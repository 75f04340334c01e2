//! The exact engine under hostile code and hostile page tables.
//!
//! Both targets drive one small `machine`, whose memory has only the input's contents. Called by name from `lib.rs`.

/// Arbitrary code, in every mode and at both privilege levels.
pub(crate) mod code;
/// A small machine for hostile code.
mod machine;
/// Page walks through arbitrary tables.
pub(crate) mod walk;
