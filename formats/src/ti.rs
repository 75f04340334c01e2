//! Time-independent traces of SimGrid, with a platform for their replay.

/// Reading of traces.
pub(crate) mod reader;
/// Writing of traces.
mod writer;

pub use writer::{Amounts, Layout, write_hosts, write_platform, write_rank};
