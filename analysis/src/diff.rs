//! Two traces held against each other: do programs do the same, and what does it cost them?
//!
//! Processes are paired by job and rank, their threads by number. Threads do the same when the program makes the
//! same calls in the same order, with the same partners, tags and sizes; calls by which it waits in a loop are left
//! out, since how many they are depends on how long it waits. Runs repeat to the cycle, so that whatever differs is
//! an effect of what differs between the two scenarios: none of it is noise. Called by `belljar trace diff`.

/// The first calls that differ, as listings have them.
mod calls;
/// Which calls are the same.
mod identity;
/// By cause of waiting, call site and phase.
mod places;
/// As text and as JSON.
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

use crate::dump::frames::{FrameNames, SiteFrame};
use crate::phases::ProgramPhase;
use crate::waiting::WaitKind;
use sequence::{Parting, Sequences};
use times::{Side, Times};

/// A figure of both traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Both {
    /// Of the first.
    pub a: u64,
    /// Of the second.
    pub b: u64,
}

/// What differs between two traces. Times are virtual, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceDiff {
    /// Whether they have the same calls at the same times: whether nothing differs.
    pub equal: bool,
    /// Whether all threads do the same.
    pub same_structure: bool,
    /// From the first call of all to the last return.
    pub span_ps: Both,
    /// By process, in the order of jobs and ranks.
    pub ranks: Vec<RankDiff>,
    /// By function, those whose time changed most first.
    pub functions: Vec<FunctionDiff>,
    /// Waiting by its cause.
    pub waiting: Vec<WaitDiff>,
    /// By call site, those whose time changed most first; empty where a trace does not tell where calls were made.
    pub sites: Vec<SiteDiff>,
    /// By phase of the program, where that was asked for.
    pub phases: Vec<PhaseDiff>,
}

/// A process in both traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankDiff {
    /// The MPI program it belongs to.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Calls that the program made, without those by which it waits in a loop.
    pub calls: Both,
    /// From its first call to its last return.
    pub span_ps: Both,
    /// In MPI calls.
    pub mpi_ps: Both,
    /// The first of its calls that is another one.
    pub parts: Option<CallDiff>,
    /// The first of its calls that is the same but at another time.
    pub shifts: Option<CallDiff>,
}

/// A call of a process, as it is in each of the traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallDiff {
    /// The thread of the process that makes it.
    pub thread: u32,
    /// How many calls the thread made before, without those by which it waits in a loop.
    pub after: u64,
    /// The call in the first trace, as `belljar trace dump` has it; none where the thread makes no more.
    pub a: Option<String>,
    /// The call in the second.
    pub b: Option<String>,
}

/// A function in both traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionDiff {
    /// Its name.
    pub function: &'static str,
    /// Calls that the program made.
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
    /// How long in all.
    pub waiting_ps: Both,
}

/// A call site in both traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SiteDiff {
    /// The function that is called.
    pub function: &'static str,
    /// Where it is called, and where that function is called, and so on; as the first trace has it, if it does.
    pub frames: Vec<SiteFrame>,
    /// Calls that returned.
    pub calls: Both,
    /// Time in them.
    pub total_ps: Both,
    /// How much of that was waiting.
    pub waiting_ps: Both,
}

/// A phase of the program in both traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseDiff {
    /// The phase.
    pub phase: ProgramPhase,
    /// How long it lasts, of all threads together.
    pub time_ps: Both,
    /// Calls that returned.
    pub calls: Both,
    /// Time in them.
    pub total_ps: Both,
    /// How much of that was waiting.
    pub waiting_ps: Both,
}

/// Compares the traces at two paths, and tells whether each is complete. Memory grows with how far processes are
/// ahead of each other in the files, and with what waits for its partner, not with the number of calls. Programs that were
/// built anew have their call sites paired by the functions that `names` tell of each trace.
///
/// # Errors
/// [`TraceError`] when a file cannot be read as a trace.
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
    let mut times = Times::default();
    let mut more = true;
    while more {
        more = false;
        for (side, reader) in Side::ALL.into_iter().zip(&mut readers) {
            let Some(event) = reader.next() else { continue };
            more = true;
            let (header, communicators) = (&headers[side as usize], &communicators[side as usize]);
            times.observe(side, &event, header, communicators);
            sequences.observe(side, &event, communicators);
        }
    }
    let partings = sequences.finish();
    let mut diff = times.finish();
    diff.same_structure = partings.values().all(|parting| parting.other.is_none());
    diff.equal = partings
        .values()
        .all(|parting| *parting == Parting::default())
        && diff.equal;
    for (side, path) in Side::ALL.into_iter().zip([a, b]) {
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
