//! How calls come to be seen: by probes in the files of MPI libraries, or through the preloaded library.
//!
//! Both find a call's entry and its return and hand them to the node's tracer, which knows no difference.
//! Called by the runner of a node.

/// Objects that are mapped in a process: Open MPI's components.
pub(crate) mod component;
/// Calls that come through the preloaded library.
pub(crate) mod library;
/// Calls that are seen by probes.
pub(crate) mod probe;
/// Return addresses that were replaced on a stack.
pub(crate) mod replaced;
/// Where calls come to be seen.
pub(crate) mod targets;
