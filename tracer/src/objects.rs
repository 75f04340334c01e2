//! The MPI objects of a process, by handle: created by earlier calls, and known as far as the process alone determines
//! them.
//!
//! Handles are reused and tables are bounded: if a process has too many objects, the oldest are forgotten. Updated by
//! `process` when calls return, looked up when they are entered.

/// Bounds of datatypes.
mod bounds;
/// Communicators and groups.
pub(crate) mod communicators;
/// Datatypes, their sizes and bounds.
pub(crate) mod datatypes;
/// A bounded table of objects.
pub(crate) mod registry;
/// Requests, from the call that created them to their completion.
pub(crate) mod requests;
