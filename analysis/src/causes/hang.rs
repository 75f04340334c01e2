//! Detection of stuck ranks and deadlocks in a trace.
//!
//! A rank inside a blocking call needs other ranks: the sender of its message, the receiver of its message, or the missing
//! members of its collective operation. A member in an operation of another family, or with another root, is missing, too.
//! A rank is stuck if it needs a rank that is stuck, or that ends MPI or has ended it. The analysis is conservative: a call that may wait for any of several operations is stuck only if all of them are, and a rank outside of
//! blocking calls is never stuck. Deadlocks are detected in the AND-OR model (Hilbrich et al., "MPI runtime error detection with
//! MUST", 2012). Used by `belljar trace hang`, and at the end of runs that reach their limit.

/// The last call of each process.
mod collect;
/// Needs of calls that did not return.
mod needs;
/// Pending operations.
mod pending;
/// As text and as JSON.
mod render;
/// Ranks that are stuck.
mod stuck;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, communicators, communicators_in};
use belljar_trace::{LostProcess, TraceError, TraceState};
use serde::Serialize;

use crate::dump::frames::{FrameNames, SiteFrame};

use collect::HangCollector;
pub(crate) use pending::{PartNeeds, part_needs};

/// A process by its job and its rank in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct JobRank {
    /// The job, from 0 in the order of starts.
    pub job: u32,
    /// The rank in the job.
    pub rank: u32,
}

/// The verdict on a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HangVerdict {
    /// Ranks wait for each other in a circle.
    Deadlock,
    /// A rank waits for one that has ended MPI, or whose process has ended.
    WaitsForEnded,
    /// No rank is stuck by the calls of the trace.
    #[default]
    NotStuck,
}

/// The state of a process at the end of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankState {
    /// Inside a call.
    InCall,
    /// Inside `MPI_Finalize`: it sends nothing any more.
    Finalizing,
    /// Between calls, or in a loop of calls that return at once.
    Outside,
    /// After `MPI_Finalize`.
    Ended,
    /// Its process has ended without `MPI_Finalize`.
    Lost,
}

/// A process at the end of the trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HungRank {
    /// The process.
    #[serde(flatten)]
    pub of: JobRank,
    /// Its node.
    pub node: u32,
    /// Its state.
    pub state: RankState,
    /// The call that it is in, or its last one.
    pub function: &'static str,
    /// The arguments of this call, without addresses.
    pub arguments: String,
    /// True if the call did not return.
    #[serde(skip)]
    pub is_inside: bool,
    /// The entry of the call that it is in, or the return of its last one, in picoseconds.
    pub since_ps: u64,
    /// From then to the last time in the trace.
    pub for_ps: u64,
    /// Processes without which the call cannot return.
    pub waits_for: Vec<JobRank>,
    /// True if one of them suffices.
    pub any: bool,
    /// True if it cannot go on.
    pub stuck: bool,
    /// True if it is in a collective operation that other ranks have not called, but another one in its place.
    #[serde(skip_serializing_if = "is_false")]
    pub mismatched: bool,
    /// The status with which its process ended, as `wait` returns it, if that was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<u32>,
    /// The call site; empty if the trace has none.
    pub site: Vec<SiteFrame>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Messages of a kind that have only one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OneSided {
    /// The sender; `None` for a receive from any.
    pub from: Option<JobRank>,
    /// The receiver.
    pub to: JobRank,
    /// The tag; `None` for any.
    pub tag: Option<i32>,
    /// Their number.
    pub count: u64,
}

/// Stuck ranks of a trace, and messages with one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hang {
    /// The verdict.
    pub verdict: HangVerdict,
    /// A chain of ranks; each waits for the next one. In a deadlock the last waits for the first; otherwise the last has ended MPI.
    pub chain: Vec<JobRank>,
    /// The last time in the trace, in picoseconds.
    pub end_ps: u64,
    /// All processes.
    pub ranks: Vec<HungRank>,
    /// Messages that no receive took.
    pub unreceived: Vec<OneSided>,
    /// Receives that no message reached.
    pub unsent: Vec<OneSided>,
}

/// Reads the trace at `path`. `end_ps` is the run's end, if it is known to be later than the last call. Processes in `lost` have
/// ended. Names of call sites come from `names`.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn hang(
    path: &Path,
    end_ps: Option<u64>,
    lost: &[LostProcess],
    names: Option<FrameNames<'_>>,
) -> Result<(Hang, TraceState), TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let hang = hang_of(&mut reader, &communicators, end_ps, lost, names);
    Ok((hang, reader.state().clone()))
}

/// The same for a trace of the current version in `file`, which may still grow; `path` only names it in errors.
///
/// # Errors
/// The same as for [`hang`].
pub fn hang_in(
    file: &Arc<File>,
    path: &Path,
    end_ps: u64,
    lost: &[LostProcess],
) -> Result<Hang, TraceError> {
    let communicators = communicators_in(TraceReader::of_file(file, path)?);
    let mut reader = TraceReader::of_file(file, path)?;
    Ok(hang_of(
        &mut reader,
        &communicators,
        Some(end_ps),
        lost,
        None,
    ))
}

fn hang_of(
    reader: &mut TraceReader,
    communicators: &Communicators,
    end_ps: Option<u64>,
    lost: &[LostProcess],
    names: Option<FrameNames<'_>>,
) -> Hang {
    let header = reader.header().clone();
    let mut collector = HangCollector::new(&header, communicators);
    for event in reader.by_ref() {
        collector.observe(&event);
    }
    collector.finish(end_ps, lost, names)
}

#[cfg(test)]
mod tests;
