//! Profiles of nodes: samples of stacks in a file, and what they add up to.
//!
//! A run with a profile looks at each processor that executes at every multiple of a span of virtual time, and hands what
//! it sees to a [`Writer`], which makes the bytes of the node's file of it. After the run [`read()`] reads such files,
//! whatever they hold, into a [`Tally`] of stacks; with their frames [named](Tally::name) it is told as a table, as folded stacks,
//! as a profile for `pprof` or as a flame graph. Nothing here knows guests or images. Called by runners of nodes and by `belljar profile`.
//!
//! From top to bottom: `flame`, `pprof` and `table` show [`Named`] stacks; `tally` sums samples up; `read` and `write`
//! are the file's two sides; `form` is what stands in it. None imports one above it.

/// A flame graph.
mod flame;
/// What stands in a profile's file.
mod form;
/// The form that `pprof` reads.
mod pprof;
/// A profile's file, read.
mod read;
/// Functions by their shares, and folded stacks.
mod table;
/// Samples summed up by stack.
mod tally;
/// A profile's file, written.
mod write;

pub use form::{CodeFile, Frame, Head, Sample};
pub use read::{ProfileError, State, read, verify_start};
pub use table::{Format, Row};
pub use tally::{Filter, KernelFunctions, Named, Spans, Split, Tally};
pub use write::{Pending, Writer};

#[cfg(test)]
mod tests;
