//! Interception of calls, by probes in the files of MPI libraries or through the preloaded library.
//!
//! Both find a call's entry and its return and pass them to the node's tracer, which does not distinguish between them.
//! Used by the runner of a node.

/// Objects mapped in a process, such as Open MPI's components.
pub(crate) mod component;
/// Calls through the preloaded library.
pub(crate) mod library;
/// Calls found by probes.
pub(crate) mod probe;
/// Replaced return addresses on a stack.
pub(crate) mod replaced;
/// Addresses of probes in files.
pub(crate) mod targets;
