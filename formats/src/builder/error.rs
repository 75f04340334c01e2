//! Errors of imports.

use std::io;
use std::path::{Path, PathBuf};

use belljar_trace::TraceError;

/// Error of an import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read, or a temporary one not be written.
    #[error("cannot read {}: {source}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The host's own reason.
        source: io::Error,
    },
    /// A file is none of its format, or is damaged.
    #[error("{} is damaged at byte {offset}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, in bytes.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A line of a text is wrong.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has no format that is known.
    #[error("{} is neither an anchor of an OTF2 archive, nor a GOAL schedule, nor a time-independent trace of SimGrid; name its format with --format if it is one", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// The trace ends after the last time that there is.
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

/// Turns an error of the host into an [`ImportError`] with the path.
pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> ImportError {
    let path = path.to_owned();
    move |source| ImportError::Input { path, source }
}
