//! The trace file: written during a run, read afterwards, in all its versions.
//!
//! A [`TraceWriter`] takes a run's calls one after another; a [`TraceReader`] returns them with all their fields, up to the first damage or the end of an unfinished
//! file. A [`StructureReader`] returns the sequences of calls as a grammar, without reading times. This crate does not access guests: calls are `belljar-trace`'s events.
//! Used by runs, analyses and conversions.
//!
//! ```no_run
//! # fn main() -> Result<(), belljar_trace::TraceError> {
//! use belljar_archive::TraceReader;
//! use belljar_trace::TraceState;
//!
//! let mut trace = TraceReader::open("trace.bjt".as_ref())?;
//! let clocks = trace.header().clone();
//! for event in trace.by_ref() {
//!     let entered = clocks.frequency(event.node).time_of(event.entry);
//!     println!("{entered:?} rank {}: {}", event.rank, event.name());
//! }
//! assert_eq!(*trace.state(), TraceState::Complete);
//! # Ok(())
//! # }
//! ```
//!
//! # The file
//!
//! A file consists of the magic, version 14 (11 to 13 are read, too; 16 bits, little endian), and chunks (`frame`): kind, length and CRC-32 of each, then its payload.
//! Written bytes never change. The first chunk is the header, the last the footer; between them are groups of four, each with up to 65,536 calls and written at once:
//!
//! | chunk | payload |
//! |---|---|
//! | dictionary | the length of what follows when unpacked (32 bits), then, packed with zstd: a byte that says whether older signatures are forgotten, since version 8 the sites that are new, and the signatures that are new, by bincode |
//! | structure | threads, grammar, sequences (`structure`) |
//! | operands | argument words that differ from call to call, and how many calls records of several stand for (`operands`) |
//! | times | the lengths of gaps and durations (32 bits each), gaps, durations, and vCPUs, accounts and order (`times`) |
//!
//! Data is valid up to the last whole group. A reader skips chunks that it does not need.
//!
//! # Structure
//!
//! A thread's call becomes a *signature* (`signature`): the event without its thread and times. Ranks become relative to the caller's rank in the communicator, modulo
//! its size if known. A started request is encoded as the next one, a completed one by the number of active requests that were started later. Pointers, displacements and
//! large handles are stored separately as *operands*. Ranks and iterations that do the same therefore have the same signature. Writer and reader track a thread's
//! communicators and requests in the same way (`stream`).
//!
//! The chunk's sequences of signatures, with equal ones stored once, become a grammar with repetitions (`grammar`). The grammar restarts in each chunk, which costs some
//! bytes for each loop; the dictionary and the state of threads carry over.
//!
//! # Times
//!
//! Cycles from a thread's call to its next are coded in the context of the two signatures, cycles in a call in the context of its signature. All threads share the models
//! (`column`). A number is coded as the last successor of the previous numbers, as one of the last eight of the context, as one of the last 32 of the two functions, or
//! in full. All decisions, including structure and operands, go through an arithmetic coder with adaptive probabilities (`coder`). The default order of calls is by their
//! exits, by cycle and node; the file stores only deviations from it.
//!
//! # Bounds
//!
//! A writer holds the calls of one chunk, the dictionary, and 1,024 requests and 4,096 communicators of each thread. The dictionary is emptied when it has more than
//! 131,072 signatures or 8 MiB of them. A reader rejects data beyond these limits and contradictory data, and reports the place. Its tables have a fixed size for a
//! chunk's number of calls.
//!
//! # Sizes
//!
//! `cargo run --release -p belljar-archive --example measure -- RUN-DIRECTORY...` prints the sizes of traces.

/// The common part of calls of ranks and iterations that do the same.
mod calls;
/// Encoding of numbers and sequences as bits.
mod coding;
/// Operations of persistent requests, in traces of earlier versions.
mod explained;
/// Chunks in a file.
mod frame;
/// Data that precedes the first call.
mod header;
/// Readers that report their positions.
mod observed;
/// Words that differ from call to call.
mod operands;
/// Records of the user's probes, in a separate file.
mod probes;
/// Reading of the whole trace, or of its structure alone.
mod reader;
/// A writer's state.
mod saved;
/// The sequences of calls of a chunk's threads.
mod structure;
/// Entry and exit times of calls.
mod times;
/// One reader for all versions.
mod versions;
/// Writing of traces.
mod writer;

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use belljar_trace::{TraceError, TraceSummary};
use bincode::{Decode, Encode};

pub use calls::stream::Stream;
pub use coding::grammar::{Grammar, Rule};
pub use frame::ChunkKind;
pub use header::Contents;
pub use observed::{ReadPosition, observed};
pub use probes::{ProbesHeader, ProbesReader, ProbesWriter};
pub use reader::StructureReader;
pub use structure::Structure;
pub use versions::convert::convert;
pub use versions::{TraceReader, version};
pub use writer::TraceWriter;
pub use writer::queue::QueuedWriter;

/// The end of a complete trace.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Footer {
    calls: u64,
    chunks: u64,
    summary: TraceSummary,
}

/// Bytes of a trace by section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Sizes {
    /// The sequences of calls of each thread.
    pub structure: u64,
    /// The signatures of calls.
    pub signatures: u64,
    /// Pointers and other words that differ from call to call.
    pub operands: u64,
    /// Times from a call to the next.
    pub gaps: u64,
    /// Times in calls.
    pub durations: u64,
    /// vCPUs, accounts, and the order of the file.
    pub rest: u64,
    /// Header, footer, heads of chunks.
    pub other: u64,
}

impl Sizes {
    /// Returns the total.
    pub fn total(&self) -> u64 {
        self.checked_total().unwrap_or(u64::MAX)
    }

    fn checked_total(&self) -> Option<u64> {
        let Self {
            structure,
            signatures,
            operands,
            gaps,
            durations,
            rest,
            other,
        } = *self;
        let parts = [signatures, operands, gaps, durations, rest, other];
        parts.into_iter().try_fold(structure, u64::checked_add)
    }
}

/// Returns the length of a file, whose position stays. The sandbox of a run permits this to threads with guests, and no query of
/// metadata.
pub(crate) fn length(mut file: &File) -> io::Result<u64> {
    let at = file.stream_position()?;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(at))?;
    Ok(length)
}

/// Creates the error for a failed file operation on a trace.
fn failed(action: &'static str, path: &Path, source: io::Error) -> TraceError {
    TraceError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
