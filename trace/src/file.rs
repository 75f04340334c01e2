//! The common parts of all versions of the trace file: the beginning, the end of reading, and errors.
//!
//! A file consists of [`MAGIC`], a version, and data in that version's format; its header is a [`TraceHeader`].
//! `belljar-archive` writes and reads it. Used by `belljar-archive`, analyses and runs.

use std::path::PathBuf;

use belljar_mpi::{FUNCTIONS, Standard};
use belljar_sim::Frequency;
use bincode::{Decode, Encode};

use crate::codec::not_encoded;

/// The name of the trace in a run's directory.
pub const TRACE_FILE: &str = "trace.bjt";

/// The first bytes of a trace file.
pub const MAGIC: [u8; 8] = *b"BelljarT";

/// Version of the format that is written, stored after [`MAGIC`] as 16 bits, little endian.
pub const VERSION: u16 = 14;

/// The version of a file whose header names modelled processors; it is otherwise as [`VERSION`].
pub const MODELLED_VERSION: u16 = 15;

/// The version of a file whose calls have [datatypes](crate::CallDatatypes), and whose header is as that of
/// [`MODELLED_VERSION`].
pub const TYPED_VERSION: u16 = 16;

/// The latest version that is read.
pub const LATEST_VERSION: u16 = TYPED_VERSION;

/// The last version whose times include the number of calls that a record stands for.
pub const UNCOUNTED_VERSION: u16 = 11;

/// The last version without groups of epochs on windows and partitioned requests.
pub const UNGROUPED_VERSION: u16 = 12;

/// The last version without operations, send modes, kinds of accesses and numbers of persistent requests, whose
/// functions are those of MPI 4.0.
pub const UNEXPLAINED_VERSION: u16 = 13;

/// The earliest version that is read.
pub const EARLIEST_VERSION: u16 = 11;

/// Most nodes that a header may declare.
const MAX_NODES: usize = 1 << 20;

/// Most processors that a header may name, and the most bytes of a name.
const MAX_PROCESSORS: usize = 1024;
const MAX_PROCESSOR_BYTES: usize = 256;

/// Names of modelled processors, which only headers of version [`MODELLED_VERSION`] and later have, after all other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProcessorNames(Vec<String>);

not_encoded!(ProcessorNames);

/// True if calls have datatypes: then the file has [`TYPED_VERSION`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HasDatatypes(bool);

not_encoded!(HasDatatypes);

/// A trace's data that precedes its first event.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TraceHeader {
    scenario: String,
    frequencies_hz: Vec<u64>,
    functions_hash: u32,
    processors: ProcessorNames,
    typed: HasDatatypes,
}

impl TraceHeader {
    /// Creates the header of a run of the scenario called `scenario`, on nodes with processors of these clock rates
    /// (node 0 first).
    pub fn new(scenario: &str, frequencies: &[Frequency]) -> Self {
        Self {
            scenario: scenario.to_owned(),
            frequencies_hz: frequencies.iter().map(|rate| rate.as_hz()).collect(),
            functions_hash: functions_hash(Standard::FaultTolerance),
            processors: ProcessorNames::default(),
            typed: HasDatatypes::default(),
        }
    }

    /// The same header of a run whose time models have these processors, each a name and the hash of its file.
    pub fn with_processors(mut self, processors: &[String]) -> Self {
        self.processors = ProcessorNames(processors.to_vec());
        self
    }

    /// The same header of a run whose calls have datatypes, if `typed`.
    pub fn with_datatypes(mut self, typed: bool) -> Self {
        self.typed = HasDatatypes(typed);
        self
    }

    /// True if calls have datatypes.
    pub fn has_datatypes(&self) -> bool {
        self.typed.0
    }

    /// Returns the processors of the run's time models, each a name and the hash of its file; none by default.
    pub fn processors(&self) -> &[String] {
        &self.processors.0
    }

    /// Returns the version of a file with this header.
    pub fn file_version(&self) -> u16 {
        match (self.has_datatypes(), self.processors().is_empty()) {
            (true, _) => TYPED_VERSION,
            (false, true) => VERSION,
            (false, false) => MODELLED_VERSION,
        }
    }

    /// Returns the same header for a file of the current version.
    pub fn as_written_now(&self) -> Self {
        Self::new(&self.scenario, &self.frequencies())
            .with_processors(self.processors())
            .with_datatypes(self.has_datatypes())
    }

    /// Returns the scenario's name.
    pub fn scenario(&self) -> &str {
        &self.scenario
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.frequencies_hz.len()
    }

    /// Returns the clock rate of a node's processor; 1 GHz for an unknown node.
    pub fn frequency(&self, node: u32) -> Frequency {
        const GIGAHERTZ: Frequency = match Frequency::from_hz(1_000_000_000) {
            Some(rate) => rate,
            None => unreachable!(),
        };
        let hz = self.frequencies_hz.get(node as usize).copied();
        hz.and_then(Frequency::from_hz).unwrap_or(GIGAHERTZ)
    }

    /// Returns the clock rates of the nodes' processors, node 0 first.
    pub fn frequencies(&self) -> Vec<Frequency> {
        (0..self.nodes() as u32)
            .map(|node| self.frequency(node))
            .collect()
    }

    /// Checks that it is a valid header for a file of this version.
    ///
    /// # Errors
    /// Returns the first fault found.
    pub fn check(&self, version: u16) -> Result<(), &'static str> {
        let latest = match version {
            ..=UNEXPLAINED_VERSION => Standard::Mpi40,
            _ => Standard::FaultTolerance,
        };
        if self.functions_hash != functions_hash(latest) {
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
        let long = |name: &String| name.is_empty() || name.len() > MAX_PROCESSOR_BYTES;
        if self.processors().len() > MAX_PROCESSORS || self.processors().iter().any(long) {
            return Err("its processors are more than 1024, or a name is empty or above 256 bytes");
        }
        Ok(())
    }
}

/// CRC-32 of the names, in order, of the functions of standards up to this one: equal if numbers have equal meanings.
fn functions_hash(latest: Standard) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for function in FUNCTIONS.iter().filter(|it| it.standard <= latest) {
        hasher.update(function.name.as_bytes());
        hasher.update(b"\n");
    }
    hasher.finalize()
}

/// The end of a trace, known once it was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceState {
    /// There is more to read.
    Reading,
    /// The footer was reached and agrees with the data before it.
    Complete,
    /// The trace breaks off, or is damaged from here on; the data before is intact.
    Incomplete {
        /// The offset in the file, in bytes, at which the damage begins.
        offset: u64,
        /// The fault found there.
        reason: String,
    },
}

/// An error in writing or reading a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The host's file system failed.
    #[error("cannot {action} the trace {}: {source}", path.display())]
    Io {
        /// The attempted action, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file is not a trace.
    #[error("{} is not a trace of Belljar: {reason}", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A version of the format that this program does not read.
    #[error("the trace {} has format version {version}, this program reads versions {EARLIEST_VERSION} to {LATEST_VERSION}: read it with the Belljar that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u16,
    },
    /// A trace whose writing cannot be continued.
    #[error("cannot continue the trace {}: {reason}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A trace that another version of the format cannot hold.
    #[error("cannot convert the trace {} to version {version}: {reason}", path.display())]
    Convert {
        /// The file.
        path: PathBuf,
        /// The requested version.
        version: u16,
        /// The reason.
        reason: String,
    },
    /// A trace whose omissions are unknown.
    #[error("cannot know what the trace {} lacks: {reason}; restore the file, or remove it to read what there is", path.display())]
    Lacks {
        /// The trace.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A record that cannot be encoded.
    #[error("a record of the trace {} cannot be encoded: {reason}; please report it", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
}
