//! The Open Trace Format 2: archives of Score-P, Vampir and Scalasca.

/// Reading of archives.
pub(crate) mod reader;
/// Writing of archives.
mod writer;

pub use writer::write;
