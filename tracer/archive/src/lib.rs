//! The trace file's version 3.
mod coder;
mod column;
mod dictionary;
mod error;
mod frame;
mod grammar;
mod operands;
mod reader;
mod signature;
mod stream;
mod structure;
mod times;
mod writer;

use belljar_trace::TraceSummary;
use bincode::{Decode, Encode};

pub use belljar_trace::MAGIC;
pub use error::ArchiveError;
pub use frame::Kind;
pub use grammar::{Grammar, Rule};
pub use reader::{ArchiveReader, ArchiveState, StructureReader};
pub use stream::Stream;
pub use structure::Structure;
pub use writer::ArchiveWriter;

/// Version of the format, after [`MAGIC`] as 16 bits, little endian.
pub const VERSION: u16 = 7;

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
        let Self {
            structure,
            signatures,
            operands,
            gaps,
            durations,
            rest,
            other,
        } = *self;
        structure + signatures + operands + gaps + durations + rest + other
    }
}
