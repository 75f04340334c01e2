//! The trace file: written during a run, read after the fact, in all its versions.
//!
//! A [`TraceWriter`] takes a run's calls one after another, a [`TraceReader`] gives them back, each with all its
//! fields, as far as a damaged or unfinished file is whole. A
//! [`StructureReader`] gives who called what, as a grammar, without reading times. Nothing here knows of guests:
//! calls are `belljar-trace`'s events. Called by runs, analyses and conversions.
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
//! A file is the magic, version 14 (11 to 13 are read, too; 16 bits, little endian), and chunks (`frame`): kind, length and CRC-32 of
//! each, then its payload. Nothing written is ever changed. The first chunk is the header, the last the footer;
//! between them stand groups of four, each with up to 65,536 calls and written at once:
//!
//! | chunk | payload |
//! |---|---|
//! | dictionary | the length of what follows when unpacked (32 bits), then, packed with zstd: a byte that says whether older signatures are forgotten, since version 8 the sites that are new, and the signatures that are new, by bincode |
//! | structure | threads, grammar, sequences (`structure`) |
//! | operands | argument words that differ from call to call, and how many calls records of several stand for (`operands`) |
//! | times | the lengths of gaps and durations (32 bits each), gaps, durations, and vCPUs, accounts and order (`times`) |
//!
//! What is read is good as far as the last whole group. A reader goes past chunks that it does not need.
//!
//! # Structure
//!
//! A thread's call becomes a *signature* (`signature`): the event without its thread and times. Ranks become
//! relative to the caller's own in the communicator, going round where its size is known; a started request is
//! told as the next one, a completed one by how many that are active were started later; pointers, displacements
//! and large handles leave it as *operands*. So ranks and iterations that do the same have the same signature.
//! What a thread's calls told of communicators and requests before (`stream`) is followed alike on both sides.
//!
//! The chunk's sequences of signatures, one for threads that have the same, become a grammar with repetitions
//! (`grammar`). It starts anew in each chunk, where a loop costs some bytes again; the dictionary and what is
//! known of threads carry over.
//!
//! # Times
//!
//! Cycles from a thread's call to its next are told in the context of the two signatures, those in a call in
//! that of its own, by all threads together (`column`): as what followed the numbers before last time, as one of
//! the last eight of the context, as one of the last 32 of the two functions, or spelled out. All decisions go
//! through an arithmetic coder with adapting probabilities (`coder`), as do structure and operands. The order in
//! which the file had the calls is that of their exits, by cycle and node; what differs from it is told.
//!
//! # Bounds
//!
//! A writer holds the calls of one chunk, the dictionary (emptied when it has more than 131,072 signatures or
//! 8 MiB of them) and 1,024 requests and 4,096 communicators of each thread. A reader refuses what is beyond, and
//! whatever contradicts itself, with the place. Its tables have a fixed size for a chunk's number of calls.
//!
//! # Sizes
//!
//! `cargo run --release -p belljar-archive --example measure -- RUN-DIRECTORY...` prints what traces take.

/// What is alike in calls of ranks and iterations that do the same.
mod calls;
/// How numbers and sequences become bits.
mod coding;
/// The same calls in another version.
mod convert;
/// Operations of persistent requests, in traces of earlier versions.
mod explained;
/// Chunks in a file.
mod frame;
/// What is known before the first call.
mod header;
/// Readers that report how far they are.
mod observed;
/// Words that differ from call to call.
mod operands;
/// What probes of the user's saw, in a file of its own.
mod probes;
/// Reading all of it, or structure alone.
mod reader;
/// A writer's state.
mod saved;
/// Which calls the threads of a chunk made.
mod structure;
/// When they were entered and left.
mod times;
/// One reader for all versions.
mod versions;
/// Writing it.
mod writer;

use std::io;
use std::path::Path;

use belljar_trace::{TraceError, TraceSummary};
use bincode::{Decode, Encode};

pub use calls::stream::Stream;
pub use coding::grammar::{Grammar, Rule};
pub use convert::convert;
pub use frame::Kind;
pub use header::Contents;
pub use observed::{ReadPosition, observed};
pub use probes::{ProbesHeader, ProbesReader, ProbesWriter};
pub use reader::StructureReader;
pub use structure::Structure;
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

/// Bytes of a trace by what they tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Sizes {
    /// Which calls each thread made.
    pub structure: u64,
    /// What the calls are.
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
    /// All of them.
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

/// What the host refused to do with a trace.
fn failed(action: &'static str, path: &Path, source: io::Error) -> TraceError {
    TraceError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
