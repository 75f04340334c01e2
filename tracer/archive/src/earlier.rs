//! Versions 5 and 6 of the trace file, which earlier Belljars wrote.
//!
//! A file is the magic, a version, and chunks. A chunk is a kind (one byte), the length of its
//! payload when decompressed and as stored (32 bits each, little endian), the CRC-32 of all
//! that and the stored payload, and the payload, compressed with zstd. Each chunk can be
//! decoded alone. The first chunk is the header, then come chunks of events, the last is the footer. In a
//! chunk of events structure is apart from timing. Version 6 is that of runs with a time model: its chunks,
//! which have a kind of their own, have columns of what the time went into besides. Called by the reader of
//! all versions and by conversions.

/// A chunk of events with what their nodes' time went into.
mod accounts;
/// Reading a trace.
mod reader;
/// A chunk of events with structure and timing apart.
mod timing;
/// Writing a trace.
mod writer;

use belljar_trace::TraceSummary;
use bincode::{Decode, Encode};

pub(crate) use reader::EarlierReader;
pub use writer::EarlierWriter;
pub(crate) use writer::weight;

/// Version of a file whose events do not tell what the time went into.
pub(crate) const PLAIN: u16 = 5;

/// Version of a file whose events tell it.
pub(crate) const ACCOUNTED: u16 = 6;

/// Bytes before a chunk's payload: kind, raw length, stored length, CRC-32.
const CHUNK_HEAD: usize = 1 + 4 + 4 + 4;

/// Most bytes of a chunk's payload, compressed or not.
const MAX_PAYLOAD: usize = 64 << 20;

const KIND_HEADER: u8 = 0;
const KIND_EVENTS: u8 = 1;
const KIND_FOOTER: u8 = 2;
const KIND_ACCOUNTED_EVENTS: u8 = 3;

/// The end of a complete trace.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Footer {
    events: u64,
    chunks: u64,
    summary: TraceSummary,
}
