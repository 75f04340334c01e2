//! The Open Trace Format 2: archives of Score-P, Vampir and Scalasca.
//!
//! Reader and writer have the same numbers of records. Used by `import` and by `belljar trace export`.

/// Numbers of records.
mod numbers;
/// Reading of archives.
pub(crate) mod reader;
/// Writing of archives.
mod writer;

pub use writer::write;
