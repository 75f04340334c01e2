//! The first calls of each process that differ, as listings show them.
//!
//! The positions at which threads diverge are known after both traces were read; each is then read again, up to its last such
//! call. Used by `diff`, for one trace and then for the other.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, Member};
use belljar_trace::{TraceError, TraceHeader};

use super::sequence::Parting;
use super::times::DiffSide;
use super::{ThreadKey, TraceDiff, identity};
use crate::dump::{DumpFormat, write_event};

/// Calls of a thread that are still to be found, by the number of earlier calls.
struct SoughtCalls {
    seen: u64,
    marks: [Option<u64>; 2],
}

/// Adds the first differing calls as one of the traces has them.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub(super) fn name(
    diff: &mut TraceDiff,
    partings: &BTreeMap<ThreadKey, Parting>,
    side: DiffSide,
    path: &Path,
    header: &TraceHeader,
    communicators: &Communicators,
) -> Result<(), TraceError> {
    place(diff, partings);
    let mut wanted = wanted(partings);
    if wanted.is_empty() {
        return Ok(());
    }
    let counted = TraceReader::open(path)?.filter(identity::counts);
    for event in counted {
        let Some(job) = communicators.job((event.node, event.process)) else {
            continue;
        };
        let member = Member {
            job,
            rank: event.rank,
        };
        let key = (member, event.thread);
        let Some(own) = wanted.get_mut(&key) else {
            continue;
        };
        let at = own.seen;
        own.seen += 1;
        let found = own.marks.contains(&Some(at));
        if own.marks.iter().flatten().all(|mark| *mark <= at) {
            wanted.remove(&key);
        }
        if found {
            let mut line = Vec::new();
            // Writing to memory cannot fail.
            let _ = write_event(&event, header, communicators, DumpFormat::Text, &mut line);
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            tell(diff, key, at, side, &line);
        }
        if wanted.is_empty() {
            break;
        }
    }
    Ok(())
}

fn wanted(partings: &BTreeMap<ThreadKey, Parting>) -> BTreeMap<ThreadKey, SoughtCalls> {
    let all = partings.iter().map(|(key, parting)| {
        let marks = [parting.other, parting.shifted];
        (*key, SoughtCalls { seen: 0, marks })
    });
    all.filter(|(_, wanted)| wanted.marks.iter().any(Option::is_some))
        .collect()
}

/// Finds, for each process, the thread that differs first, and its number of earlier calls.
fn place(diff: &mut TraceDiff, partings: &BTreeMap<ThreadKey, Parting>) {
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
}

/// Stores a call's line in the result.
fn tell(diff: &mut TraceDiff, (member, thread): ThreadKey, at: u64, side: DiffSide, line: &str) {
    let mut ranks = diff.ranks.iter_mut();
    let Some(rank) = ranks.find(|own| (own.job, own.rank) == (member.job, member.rank)) else {
        return;
    };
    for call in [&mut rank.parts, &mut rank.shifts].into_iter().flatten() {
        if (call.thread, call.after) == (thread, at) {
            let place = match side {
                DiffSide::A => &mut call.a,
                DiffSide::B => &mut call.b,
            };
            *place = Some(line.to_owned());
        }
    }
}
