//! Errors of exports.
//!
//! Each error of a file names its path. Returned by all writers.

use std::io;
use std::path::{Path, PathBuf};

use belljar_trace::TraceError;

/// Error of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A table cannot be encoded.
    #[error("cannot write {}: {reason}; please report it", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A definition is longer than the format allows.
    #[error("cannot write {}: a definition has {bytes} bytes, and the format allows {most}", path.display())]
    Long {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// The greatest length.
        most: u64,
    },
}

/// Converts an error of a file operation to an [`ExportError`] with the path.
pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    let path = path.to_owned();
    move |source| ExportError::Output { path, source }
}
