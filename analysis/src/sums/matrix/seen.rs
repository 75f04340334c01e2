//! Messages that a run recorded from the MPI library.
//!
//! They are records of probes next to the trace, with the library's own names of both sides. Other records map names to processes, in any
//! order; so the file is read twice. Messages that a library sends internally, such as for creating communicators, are in no pair, since
//! the other matrices do not have them. Used by `belljar trace matrix`.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_job::{Communicators, Member, UnknownCall as Unknown, communicators};
use belljar_mpi::{CallKind, FUNCTIONS, Meaning, Meeting, meaning};
use belljar_sim::Time;
use belljar_trace::{MessageWord, Probe, ProbePurpose, ProbeRecord, TraceError, TraceState};

use super::sums::{Pairs, Sum};
use super::{CallTraffic, Matrix, TrafficBy, TrafficOf, UnknownTraffic};
use crate::dump::Filter;
use crate::dump::probes::Records;

/// Most names that are kept, one for each process.
const MOST_NAMES: usize = 1 << 20;

/// Descriptions of messages that are in no pair, or that the pairs only have in part.
const OF_ITSELF: &str = "messages that the library sent for itself, as to make communicators";
const SIDES_UNSEEN: &str = "messages of which it was not seen whom they are from and to";
const BYTES_UNSEEN: &str = "messages in the pairs whose bytes were not seen";

/// True for functions in which a library sends internal messages.
fn sends_of_itself(meaning: &Meaning) -> bool {
    meaning.meeting != Meeting::Nobody
        || matches!(
            meaning.kind,
            CallKind::Epoch(_) | CallKind::FileAccess | CallKind::MakeCommunicator(_)
        )
}

/// Reads the messages that the run of the trace at `path` recorded, and whether all is complete; `None` for a run without such records.
///
/// A `filter` applies to senders, and to the functions within which messages were sent.
///
/// # Errors
/// Returns [`TraceError`] if a file cannot be read.
pub fn seen_traffic(
    path: &Path,
    filter: &Filter,
    of: TrafficOf,
) -> Result<Option<(Matrix, TraceState)>, TraceError> {
    seen_with(path, filter, of, || communicators(path))
}

/// Reads the same with a trace's communicators, which are requested if they are needed.
pub(crate) fn seen_with(
    path: &Path,
    filter: &Filter,
    of: TrafficOf,
    communicators: impl FnOnce() -> Result<Communicators, TraceError>,
) -> Result<Option<(Matrix, TraceState)>, TraceError> {
    let Some(mut records) = Records::beside(path)? else {
        return Ok(None);
    };
    let header = records.header().clone();
    if !header.probes.iter().any(|it| it.purpose.is_message()) {
        return Ok(None);
    }
    let communicators = communicators()?;
    let mut names = Names::default();
    while let Some((record, probe)) = records.next_before(Time::MAX) {
        names.learn(&record, probe, &communicators);
    }
    let Some(mut records) = Records::beside(path)? else {
        return Ok(None);
    };
    let mut seen = TrafficTally {
        of,
        any: !filter.functions.is_empty(),
        ..TrafficTally::default()
    };
    while let Some((record, probe)) = records.next_before(Time::MAX) {
        if probe.purpose.is_message() && filter.wants_message(&record, probe, &header.trace) {
            let at = header.trace.frequency(record.node).time_of(record.entry);
            seen.take(&record, at, &names, &communicators);
        }
    }
    let state = records.state(TraceState::Complete);
    Ok(Some((seen.finish(), state)))
}

/// The owners of a library's names.
#[derive(Debug, Default)]
struct Names {
    members: BTreeMap<u64, Member>,
    /// Jobs by Open MPI's numbers for them, which are the upper half of its names.
    jobs: BTreeMap<u32, u32>,
}

impl Names {
    fn learn(&mut self, record: &ProbeRecord, probe: &Probe, communicators: &Communicators) {
        let named = match probe.purpose {
            ProbePurpose::UcxAddress => record.arguments.first().and_then(|it| it.word()),
            purpose if purpose.is_message() => record.message(MessageWord::From),
            _ => None,
        };
        let (Some(name), Some(member)) = (named, sender(record, communicators)) else {
            return;
        };
        if self.members.len() >= MOST_NAMES && !self.members.contains_key(&name) {
            return;
        }
        self.members.insert(name, member);
        if probe.purpose.is_open_mpi() {
            self.jobs.insert((name >> 32) as u32, member.job);
        }
    }

    /// Returns the process with this name. A process of Open MPI that sends nothing is identified by its job.
    fn member(&self, name: u64) -> Option<Member> {
        let of_job = || {
            let job = *self.jobs.get(&((name >> 32) as u32))?;
            Some(Member {
                job,
                rank: name as u32,
            })
        };
        self.members.get(&name).copied().or_else(of_job)
    }
}

/// Returns the process that made a record.
fn sender(record: &ProbeRecord, communicators: &Communicators) -> Option<Member> {
    let job = communicators.job((record.node, record.process?))?;
    let rank = record.rank?;
    Some(Member { job, rank })
}

/// The traffic of a trace's messages so far.
#[derive(Debug, Default)]
struct TrafficTally {
    of: TrafficOf,
    /// True if the filter names functions, so that their internal messages count, too.
    any: bool,
    pairs: Pairs,
    functions: BTreeMap<&'static str, Sum>,
    unknown: BTreeMap<&'static str, u64>,
    span: Option<(u64, u64)>,
}

impl TrafficTally {
    fn take(&mut self, record: &ProbeRecord, at: Time, names: &Names, all: &Communicators) {
        let from = sender(record, all);
        if self.of.job.is_some() && self.of.job != from.map(|from| from.job) {
            return;
        }
        let bytes = record.message(MessageWord::Bytes);
        let function = record.within.map_or("", function);
        let sum = self.functions.entry(function).or_default();
        sum.add(1, bytes.unwrap_or(0));
        let own = record.within.is_some_and(|it| sends_of_itself(meaning(it)));
        if !self.any && (own || function.is_empty()) {
            return self.count(OF_ITSELF);
        }
        let to = record.message(MessageWord::To);
        let to = to.and_then(|name| names.member(name));
        let (Some(from), Some(to)) = (from, to) else {
            return self.count(SIDES_UNSEEN);
        };
        if bytes.is_none() {
            self.count(BYTES_UNSEEN);
        }
        self.pairs.add(from, to, 1, bytes.unwrap_or(0));
        let at = at.as_ps();
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
    }

    fn count(&mut self, why: &'static str) {
        *self.unknown.entry(why).or_default() += 1;
    }

    fn finish(mut self) -> Matrix {
        if self.pairs.left_out > 0 {
            let pairs = Unknown::Pairs.words();
            self.unknown.insert(pairs, self.pairs.left_out);
        }
        let functions = self.functions.into_iter();
        let mut calls: Vec<CallTraffic> = functions
            .map(|(function, sum)| CallTraffic {
                function,
                messages: sum.messages,
                bytes: sum.bytes,
            })
            .collect();
        let unknown = self.unknown.into_iter();
        let unknown = unknown.map(|(what, count)| UnknownTraffic { what, count });
        calls.sort_by_key(|call| std::cmp::Reverse(call.messages));
        Matrix {
            by: TrafficBy::Seen,
            span_ps: self.span.map_or(0, |(first, last)| last - first),
            pairs: self.pairs.traffic(),
            algorithms: Vec::new(),
            calls,
            unknown: unknown.collect(),
        }
    }
}

fn function(number: u16) -> &'static str {
    let function = FUNCTIONS.get(usize::from(number));
    function.map_or("", |function| function.name)
}

#[cfg(test)]
mod tests;
