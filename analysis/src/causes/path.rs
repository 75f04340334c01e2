//! The critical path: the chain of computing and communicating that determines how long a program took.
//!
//! It is followed backwards from the call that returned last, along a process until one of its calls waited. From that time on, it continues along
//! the process that the call waited for. It covers the time from the first call of any process to the last return without a gap. If it leads back
//! to a process whose first call comes later, it stays on that process before that call. The lengths of two runs are therefore comparable. Work on
//! the path made the program last; other work could have taken longer, by its slack. The method was introduced by D. Böhme, F. Wolf, B. de
//! Supinski, M. Schulz and M. Geimer, "Scalable critical-path based performance analysis" (2012), on exact times. Used by `belljar trace path`.

/// The walk along the critical path.
mod follower;
/// Measurement of the path.
mod measure;
/// As text and as JSON.
mod render;
/// Sorting of dependencies.
mod sorter;
/// The sweep backwards in time.
mod sweep;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, Member, ProcessKey};
use belljar_trace::{Event, TraceError, TraceHeader, TraceState};
use serde::Serialize;

use crate::causes::waiting::{InLoops, WaitCollector};
use crate::dump::frames::{FrameNames, SiteFrame};
use crate::structure::phases::{Phases, ProgramPhase};
use crate::sums::sites::number::SiteNumbers;
pub(crate) use measure::Measure;
use sorter::Sorter;
use sweep::Sweep;

/// The critical path of a trace. Times are virtual, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CriticalPath {
    /// Its begin: the first call of all processes.
    pub from_ps: u64,
    /// Its end: the last return of all calls.
    pub to_ps: u64,
    /// The part before the first call of the process on which it begins; outside MPI.
    pub before_ps: u64,
    /// The part in calls that start or end MPI.
    pub start_and_end_ps: u64,
    /// The number of changes from one process to another.
    pub changes: u64,
    /// By process, in the order of jobs and ranks; only processes on the path.
    pub ranks: Vec<PathRank>,
    /// MPI calls on it by function, in descending order of their part.
    pub functions: Vec<PathFunction>,
    /// MPI calls on it by call site, in descending order of their part; empty if the trace has no call sites.
    pub sites: Vec<PathSite>,
    /// By phase of the program, if requested.
    pub phases: Vec<PathPhase>,
    /// Slack by process, in the order of jobs and ranks.
    pub slack: Vec<RankSlack>,
    /// Its stretches in the order of time; not part of the text and of JSON.
    #[serde(skip)]
    pub stretches: Vec<PathStretch>,
}

/// A stretch of the critical path on one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStretch {
    /// The process's MPI program.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// The time at which the path reaches it, in picoseconds.
    pub from_ps: u64,
    /// The time at which the path leaves it.
    pub to_ps: u64,
}

/// A process's part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PathRank {
    /// Its MPI program.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// Time on the path.
    pub path_ps: u64,
    /// The part outside MPI, including the time before its first call.
    pub compute_ps: u64,
    /// The part in calls that start or end MPI.
    pub start_and_end_ps: u64,
}

/// A function's part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PathFunction {
    /// Its name.
    pub function: &'static str,
    /// Calls with a part of it.
    pub calls: u64,
    /// Time on the path.
    pub path_ps: u64,
}

/// A call site's part of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathSite {
    /// The function that is called.
    pub function: &'static str,
    /// The call's address, the address at which its function was called, and so on.
    pub frames: Vec<SiteFrame>,
    /// Calls with a part of it.
    pub calls: u64,
    /// Time on the path.
    pub path_ps: u64,
}

/// A phase's part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PathPhase {
    /// The phase.
    pub phase: ProgramPhase,
    /// Time on the path.
    pub path_ps: u64,
    /// The part outside MPI.
    pub compute_ps: u64,
}

/// A process's slack: the delay of its work that, with nothing else changed, leaves the program's end unchanged. It covers the time in which the
/// process did not wait, from its first call to its last return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankSlack {
    /// Its MPI program.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// The minimum at any time.
    pub least_ps: u64,
    /// The mean over its time, rounded down.
    pub mean_ps: u64,
    /// The maximum.
    pub most_ps: u64,
    /// Time in which it did not wait.
    pub busy_ps: u64,
    /// The part without slack, where every delay makes the program longer.
    pub critical_ps: u64,
}

impl CriticalPath {
    /// Names the functions of all frames in files.
    pub fn name(&mut self, names: &mut FrameNames<'_>) {
        let frames = self.sites.iter_mut().flat_map(|site| &mut site.frames);
        frames.for_each(|frame| names.name(frame));
    }
}

/// A process's calls in time.
#[derive(Clone, Copy, Debug)]
struct Extent {
    member: Member,
    first: u64,
    last: u64,
    /// True if several of its threads call MPI.
    threads: bool,
}

/// A stretch of the path on one process, in picoseconds.
type Segment = (u64, u64);

/// Finds the critical path of the trace at `path`, and returns whether that is complete; with phases of the program if `phases`. The trace is read
/// three times, and twice more for phases. More than some ten million dependencies are sorted on disk, in the folder for temporary files; memory
/// grows with the number of changes between ranks.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace, or if there is no space for sorting.
pub fn critical_path(path: &Path, phases: bool) -> Result<(CriticalPath, TraceState), TraceError> {
    let phases = phases.then(|| crate::phases(path)).transpose()?;
    let communicators = belljar_job::communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let mut finder = Finder::new(&header, &communicators);
    let sorting = |source| TraceError::Io {
        action: "sort what waits for what in",
        path: path.to_owned(),
        source,
    };
    for event in reader.by_ref() {
        finder
            .observe(&event, 0, InLoops::default())
            .map_err(sorting)?;
    }
    let sites = SiteNumbers::new(reader.contents().frames);
    let (mut measure, _) = finder.follow(phases, sites).map_err(sorting)?;
    let mut reader = TraceReader::open(path)?;
    for event in reader.by_ref() {
        measure.observe(&event);
    }
    Ok((measure.finish(), reader.state().clone()))
}

/// Collects the dependencies that determine the path.
pub(crate) struct Finder<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    waits: WaitCollector<'a>,
    extents: BTreeMap<ProcessKey, Extent>,
    sorter: Sorter,
}

impl<'a> Finder<'a> {
    /// Creates an empty finder for the trace with this header and these communicators.
    pub(crate) fn new(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        Self {
            header,
            communicators,
            waits: WaitCollector::telling(header, communicators),
            extents: BTreeMap::new(),
            sorter: Sorter::new(),
        }
    }

    /// Enables the root causes of waits.
    pub(crate) fn with_delays(mut self) -> Self {
        self.waits = self.waits.with_delays();
        self
    }

    /// Adds an event in loops; its waiting is also summed up by its label.
    ///
    /// # Errors
    /// Returns an error if the disk on which dependencies are sorted is full.
    pub(crate) fn observe(&mut self, event: &Event, label: u64, loops: InLoops) -> io::Result<()> {
        self.waits.observe_in(event, true, label, loops);
        for dependency in self.waits.dependencies() {
            self.sorter.push(dependency)?;
        }
        let process = (event.node, event.process);
        let Some(job) = self.communicators.job(process) else {
            return Ok(());
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
            threads: false,
        });
        extent.first = extent.first.min(entry);
        extent.last = extent.last.max(exit);
        extent.threads |= event.thread > 0;
        Ok(())
    }

    /// Follows the path from its end, and returns the waits as well.
    ///
    /// # Errors
    /// Returns an error if the sorted data on disk cannot be read.
    pub(crate) fn follow(
        mut self,
        phases: Option<Phases>,
        sites: SiteNumbers,
    ) -> io::Result<(Measure, WaitCollector<'a>)> {
        self.waits.end();
        for dependency in self.waits.dependencies() {
            self.sorter.push(dependency)?;
        }
        let mut sweep = Sweep::new(&self.extents);
        for dependency in self.sorter.sorted()? {
            sweep.follow(&dependency?);
        }
        let (follower, spares) = sweep.finish();
        let (path, segments) = follower.finish();
        let header = self.header.clone();
        let extents = self.extents;
        let measure = Measure::new(header, path, segments, spares, extents, phases, sites);
        Ok((measure, self.waits))
    }
}

#[cfg(test)]
mod tests;
