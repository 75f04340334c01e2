//! What a run leaves: its directory, summary, captures, logs and the nodes' files.
//!
//! Nothing here decides how a run goes. Called by `run`, and by commands that show what a run left.

/// Links as pcapng files.
pub mod capture;
/// What links carried over time.
pub mod link_log;
/// Files of the nodes for the run directory.
pub mod outputs;
/// Where a run puts what it found.
pub mod run_directory;
/// What nodes write that a run keeps as text.
pub mod stream;
/// Who sent how much to whom.
pub mod wire;
