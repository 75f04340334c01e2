//! Two traces held against each other: do programs do the same, and what does it cost them?
//!
//! Processes are paired by job and rank, their threads by number. Threads do the same when the program makes the
//! same calls in the same order, with the same partners, tags and sizes; calls by which it waits in a loop are left
//! out, since how many they are depends on how long it waits. Runs repeat to the cycle, so that whatever differs is
//! an effect of what differs between the two scenarios: none of it is noise. Called by `belljar trace diff`.

/// Which calls are the same.
mod identity;
/// As text and as JSON.
mod render;
/// Sequences of calls, one call after another.
mod sequence;
/// Times by function and by process.
mod times;

use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_trace::{TraceError, TraceHeader, TraceState};
use serde::Serialize;

use crate::communicators::{Communicators, Member};
use crate::dump::{DumpFormat, Filter, write_event};
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

/// Compares the traces at two paths, and tells whether each is complete. Memory grows with how far processes are
/// ahead of each other in the files, and with what waits for its partner, not with the number of calls.
///
/// # Errors
/// [`TraceError`] when a file cannot be read as a trace.
pub fn diff(a: &Path, b: &Path) -> Result<(TraceDiff, [TraceState; 2]), TraceError> {
    let communicators = [crate::communicators(a)?, crate::communicators(b)?];
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
        name_calls(&mut diff, &partings, side, path, header, communicators)?;
    }
    diff.waiting = waiting(a, b)?;
    let states = readers.each_ref().map(|reader| reader.state().clone());
    Ok((diff, states))
}

/// A process's thread.
type ThreadKey = (Member, u32);

/// Reads a trace once more, as far as it takes to tell which calls are the first that differ.
fn name_calls(
    diff: &mut TraceDiff,
    partings: &BTreeMap<ThreadKey, Parting>,
    side: Side,
    path: &Path,
    header: &TraceHeader,
    communicators: &Communicators,
) -> Result<(), TraceError> {
    let mut wanted: BTreeMap<ThreadKey, Wanted> = BTreeMap::new();
    for (&key, parting) in partings {
        let marks = [parting.other, parting.shifted];
        if marks.iter().any(Option::is_some) {
            wanted.insert(key, Wanted { seen: 0, marks });
        }
    }
    for rank in &mut diff.ranks {
        let member = Member {
            job: rank.job,
            rank: rank.rank,
        };
        let own = partings.range((member, 0)..=(member, u32::MAX));
        let first = |mark: fn(&Parting) -> Option<u64>| {
            let mut own = own.clone();
            own.find_map(|(&(_, thread), parting)| Some((thread, mark(parting)?)))
        };
        for (call, found) in [
            (&mut rank.parts, first(|parting| parting.other)),
            (&mut rank.shifts, first(|parting| parting.shifted)),
        ] {
            if let Some((thread, after)) = found {
                let call = call.get_or_insert_default();
                (call.thread, call.after) = (thread, after);
            }
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    for event in TraceReader::open(path)? {
        if !identity::counts(&event) {
            continue;
        }
        let Some(job) = communicators.job((event.node, event.process)) else {
            continue;
        };
        let member = Member {
            job,
            rank: event.rank,
        };
        let Some(own) = wanted.get_mut(&(member, event.thread)) else {
            continue;
        };
        let at = own.seen;
        own.seen += 1;
        let [other, shifted] = own.marks.map(|mark| mark == Some(at));
        if own.marks.iter().flatten().all(|mark| *mark <= at) {
            wanted.remove(&(member, event.thread));
        }
        if other || shifted {
            let mut line = Vec::new();
            // Writing to memory cannot fail.
            let _ = write_event(&event, header, communicators, DumpFormat::Text, &mut line);
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            tell(diff, (member, event.thread), at, side, &line);
        }
        if wanted.is_empty() {
            break;
        }
    }
    Ok(())
}

/// Calls of a thread that are still to be found.
struct Wanted {
    seen: u64,
    marks: [Option<u64>; 2],
}

/// Writes a call's line where it belongs.
fn tell(diff: &mut TraceDiff, (member, thread): ThreadKey, at: u64, side: Side, line: &str) {
    let mut ranks = diff.ranks.iter_mut();
    let Some(rank) = ranks.find(|own| (own.job, own.rank) == (member.job, member.rank)) else {
        return;
    };
    for call in [&mut rank.parts, &mut rank.shifts].into_iter().flatten() {
        if (call.thread, call.after) == (thread, at) {
            let place = match side {
                Side::A => &mut call.a,
                Side::B => &mut call.b,
            };
            *place = Some(line.to_owned());
        }
    }
}

/// Waiting of both, by cause.
fn waiting(a: &Path, b: &Path) -> Result<Vec<WaitDiff>, TraceError> {
    let everything = Filter::default();
    let waiting = [
        crate::waiting(a, &everything)?.0,
        crate::waiting(b, &everything)?.0,
    ];
    let of = |side: usize, kind: WaitKind| {
        let own = waiting[side].kinds.iter().find(|own| own.kind == kind);
        own.map_or((0, 0), |own| (own.calls, own.waiting_ps))
    };
    let all = WaitKind::ALL.into_iter().map(|kind| {
        let (a, b) = (of(0, kind), of(1, kind));
        WaitDiff {
            kind,
            calls: Both { a: a.0, b: b.0 },
            waiting_ps: Both { a: a.1, b: b.1 },
        }
    });
    Ok(all.filter(|own| own.calls != Both::default()).collect())
}

#[cfg(test)]
mod tests;
