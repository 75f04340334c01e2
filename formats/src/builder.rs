//! A trace built from another tool's records.
//!
//! Readers add calls one rank after the other. The calls wait in a temporary file until they are sorted by time, so that memory holds the open calls of one rank and a
//! piece of each thread. The readers of `goal`, `otf2` and `ti` use it.

/// Amounts of data in collective operations, from the figures of the formats.
pub(crate) mod amounts;
/// Builders for imported events.
pub(crate) mod calls;
/// Errors of imports.
mod error;
/// Nodes, processes and communicators of an imported trace.
pub(crate) mod layout;
/// Calls that wait for their position in the trace.
pub(crate) mod spool;
/// Writing of the trace.
pub(crate) mod write;

use crate::format::Format;

pub use error::ImportError;
pub(crate) use error::failed;

/// Rates that convert amounts of work to times, for formats without times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Floating-point operations per second of a processor, for SimGrid's traces. Without it, the speed of the hosts in the platform
    /// file next to the trace, or 10^9.
    pub flops_per_second: Option<f64>,
}

/// Summary of an imported trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The format that was read.
    pub format: Format,
    /// Number of nodes in the trace.
    pub nodes: u32,
    /// Number of processes.
    pub processes: u32,
    /// Number of calls.
    pub calls: u64,
    /// The exit of the last call, in picoseconds.
    pub end_ps: u64,
    /// One sentence for each fact missing from the format, each omission and each assumption.
    pub notes: Vec<String>,
}
