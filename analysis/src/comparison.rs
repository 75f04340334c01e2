//! Comparison of traces.
//!
//! Calls of two or more traces are compared by rank, call site and phase. Used by the crate's users.

/// Comparison of two traces.
pub(crate) mod diff;
/// Results of several traces next to each other.
pub(crate) mod several;
