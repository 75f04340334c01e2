//! Traffic by pairs of ranks or of nodes.
//!
//! The same run has four such matrices. By *call*: as the program specified it, with collective operations by their roots and groups. By *message*: with collective
//! operations as the messages of the MPI library, by its own tables. *Seen*: the messages that the library sent, in runs that recorded them. On the *wire*: the frames
//! that the nodes' network cards sent, as written by the run itself. Traffic that cannot be determined is counted, with the reason. Created by [`TrafficCollector`](matrix::TrafficCollector) or
//! read from a run's `wire.csv`, shown by `render` and `picture`; used by `belljar trace matrix`.

/// Conversion of calls to traffic.
mod collect;
/// Collective operations as the library's messages.
mod messages;
/// The matrix as an image.
mod picture;
/// The matrix as text, CSV and JSON.
mod render;
/// Equal collective calls.
mod repeats;
/// Messages recorded by a run.
mod seen;
/// Sums by pairs.
mod sums;
/// Traffic of the network cards.
mod wire;

use std::path::Path;

use belljar_archive::TraceReader;
use belljar_collectives::Tables;
use belljar_job::communicators;
use belljar_trace::{TraceError, TraceState};
use serde::Serialize;

use crate::counted::TimesMode;
use crate::dump::Filter;

pub use collect::TrafficCollector;
pub use seen::seen_traffic;
pub(crate) use seen::seen_with;
pub use wire::WireError;

/// The subject of a matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficBy {
    /// The program's calls.
    #[default]
    Call,
    /// The messages of the MPI library.
    Message,
    /// Messages that the run recorded from the MPI library.
    Seen,
    /// Frames between nodes.
    Wire,
}

/// Selection of calls, in addition to a [`Filter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficOf {
    /// Calls on communicators to which their processes give this number.
    pub communicator: Option<u32>,
    /// Calls of this job's processes.
    pub job: Option<u32>,
}

/// Traffic by pairs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Matrix {
    /// The subject of the matrix.
    pub by: TrafficBy,
    /// Virtual time from the first selected call to the last one's end, in picoseconds, which is the denominator of rates. On the wire, the whole run. 0 if no times were
    /// read.
    pub span_ps: u64,
    /// Pairs with any traffic, in the order of senders and receivers.
    pub pairs: Vec<PairTraffic>,
    /// Collective operations by the library's algorithm. Empty unless messages are counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<AlgorithmTraffic>,
    /// Recorded messages by the function of the call within which they were sent, including the library's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallTraffic>,
    /// Traffic that could not be determined and is not in the pairs.
    pub unknown: Vec<UnknownTraffic>,
}

/// Traffic from one rank or node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PairTraffic {
    /// The sender's job; `None` on the wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
    /// The sender's rank in `MPI_COMM_WORLD`, or its node.
    pub from: u32,
    /// The receiver's job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_job: Option<u32>,
    /// The receiver's rank, or its node; `None` for multicast frames.
    pub to: Option<u32>,
    /// Messages, or frames.
    pub messages: u64,
    /// Their bytes: of data, or of frames from address to payload.
    pub bytes: u64,
    /// For frames, the bytes of data in TCP segments and UDP datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<u64>,
}

/// The traffic of an algorithm for a collective operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlgorithmTraffic {
    /// The operation, as the name of its blocking function without `MPI_`.
    pub operation: &'static str,
    /// The algorithm.
    pub algorithm: String,
    /// Calls, counted for each process.
    pub calls: u64,
    /// Messages sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Messages that were sent within calls of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallTraffic {
    /// The function; empty outside of calls.
    pub function: &'static str,
    /// Messages.
    pub messages: u64,
    /// Their bytes, as far as known.
    pub bytes: u64,
}

/// Calls or messages that are not in the pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownTraffic {
    /// A description, with the reason.
    pub what: &'static str,
    /// How many.
    pub count: u64,
}

impl Matrix {
    /// Returns the messages of all pairs.
    pub fn messages(&self) -> u64 {
        let messages = self.pairs.iter().map(|pair| pair.messages);
        messages.fold(0, u64::saturating_add)
    }

    /// Returns the bytes of all pairs.
    pub fn bytes(&self) -> u64 {
        let bytes = self.pairs.iter().map(|pair| pair.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the bytes a second, over the matrix's span; 0 if the span is empty.
    pub fn rate(&self, bytes: u64) -> u64 {
        let per_second = u128::from(bytes) * 1_000_000_000_000;
        let rate = per_second.checked_div(self.span_ps.into()).unwrap_or(0);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// Computes the traffic of the selected calls of the trace at `path`, and returns whether that is complete: by message with the library's `tables`, by call without.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn traffic(
    path: &Path,
    filter: &Filter,
    of: TrafficOf,
    tables: Option<&Tables>,
) -> Result<(Matrix, TraceState), TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let mut collector = TrafficCollector::new(&header, &communicators, of, tables);
    for event in reader.by_ref() {
        collector.observe(&event, filter.wants(&event, &header));
    }
    Ok((collector.finish(), reader.state().clone()))
}

/// Computes the same without times, which are only read if the trace has several jobs, because jobs are distinguished by their start. A filter that [needs
/// times](Filter::needs_times) sees all calls at time 0.
///
/// # Errors
/// The same as for [`traffic`].
pub fn untimed_traffic(
    path: &Path,
    filter: &Filter,
    of: TrafficOf,
    tables: Option<&Tables>,
) -> Result<(Matrix, TraceState), TraceError> {
    const TIMES: TimesMode = TimesMode::Unread;
    let communicators = TIMES.communicators(path)?;
    let mut reader = TIMES.open(path)?;
    let header = reader.header().clone();
    let mut collector = TrafficCollector::new(&header, &communicators, of, tables);
    for event in reader.by_ref() {
        collector.observe(&event, filter.wants(&event, &header));
    }
    let matrix = Matrix {
        span_ps: 0,
        ..collector.finish()
    };
    Ok((matrix, reader.state().clone()))
}

#[cfg(test)]
mod tests;
