//! Runs looked at: while they are under way, and afterwards, instruction by instruction.
//!
//! Looking changes nothing; what is typed into a node is recorded and part of the run. Called by commands and
//! by the run's control socket.

/// The first instruction at which two runs differ.
pub mod bisect;
/// Looking at a run while it is under way, and typing into its nodes.
pub mod control;
/// What the command writes, shown while the run continues.
pub mod follow;
/// Standard input as a guest's keyboard.
pub mod keyboard;
/// A running cluster on one screen.
pub mod monitor;
/// The line that shows how a run goes.
pub mod progress;
/// A node's state at given instructions while it runs.
pub mod watch;
