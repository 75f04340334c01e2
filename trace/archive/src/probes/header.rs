//! The header of a file of probe records, and the version that it needs.
//!
//! A file has the lowest version whose readers understand all of its probes, so files without accesses to buffers keep their bytes. Called
//! by the writer of such files, and by their readers.

use belljar_trace::{Probe, ProbePurpose, TraceHeader};
use bincode::{Decode, Encode};

/// Version of the format of files without accesses to buffers.
pub(super) const PLAIN_VERSION: u16 = 3;

/// Version of the format of files with accesses to buffers.
pub(super) const VERSION: u16 = 4;

/// Data that precedes the first record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ProbesHeader {
    /// The run.
    pub trace: TraceHeader,
    /// The probes, by their numbers.
    pub probes: Vec<Probe>,
}

impl ProbesHeader {
    /// Returns the version of a file with this header.
    pub(super) fn version(&self) -> u16 {
        let mut probes = self.probes.iter();
        match probes.any(|probe| probe.purpose == ProbePurpose::BufferAccess) {
            true => VERSION,
            false => PLAIN_VERSION,
        }
    }
}
