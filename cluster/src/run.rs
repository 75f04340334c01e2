//! A run carried out: nodes, host threads, rounds of virtual time, checkpoints.
//!
//! What a run does follows from its plan alone; host threads and clocks reach no result. Called by the commands
//! with a plan, and it fills what `results` keeps.

/// Background jobs, and the network that they share with the nodes.
pub mod background;
/// How far each node may run before anybody else must be heard.
pub mod bounds;
/// A whole run at a point between its rounds, as files from which it continues.
pub mod checkpoint;
/// Rounds of virtual time, from the first to the last.
pub mod coordinator;
/// How a run ends.
pub(crate) mod ending;
/// Why a run could not continue.
pub mod error;
/// Calls by which programs wait in loops.
pub(crate) mod polls;
/// The calls of all nodes in one trace.
pub(crate) mod recorder;
/// What a node has to say of itself at the end of a run.
pub mod report;
/// One node of a run, with its tracer and its console.
pub mod runner;
/// Host time that nodes take, for reports alone.
pub(crate) mod stopwatch;
/// What is told of a run at its end.
pub mod summary;
/// Host threads that take turns.
pub(crate) mod workers;
