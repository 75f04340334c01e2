//! The critical path: the chain of computing and communicating that determines how long a program took.
//!
//! It is followed from the call that returned last backwards: along a process until a call of it that waited,
//! then along the process that the call waited for, from the same time on. So it covers the time from the program's
//! beginning to its end without a gap, and what is on it made the program last; what is not on it could have
//! taken longer. The method is that of D. Böhme, F. Wolf, B. de Supinski, M. Schulz and M. Geimer, "Scalable critical-path based
//! performance analysis" (2012), on exact times. Called by `belljar trace path`.

mod render;

use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_trace::{Event, TraceError, TraceHeader, TraceState};
use serde::Serialize;

use crate::communicators::{Communicators, Member, ProcessKey};
use crate::waiting::{Wait, WaitCollector};

/// The critical path of a trace. Times are virtual, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CriticalPath {
    /// When it begins: the first call of the process that it begins on.
    pub from_ps: u64,
    /// When it ends: the last return of all calls.
    pub to_ps: u64,
    /// How many times it goes from one process to another.
    pub changes: u64,
    /// By process, in the order of jobs and ranks; only those that have a part of it.
    pub ranks: Vec<PathRank>,
    /// MPI calls on it by function, those with the largest part first.
    pub functions: Vec<PathFunction>,
}

/// A process's part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PathRank {
    /// The MPI program it belongs to.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// Time on the path.
    pub path_ps: u64,
    /// How much of that was outside MPI.
    pub compute_ps: u64,
}

/// A function's part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PathFunction {
    /// Its name.
    pub function: &'static str,
    /// Calls that have a part of it.
    pub calls: u64,
    /// Time on the path.
    pub path_ps: u64,
}

/// A process's calls in time.
#[derive(Clone, Copy, Debug)]
struct Extent {
    member: Member,
    first: u64,
    last: u64,
}

/// A stretch of the path on one process, in picoseconds.
type Segment = (u64, u64);

/// Finds the critical path of the trace at `path`, and whether that is complete. Memory grows with the number of calls
/// that waited.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
pub fn critical_path(path: &Path) -> Result<(CriticalPath, TraceState), TraceError> {
    let communicators = crate::communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let mut finder = Finder::new(&header, &communicators);
    for event in reader.by_ref() {
        finder.observe(&event);
    }
    let mut measure = finder.follow();
    let mut reader = TraceReader::open(path)?;
    for event in reader.by_ref() {
        measure.observe(&event, &header);
    }
    Ok((measure.finish(), reader.state().clone()))
}

/// Gathers what the path is found by.
struct Finder<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    waits: WaitCollector<'a>,
    extents: BTreeMap<ProcessKey, Extent>,
}

impl<'a> Finder<'a> {
    fn new(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        Self {
            header,
            communicators,
            waits: WaitCollector::keeping(header, communicators),
            extents: BTreeMap::new(),
        }
    }

    fn observe(&mut self, event: &Event) {
        self.waits.observe(event, true);
        let process = (event.node, event.process);
        let Some(job) = self.communicators.job(process) else {
            return;
        };
        let time = |cycles| self.header.frequency(event.node).time_of(cycles).as_ps();
        let (entry, exit) = (time(event.entry), time(event.exit.unwrap_or(event.entry)));
        let extent = self.extents.entry(process).or_insert(Extent {
            member: Member {
                job,
                rank: event.rank,
            },
            first: entry,
            last: exit,
        });
        extent.first = extent.first.min(entry);
        extent.last = extent.last.max(exit);
    }

    /// Follows the path from its end.
    fn follow(self) -> Measure {
        let mut waits: BTreeMap<ProcessKey, Vec<Wait>> = BTreeMap::new();
        for wait in self.waits.waits() {
            waits.entry(wait.process).or_default().push(wait);
        }
        for waits in waits.values_mut() {
            waits.sort_by_key(|wait| (wait.until, wait.by));
        }
        let processes: BTreeMap<Member, ProcessKey> = self
            .extents
            .iter()
            .map(|(process, extent)| (extent.member, *process))
            .collect();
        let mut measure = Measure::default();
        // Of those that end together, the first.
        let ends = self.extents.iter().rev();
        let Some((mut process, end)) = ends
            .max_by_key(|(_, extent)| extent.last)
            .map(|(process, extent)| (*process, extent.last))
        else {
            return measure;
        };
        measure.path.to_ps = end;
        let mut at = end;
        loop {
            let own = waits.get(&process).map_or(&[][..], Vec::as_slice);
            let before = own.partition_point(|wait| wait.until < at);
            let next = own[..before].iter().rev().find_map(|wait| {
                let other = processes.get(&wait.by)?;
                // A process cannot have been waited for before its first call.
                (self.extents[other].first <= wait.until).then_some((wait.until, *other))
            });
            let first = self.extents[&process].first.min(at);
            let from = next.map_or(first, |(until, _)| until);
            measure
                .segments
                .entry(process)
                .or_default()
                .push((from, at));
            at = from;
            let Some((_, other)) = next else {
                break;
            };
            process = other;
            measure.path.changes += 1;
        }
        measure.path.from_ps = at;
        for segments in measure.segments.values_mut() {
            segments.reverse();
        }
        measure.extents = self.extents;
        measure
    }
}

/// Measures what is on the path.
#[derive(Debug, Default)]
struct Measure {
    path: CriticalPath,
    extents: BTreeMap<ProcessKey, Extent>,
    /// In the order of time, and apart from each other.
    segments: BTreeMap<ProcessKey, Vec<Segment>>,
    functions: BTreeMap<&'static str, (u64, u64)>,
    calls: BTreeMap<ProcessKey, u64>,
}

impl Measure {
    fn observe(&mut self, event: &Event, header: &TraceHeader) {
        let process = (event.node, event.process);
        let segments = self.segments.get(&process);
        let (Some(segments), Some(exit), 0) = (segments, event.exit, event.depth) else {
            return;
        };
        let frequency = header.frequency(event.node);
        let entry = frequency.time_of(event.entry).as_ps();
        let exit = frequency.time_of(exit).as_ps();
        let from = segments.partition_point(|(_, to)| *to <= entry);
        let own = segments[from..].iter().take_while(|(from, _)| *from < exit);
        let on_path = own
            .map(|(from, to)| exit.min(*to).saturating_sub(entry.max(*from)))
            .fold(0, u64::saturating_add);
        let on_path = match event.calls() {
            1 => on_path,
            // Where in their time the calls were is not told: as if everywhere alike.
            _ => {
                let extent = exit.saturating_sub(entry).max(1);
                let inside = frequency.time_of(event.duration().unwrap_or(0)).as_ps();
                let part = u128::from(on_path) * u128::from(inside) / u128::from(extent);
                u64::try_from(part).unwrap_or(u64::MAX).min(on_path)
            }
        };
        if on_path > 0 {
            let (calls, time) = self.functions.entry(event.name()).or_default();
            *calls = calls.saturating_add(event.calls());
            *time = time.saturating_add(on_path);
            let all = self.calls.entry(process).or_default();
            *all = all.saturating_add(on_path);
        }
    }

    fn finish(self) -> CriticalPath {
        let mut path = self.path;
        for (process, segments) in &self.segments {
            let time = segments.iter().map(|(from, to)| to.saturating_sub(*from));
            let time = time.fold(0, u64::saturating_add);
            let calls = self.calls.get(process).copied().unwrap_or(0);
            let Some(extent) = self.extents.get(process).filter(|_| time > 0) else {
                continue;
            };
            path.ranks.push(PathRank {
                job: extent.member.job,
                rank: extent.member.rank,
                node: process.0,
                path_ps: time,
                // Calls of several threads may overlap.
                compute_ps: time.saturating_sub(calls),
            });
        }
        path.ranks
            .sort_by_key(|part| (part.job, part.rank, part.node));
        let functions = self.functions.into_iter();
        path.functions = functions
            .map(|(function, (calls, path_ps))| PathFunction {
                function,
                calls,
                path_ps,
            })
            .collect();
        path.functions
            .sort_by_key(|part| (std::cmp::Reverse(part.path_ps), part.function));
        path
    }
}

#[cfg(test)]
mod tests;
