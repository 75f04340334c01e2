//! Time-independent traces of SimGrid, with a platform for their replay.

/// Reads it.
pub(crate) mod reader;
/// Writes it.
mod writer;

pub use writer::{Amounts, Layout, write_hosts, write_platform, write_rank};
