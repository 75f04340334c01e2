//! The MPI objects of a process, by handle: what calls before made, as far as the process alone can know it.
//!
//! Handles are reused and tables are bounded: of a process with too many objects the oldest are forgotten. Changed
//! by `process` when calls return, looked up when they are entered.

/// Bounds of datatypes.
mod bounds;
/// Communicators and groups.
pub(crate) mod communicators;
/// Datatypes, their sizes and bounds.
pub(crate) mod datatypes;
/// A bounded table of objects.
pub(crate) mod registry;
/// Requests, from the call that made them to their completion.
pub(crate) mod requests;
