//! Profiles of nodes: samples of stacks in a file, and their sums.
//!
//! A run with a profile samples each executing processor at every multiple of a span of virtual time. A [`Writer`] encodes the samples as
//! the node's file. After the run, [`read()`] sums untrusted files up into a [`Tally`] of stacks. With [named](Tally::name) frames, it is
//! output as a table, as folded stacks, as a profile for `pprof` or as a flame graph. This crate accesses neither guests nor images. Used
//! by runners of nodes and by `belljar profile`.
//!
//! From top to bottom: `flame`, `pprof` and `table` show [`Named`] stacks; `tally` sums samples up; `read` and `write` are the file's two
//! sides; `form` is the file's format. No module imports one above it.

/// A flame graph.
mod flame;
/// The format of a profile's file.
mod form;
/// The format of `pprof`.
mod pprof;
/// Reading of a profile's file.
mod read;
/// Functions by their shares, and folded stacks.
mod table;
/// Samples summed up by stack.
mod tally;
/// Writing of a profile's file.
mod write;

pub use form::{CodeFile, Head, Sample, SampleFrame};
pub use read::{ProfileError, State, read, verify_start};
pub use table::{Format, Row};
pub use tally::{Filter, KernelFunctions, Named, Spans, Split, Tally};
pub use write::{Pending, Writer};

#[cfg(test)]
mod tests;
