//! A trace built from another tool's records.
//!
//! Readers add calls one rank after the other. The calls wait in a temporary file until they are put into one order of time, so that memory holds the open calls of one rank
//! and a piece of each thread. The readers of `goal`, `otf2` and `ti` use it.

/// Amounts of data in collective operations, from the figures that formats have.
pub(crate) mod amounts;
/// Builders for imported events.
pub(crate) mod calls;
/// Errors of imports.
mod error;
/// Nodes, processes and communicators of an imported trace.
pub(crate) mod layout;
/// Calls that wait for their place in the trace.
pub(crate) mod spool;
/// Writes the trace.
pub(crate) mod write;

use crate::format::Format;

pub use error::ImportError;
pub(crate) use error::failed;

/// Rates that turn amounts of work into times, for formats without times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Floating-point operations per second of a processor, for SimGrid's traces.
    pub flops_per_second: f64,
}

/// Summary of an imported trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The format that was read.
    pub format: Format,
    /// Nodes that the trace has.
    pub nodes: u32,
    /// Processes.
    pub processes: u32,
    /// Calls.
    pub calls: u64,
    /// When the last call was left, in picoseconds.
    pub end_ps: u64,
    /// One sentence for each fact that the format lacks, each omission and each assumption.
    pub notes: Vec<String>,
}
