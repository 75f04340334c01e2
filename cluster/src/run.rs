//! A run carried out: nodes, host threads, rounds of virtual time, checkpoints.
//!
//! A run's course follows from its plan alone; host threads and clocks affect no result. Called by commands
//! with a plan; fills the files of `results`.

/// Background jobs, and the network that they share with the nodes.
pub mod background;
/// Bounds of nodes' turns.
pub mod bounds;
/// A whole run between two rounds, as files from which it continues.
pub mod checkpoint;
/// Rounds of virtual time, from the first to the last.
pub mod coordinator;
/// The end of a run.
pub(crate) mod ending;
/// Errors of a run.
pub mod error;
/// Calls by which programs poll.
pub(crate) mod polls;
/// The calls of all nodes in one trace.
pub(crate) mod recorder;
/// A node's report at the end of a run.
pub mod report;
/// One node of a run, with its tracer and its console.
pub mod runner;
/// Host time that nodes take, for reports alone.
pub(crate) mod stopwatch;
/// Detection of jobs in which no rank can proceed.
pub mod stuck;
/// The summary of a run.
pub mod summary;
/// Host threads that execute turns.
pub(crate) mod workers;
