//! Traces that other tools wrote, as Belljar's own.
//!
//! [`import`] reads an OTF2 archive, a GOAL schedule or a time-independent trace of SimGrid, one rank after the other, and writes a trace that all
//! analyses read. Calls wait in a temporary file until they are put into one order of time, so that what is in memory is what one rank has open and a piece
//! of each thread. What a format does not tell is told in words ([`Imported`]). Files are hostile: what is wrong with one is an error that says where.
//! Nothing here knows of guests, nor of models of networks. Called by `belljar trace import`.

/// What members give and get in collective operations, by what formats tell of it.
mod amounts;
/// Calls in the making.
mod calls;
/// Which format a file has.
mod detect;
/// Group Operation Assembly Language, as text and in its binary form.
mod goal;
/// Who is who, and which communicators there are.
mod layout;
/// The Open Trace Format 2.
mod otf2;
/// Calls that wait for their place in the trace.
mod spool;
/// SimGrid's time-independent traces.
mod ti;
/// The trace itself.
mod write;

use std::io;
use std::path::{Path, PathBuf};

use belljar_trace::TraceError;

pub use detect::Format;

/// Why a trace could not be imported.
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

/// How times are told of formats that have none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Floating-point operations that a processor carries out in a second, of SimGrid's traces.
    pub flops_per_second: f64,
}

/// What was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The format that was read.
    pub format: Format,
    /// Nodes that the trace has.
    pub nodes: u32,
    /// Processes.
    pub processes: u32,
    /// Calls.
    pub calls: u64,
    /// When the last call was left, in picoseconds.
    pub end_ps: u64,
    /// What the format does not tell, what was left out of it, and what was assumed instead: a sentence each.
    pub notes: Vec<String>,
}

/// Writes what the file at `path` tells as a trace to `out`, a new file, under the name `name`. The format is that of the file's content unless it is
/// given. Temporary files stand in the folder of `out`.
///
/// # Errors
/// [`ImportError`] when a file cannot be read, is damaged, or the trace cannot be written.
pub fn import(
    path: &Path,
    format: Option<Format>,
    rates: Rates,
    (out, name): (&Path, &str),
) -> Result<Imported, ImportError> {
    let format = match format {
        Some(format) => format,
        None => Format::of(path)?,
    };
    let mut imported = match format {
        Format::Otf2 => otf2::import(path, out, name),
        Format::Goal => goal::import(path, out, name),
        Format::Ti => ti::import(path, rates, out, name),
    }?;
    if imported.end_ps == u64::MAX {
        let path = path.to_owned();
        return Err(ImportError::Late { path });
    }
    if imported.calls == 0 {
        let none = "it has no call of MPI, so there is nothing to analyse or to replay";
        imported.notes.push(none.to_owned());
    }
    Ok(imported)
}

/// What the host refused to do with a file.
fn failed(path: &Path) -> impl FnOnce(io::Error) -> ImportError {
    let path = path.to_owned();
    move |source| ImportError::Input { path, source }
}
