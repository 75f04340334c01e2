//! Errors of imports.
//!
//! Each error names the file, and the offset or line if it is known. Returned by all readers.

use std::io;
use std::path::{Path, PathBuf};

use belljar_trace::TraceError;

/// Error of an import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read, or a temporary one cannot be written.
    #[error("cannot read {}: {source}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file does not have its format, or is damaged.
    #[error("{} is damaged at byte {offset}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset in bytes.
        offset: u64,
        /// The fault.
        reason: String,
    },
    /// A line of a text is invalid.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: u64,
        /// The fault.
        reason: String,
    },
    /// The file's format is unknown.
    #[error("{} is neither an anchor of an OTF2 archive, nor a GOAL schedule, nor a time-independent trace of SimGrid; name its format with --format if it is one", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// The trace ends after the last representable time.
    #[error(
        "{} has work beyond the last time of a trace, 2^64 ps (213 days) after its begin", path.display()
    )]
    Late {
        /// The file.
        path: PathBuf,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Converts an error of a file operation to an [`ImportError`] with the path.
pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> ImportError {
    let path = path.to_owned();
    move |source| ImportError::Input { path, source }
}
