//! Signatures: the common part of calls of ranks and iterations that do the same.
//!
//! A call becomes a signature relative to its thread's earlier calls; a dictionary numbers the signatures. Used by both the
//! writer and the readers.

/// Signatures by number.
pub(crate) mod dictionary;
/// Calls without the parts that differ between ranks and iterations.
pub(crate) mod signature;
/// A thread's known state after each call.
pub(crate) mod stream;
