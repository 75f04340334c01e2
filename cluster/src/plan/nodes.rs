//! Nodes of a run, made from its plan: disks, processors, code for unwinding, and the template of clones.
//!
//! A node follows from the plan and its number. Used to prepare runs, snapshots and checks.

/// The code that a run's processes may have.
pub mod code;
/// Translated code that is kept between runs.
pub(crate) mod kept_code;
/// Construction of a run's nodes.
pub mod parts;
/// Construction of nodes' processors.
pub(crate) mod processors;
/// The disk that brings the workload to the nodes.
pub mod run_disk;
/// The template: the node that all nodes of a run are cloned from.
pub mod template;
