//! Results of a run: its directory, summary, captures, logs and the nodes' files.
//!
//! This module does not affect a run's course. Called by `run`, and by commands that show results.

/// Links as pcapng files.
pub mod capture;
/// The InfiniBand network's figures.
pub mod infiniband;
/// Loads of links over time.
pub mod link_log;
/// Files of the nodes for the run directory.
pub mod outputs;
/// The run directory.
pub mod run_directory;
/// Outputs of nodes that a run keeps as text.
pub mod stream;
/// Traffic between nodes.
pub mod wire;
