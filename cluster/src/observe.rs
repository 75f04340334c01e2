//! Observation of runs: live, and afterwards instruction by instruction.
//!
//! Observation changes nothing; input typed into a node is recorded as part of the run. Called by commands
//! and by the run's control socket.

/// Finds the first instruction at which two runs differ.
pub mod bisect;
/// Live observation of a run, and input for its nodes.
pub mod control;
/// Shows the workload's output while the run continues.
pub mod follow;
/// Standard input as a guest's keyboard.
pub mod keyboard;
/// A running cluster on one screen.
pub mod monitor;
/// The progress line of a run.
pub mod progress;
/// A run whose positions can be reached forwards and backwards.
pub mod timeline;
/// A node's state at given instructions while it runs.
pub mod watch;
