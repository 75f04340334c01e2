//! The Open Trace Format 2: archives of Score-P, Vampir and Scalasca.

/// Numbers of records, for both.
mod numbers;
/// Reads it.
pub(crate) mod reader;
/// Writes it.
mod writer;

pub use writer::write;
