//! Traces in the formats of tools that show and measure them.
//!
//! A [`Source`] reads a trace call by call and says of each what other formats have records for: messages with their
//! peers, requests, collective operations, accesses to windows. A module for each format writes these. What is kept are
//! processes, communicators and requests that are not complete, whatever the size of the trace. Nothing here knows of
//! guests, nor of models of networks. Called by `belljar trace export`.

/// A call and its records.
mod calls;
/// The JSON that Chromium's trace viewer reads.
pub mod chrome;
/// The operations of collective calls.
mod collective;
/// What people want to know of a call, by name.
mod described;
/// What a format cannot hold.
mod left_out;
/// Numbers of messages.
mod numbers;
/// The Open Trace Format 2.
pub mod otf2;
/// Paraver's traces.
pub mod paraver;
/// The protobuf that Perfetto reads.
pub mod perfetto;
/// Processes, threads, communicators and windows, by number.
mod places;
/// A trace, call by call.
mod source;
/// Tables, as CSV or Parquet.
pub mod tables;

use std::io;
use std::path::{Path, PathBuf};

use belljar_trace::TraceError;

pub use calls::{Call, Collected, Other, Part, Record, Root};
pub use left_out::LeftOut;
pub use places::{Group, Places, Thread, Window};
pub use source::Source;

/// Why a trace could not be exported.
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
        /// The host's own reason.
        source: io::Error,
    },
    /// A table cannot be encoded.
    #[error("cannot write {}: {reason}; please report it", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A definition is longer than the format allows.
    #[error("cannot write {}: a definition has {bytes} bytes, and the format allows {most}", path.display())]
    Long {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// The most that there may be.
        most: u64,
    },
}

/// What the host refused to do with a file.
fn failed(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    let path = path.to_owned();
    move |source| ExportError::Output { path, source }
}
