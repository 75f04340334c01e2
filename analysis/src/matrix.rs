//! Who sends how much to whom: traffic by pairs of ranks, or of nodes.
//!
//! The same run has four answers. By *call*: what the program asked for, collective operations as their roots and groups
//! state them. By *message*: collective operations as the messages that the MPI library makes of them, by its own tables. *Seen*: the messages
//! that the library sent, in runs that recorded them. On the *wire*: what the nodes' network cards sent, which a run writes itself. What cannot be worked out is counted, with the reason. Made by
//! [`TrafficCollector`] or read from a run's `wire.csv`, shown by `render` and `picture`; called by `belljar trace matrix`.

/// From calls to traffic.
mod collect;
/// Collective operations as the library's messages.
mod messages;
/// The matrix as a picture.
mod picture;
/// As text, CSV and JSON.
mod render;
/// Equal collective calls.
mod repeats;
/// Messages that a run saw.
mod seen;
/// Sums by pairs.
mod sums;
/// What passed the network cards.
mod wire;

use std::path::Path;

use belljar_archive::TraceReader;
use belljar_collectives::Tables;
use belljar_job::communicators;
use belljar_trace::{TraceError, TraceState};
use serde::Serialize;

use crate::counted::Times;
use crate::dump::Filter;

pub use collect::TrafficCollector;
pub use seen::seen_traffic;
pub(crate) use seen::seen_with;
pub use wire::WireError;

/// What a matrix counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficBy {
    /// What the program called.
    #[default]
    Call,
    /// The messages of the MPI library.
    Message,
    /// Messages that the run saw the MPI library send.
    Seen,
    /// Frames between nodes.
    Wire,
}

/// Which calls are wanted, besides what a [`Filter`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficOf {
    /// On communicators that their processes number so.
    pub communicator: Option<u32>,
    /// Of this job's processes.
    pub job: Option<u32>,
}

/// Traffic by pairs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Matrix {
    /// What is counted.
    pub by: TrafficBy,
    /// Virtual time from the first call that counts to the last one's end, in picoseconds, which rates are over. On the
    /// wire, the whole run. 0 where no times were read.
    pub span_ps: u64,
    /// Pairs with any traffic, in the order of senders and receivers.
    pub pairs: Vec<PairTraffic>,
    /// Collective operations by what the library makes of them. Empty unless messages are counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<AlgorithmTraffic>,
    /// Messages seen by the function of the call within which they were sent, those of the library's own, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallTraffic>,
    /// What could not be worked out and is not in the pairs.
    pub unknown: Vec<UnknownTraffic>,
}

/// What goes from one to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PairTraffic {
    /// The sender's job; on the wire there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
    /// The sender's rank in `MPI_COMM_WORLD`, or its node.
    pub from: u32,
    /// The receiver's job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_job: Option<u32>,
    /// The receiver's rank, or its node; `None` for frames to groups of nodes.
    pub to: Option<u32>,
    /// Messages, or frames.
    pub messages: u64,
    /// Their bytes: of data, or of frames from address to payload.
    pub bytes: u64,
    /// Of frames, bytes of data in TCP segments and UDP datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<u64>,
}

/// What the library made of a collective operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlgorithmTraffic {
    /// The operation, as its blocking function without `MPI_`.
    pub operation: &'static str,
    /// The algorithm.
    pub algorithm: String,
    /// Calls, of each process.
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
    /// Their bytes, as far as they are known.
    pub bytes: u64,
}

/// Calls or messages that are not in the pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownTraffic {
    /// What they are, and why, in words.
    pub what: &'static str,
    /// How many.
    pub count: u64,
}

impl Matrix {
    /// Messages of all pairs.
    pub fn messages(&self) -> u64 {
        let messages = self.pairs.iter().map(|pair| pair.messages);
        messages.fold(0, u64::saturating_add)
    }

    /// Bytes of all pairs.
    pub fn bytes(&self) -> u64 {
        let bytes = self.pairs.iter().map(|pair| pair.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Bytes a second, over the matrix's span; 0 when that is empty.
    pub fn rate(&self, bytes: u64) -> u64 {
        let per_second = u128::from(bytes) * 1_000_000_000_000;
        let rate = per_second.checked_div(self.span_ps.into()).unwrap_or(0);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// The traffic of the wanted calls of the trace at `path`, and whether that is complete: by message with the library's
/// `tables`, by call without.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
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

/// The same without times: nothing that the trace has of them is read, unless it has several jobs, which are told
/// apart by when they began. A filter that [needs times](Filter::needs_times) finds all calls at 0.
///
/// # Errors
/// As for [`traffic`].
pub fn untimed_traffic(
    path: &Path,
    filter: &Filter,
    of: TrafficOf,
    tables: Option<&Tables>,
) -> Result<(Matrix, TraceState), TraceError> {
    const TIMES: Times = Times::Unread;
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
