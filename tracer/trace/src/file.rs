//! The trace file: written in virtual time, read after the fact.
//!
//! A file is [`MAGIC`], a version, and chunks. A chunk is a kind (one byte), the length of its
//! payload when decompressed and as stored (32 bits each, little endian), the CRC-32 of all
//! that and the stored payload, and the payload, compressed with zstd. Each chunk can be
//! decoded alone; nothing written is ever changed, so what a crash leaves is good up to
//! its last whole chunk. The first chunk is the [`TraceHeader`], then come chunks of
//! events, the last is the footer. In a chunk of events structure is apart from
//! timing: what is called again and again the same way compresses to almost nothing, and
//! only the times of it remain. With a time model, whose chunks have a kind of their own,
//! columns of what the time went into follow; without one the file is of [`VERSION`].

/// A chunk of events with what their nodes' time went into.
mod accounts;
/// Reading a trace.
mod reader;
/// A chunk of events with structure and timing apart.
mod timing;
/// Writing a trace.
mod writer;

use std::path::PathBuf;

use belljar_abi::FUNCTIONS;
use belljar_sim::Frequency;
use bincode::{Decode, Encode};

pub use reader::{TraceReader, TraceState};
pub use writer::TraceWriter;

/// The name of the trace in a run's directory.
pub const TRACE_FILE: &str = "trace.bjt";

/// What a trace file begins with.
pub const MAGIC: [u8; 8] = *b"BelljarT";

/// Version of the format, after [`MAGIC`] as 16 bits, little endian.
pub const VERSION: u16 = 5;

/// Version of a file whose events tell what the time went into.
pub const VERSION_WITH_ACCOUNTS: u16 = 6;

/// Bytes before a chunk's payload: kind, raw length, stored length, CRC-32.
const CHUNK_HEAD: usize = 1 + 4 + 4 + 4;

/// Most bytes of a chunk's payload, compressed or not.
const MAX_PAYLOAD: usize = 64 << 20;

/// Nodes that a header may speak of.
const MAX_NODES: usize = 1 << 20;

const KIND_HEADER: u8 = 0;
const KIND_EVENTS: u8 = 1;
const KIND_FOOTER: u8 = 2;
const KIND_ACCOUNTED_EVENTS: u8 = 3;

/// What is known of a trace before its first event.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TraceHeader {
    scenario: String,
    frequencies_hz: Vec<u64>,
    functions_hash: u32,
}

impl TraceHeader {
    /// The header of a run of the scenario called `scenario`, on nodes with processors
    /// of these clock rates (node 0 first).
    pub fn new(scenario: &str, frequencies: &[Frequency]) -> Self {
        Self {
            scenario: scenario.to_owned(),
            frequencies_hz: frequencies.iter().map(|rate| rate.as_hz()).collect(),
            functions_hash: functions_hash(),
        }
    }

    /// The scenario's name.
    pub fn scenario(&self) -> &str {
        &self.scenario
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.frequencies_hz.len()
    }

    /// The clock rate of a node's processor; 1 GHz for a node that is not there.
    pub fn frequency(&self, node: u32) -> Frequency {
        const GIGAHERTZ: Frequency = match Frequency::from_hz(1_000_000_000) {
            Some(rate) => rate,
            None => unreachable!(),
        };
        let hz = self.frequencies_hz.get(node as usize).copied();
        hz.and_then(Frequency::from_hz).unwrap_or(GIGAHERTZ)
    }

    /// The clock rates of the nodes' processors, node 0 first.
    pub fn frequencies(&self) -> Vec<Frequency> {
        (0..self.nodes() as u32)
            .map(|node| self.frequency(node))
            .collect()
    }

    /// Sees that it can be this program's.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.functions_hash != functions_hash() {
            return Err(
                "its functions are numbered differently: another version of Belljar wrote it",
            );
        }
        if self.frequencies_hz.len() > MAX_NODES {
            return Err("it speaks of more nodes than there can be");
        }
        if self.frequencies_hz.contains(&0) {
            return Err("a node's clock rate is zero");
        }
        Ok(())
    }
}

/// CRC-32 of the functions' names in order: tells whether numbers mean the same.
fn functions_hash() -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for function in FUNCTIONS {
        hasher.update(function.name.as_bytes());
        hasher.update(b"\n");
    }
    hasher.finalize()
}

/// Why a trace could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The host's file system failed.
    #[error("cannot {action} the trace {}: {source}", path.display())]
    Io {
        /// What was attempted, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's own reason.
        source: std::io::Error,
    },
    /// The file is not a trace.
    #[error("{} is not a trace of Belljar: {reason}", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A version of the format that this program does not read.
    #[error("the trace {} has format version {version}, this program reads versions {VERSION} and {VERSION_WITH_ACCOUNTS}: read it with the Belljar that wrote it", path.display())]
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

/// The end of a complete trace.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Footer {
    events: u64,
    chunks: u64,
    summary: crate::counters::TraceSummary,
}

#[cfg(test)]
pub(crate) mod tests;
