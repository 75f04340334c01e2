//! Comparison of two traces: differences in the programs' calls, and in their times.
//!
//! Processes are paired by job and rank, their threads by number. Threads are equal if the program makes the same calls in
//! the same order, with the same partners, tags and sizes. Polls are ignored, because their number depends on how long the
//! program waits. Runs are reproducible to the cycle, so all differences follow from differences between the two
//! scenarios, without any noise. Used by `belljar trace diff`.

/// The first calls that differ, as listings show them.
mod calls;
/// Equality of calls.
mod identity;
/// Differences by cause of waiting, call site and phase.
mod places;
/// The result as text and as JSON.
mod render;
/// Sequences of calls, one call after another.
mod sequence;
/// Times by function and by process.
mod times;

use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::Member;
use belljar_trace::{TraceError, TraceState};
use serde::Serialize;

use crate::causes::waiting::WaitKind;
use crate::dump::frames::{FrameNames, SiteFrame};
use crate::structure::phases::ProgramPhase;
pub use render::processors_warning;
use sequence::{Parting, Sequences};
use times::{DiffSide, DiffSums};

/// A figure of both traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Both {
    /// The figure of the first trace.
    pub a: u64,
    /// The figure of the second trace.
    pub b: u64,
}

/// The differences between two traces. Times are virtual, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceDiff {
    /// True if they have the same calls at the same times, so that there is no difference.
    pub equal: bool,
    /// True if all threads make the same calls.
    pub same_structure: bool,
    /// Processors of the time models of both runs; `None` if they are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<[Vec<String>; 2]>,
    /// Time from the first call of all to the last return.
    pub span_ps: Both,
    /// By process, in the order of jobs and ranks.
    pub ranks: Vec<RankDiff>,
    /// By function, in descending order of the change in time.
    pub functions: Vec<FunctionDiff>,
    /// Waiting by its cause.
    pub waiting: Vec<WaitDiff>,
    /// By call site, in descending order of the change in time; empty if a trace has no call sites.
    pub sites: Vec<SiteDiff>,
    /// By phase of the program, if requested.
    pub phases: Vec<PhaseDiff>,
}

/// A process in both traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankDiff {
    /// Its MPI program.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// The program's calls, except for polls.
    pub calls: Both,
    /// Time from its first call to its last return.
    pub span_ps: Both,
    /// Time in MPI calls.
    pub mpi_ps: Both,
    /// The first of its calls that differs.
    pub parts: Option<CallDiff>,
    /// The first of its calls that is the same but at another time.
    pub shifts: Option<CallDiff>,
}

/// A call of a process, as in each of the traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallDiff {
    /// The thread of the process that makes it.
    pub thread: u32,
    /// The number of the thread's earlier calls, except for polls.
    pub after: u64,
    /// The call in the first trace, as shown by `belljar trace dump`; `None` if the thread makes no more calls.
    pub a: Option<String>,
    /// The call in the second.
    pub b: Option<String>,
}

/// A function in both traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionDiff {
    /// Its name.
    pub function: &'static str,
    /// The program's calls.
    pub calls: Both,
    /// Time in them.
    pub total_ps: Both,
}

/// A cause of waiting in both traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WaitDiff {
    /// The cause.
    pub kind: WaitKind,
    /// Calls that waited.
    pub calls: Both,
    /// Total waiting.
    pub waiting_ps: Both,
}

/// A call site in both traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SiteDiff {
    /// The function that is called.
    pub function: &'static str,
    /// The call's address, the address at which its function was called, and so on; from the first trace if it has them.
    pub frames: Vec<SiteFrame>,
    /// Calls that returned.
    pub calls: Both,
    /// Time in them.
    pub total_ps: Both,
    /// The part that was waiting.
    pub waiting_ps: Both,
}

/// A phase of the program in both traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseDiff {
    /// The phase.
    pub phase: ProgramPhase,
    /// Its duration, summed over all threads.
    pub time_ps: Both,
    /// Calls that returned.
    pub calls: Both,
    /// Time in them.
    pub total_ps: Both,
    /// The part that was waiting.
    pub waiting_ps: Both,
}

/// Compares the traces at two paths, and returns whether each is complete. Memory grows with the distance between
/// processes in the files, and with the number of operations waiting for partners, not with the number of calls. In
/// rebuilt programs, call sites are paired by the functions that `names` returns for each trace.
///
/// # Errors
/// Returns [`TraceError`] if a file cannot be read as a trace.
pub fn diff(
    a: &Path,
    b: &Path,
    phases: bool,
    names: [FrameNames<'_>; 2],
) -> Result<(TraceDiff, [TraceState; 2]), TraceError> {
    let communicators = [
        belljar_job::communicators(a)?,
        belljar_job::communicators(b)?,
    ];
    let mut readers = [TraceReader::open(a)?, TraceReader::open(b)?];
    let headers = readers.each_ref().map(|reader| reader.header().clone());
    let mut sequences = Sequences::default();
    let mut times = DiffSums::default();
    let mut more = true;
    while more {
        more = false;
        for (side, reader) in DiffSide::ALL.into_iter().zip(&mut readers) {
            let Some(event) = reader.next() else { continue };
            more = true;
            let (header, communicators) = (&headers[side as usize], &communicators[side as usize]);
            times.observe(side, &event, header, communicators);
            sequences.observe(side, &event, communicators);
        }
    }
    let partings = sequences.finish();
    let mut diff = times.finish();
    let [own, other] = headers
        .each_ref()
        .map(|header| header.processors().to_vec());
    diff.processors = (own != other).then_some([own, other]);
    diff.same_structure = partings.values().all(|parting| parting.other.is_none());
    diff.equal = partings
        .values()
        .all(|parting| *parting == Parting::default())
        && diff.equal;
    for (side, path) in DiffSide::ALL.into_iter().zip([a, b]) {
        let (header, communicators) = (&headers[side as usize], &communicators[side as usize]);
        calls::name(&mut diff, &partings, side, path, header, communicators)?;
    }
    places::compare(&mut diff, [a, b], &communicators, phases, names)?;
    let states = readers.each_ref().map(|reader| reader.state().clone());
    Ok((diff, states))
}

/// A process's thread.
type ThreadKey = (Member, u32);

#[cfg(test)]
mod tests;
