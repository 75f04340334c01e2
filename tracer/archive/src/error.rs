//! Why a trace could not be written or read.

use std::io;
use std::path::{Path, PathBuf};

use crate::VERSION;

/// Why a trace could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The host's file system failed.
    #[error("cannot {action} the trace {}: {source}", path.display())]
    Io {
        /// What was attempted, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's own reason.
        source: io::Error,
    },
    /// The file is not a trace.
    #[error("{} is not a trace of Belljar: {reason}", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Another version of the format.
    #[error("the trace {} has format version {version}, and {VERSION} was expected: read it with what reads that version", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u16,
    },
    /// A trace that cannot be continued.
    #[error("cannot continue the trace {}: {reason}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A record that cannot be encoded.
    #[error("a record of the trace {} cannot be encoded: {reason}; please report it", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl ArchiveError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
