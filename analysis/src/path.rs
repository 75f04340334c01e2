//! The critical path: the chain of computing and communicating that determines how long a program took.
//!
//! It is followed from the call that returned last backwards: along a process until a call of it that waited,
//! then along the process that the call waited for, from the same time on. It covers the time from the first call of any
//! process to the last return without a gap: where it leads back to a process whose first call comes later, it stays on
//! that process before that call. So lengths of two runs compare. What is on it made the program last; what is not on it could have
//! taken longer: by how much, slack tells. The method is that of D. Böhme, F. Wolf, B. de Supinski, M. Schulz and M. Geimer, "Scalable
//! critical-path based performance analysis" (2012), on exact times. Called by `belljar trace path`.

/// Along the critical path.
mod follower;
/// What is on the path.
mod measure;
/// As text and as JSON.
mod render;
/// Dependencies in order.
mod sorter;
/// Backwards in time.
mod sweep;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, Member, ProcessKey};
use belljar_trace::{Event, TraceError, TraceHeader, TraceState};
use serde::Serialize;

use crate::dump::frames::{FrameNames, SiteFrame};
use crate::phases::{Phases, ProgramPhase};
use crate::sites::number::SiteNumbers;
use crate::waiting::{InLoops, WaitCollector};
pub(crate) use measure::Measure;
use sorter::Sorter;
use sweep::Sweep;

/// The critical path of a trace. Times are virtual, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CriticalPath {
    /// When it begins: the first call of all processes.
    pub from_ps: u64,
    /// When it ends: the last return of all calls.
    pub to_ps: u64,
    /// The part of it before the first call of the process that it begins on; outside MPI.
    pub before_ps: u64,
    /// The part of it in calls that start or end MPI.
    pub start_and_end_ps: u64,
    /// How many times it goes from one process to another.
    pub changes: u64,
    /// By process, in the order of jobs and ranks; only those that have a part of it.
    pub ranks: Vec<PathRank>,
    /// MPI calls on it by function, those with the largest part first.
    pub functions: Vec<PathFunction>,
    /// MPI calls on it by call site, those with the largest part first; empty where the trace does not tell where calls were
    /// made.
    pub sites: Vec<PathSite>,
    /// By phase of the program, where that was asked for.
    pub phases: Vec<PathPhase>,
    /// By process, in the order of jobs and ranks: what it has to spare.
    pub slack: Vec<RankSlack>,
    /// Where it is when, in the order of time; no part of the text and of JSON.
    #[serde(skip)]
    pub stretches: Vec<PathStretch>,
}

/// A stretch of the critical path on one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStretch {
    /// The MPI program that the process belongs to.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// When the path reaches it, in picoseconds.
    pub from_ps: u64,
    /// When the path leaves it.
    pub to_ps: u64,
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
    /// The part outside MPI, with the time before its first call.
    pub compute_ps: u64,
    /// The part of the path in calls that start or end MPI.
    pub start_and_end_ps: u64,
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

/// A call site's part of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathSite {
    /// The function that is called.
    pub function: &'static str,
    /// Where it is called, and where that function is called, and so on.
    pub frames: Vec<SiteFrame>,
    /// Calls that have a part of it.
    pub calls: u64,
    /// Time on the path.
    pub path_ps: u64,
}

/// What of the critical path is in a phase of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PathPhase {
    /// The phase.
    pub phase: ProgramPhase,
    /// Time on the path.
    pub path_ps: u64,
    /// How much of that was outside MPI.
    pub compute_ps: u64,
}

/// How much later a process could do what it does, with nothing else changed, so that the program would end as late as it
/// did. Over the time in which it did not wait, from its first call to its last return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankSlack {
    /// The MPI program it belongs to.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// The least that it has at any time.
    pub least_ps: u64,
    /// The mean over its time, cut.
    pub mean_ps: u64,
    /// The most.
    pub most_ps: u64,
    /// Time in which it did not wait.
    pub busy_ps: u64,
    /// How much of that without slack: every delay there makes the program longer.
    pub critical_ps: u64,
}

impl CriticalPath {
    /// Names the places of all frames in files.
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
    /// Whether several threads of it call MPI.
    threads: bool,
}

/// A stretch of the path on one process, in picoseconds.
type Segment = (u64, u64);

/// Finds the critical path of the trace at `path`, and whether that is complete; phases of the program, too, if `phases`. The
/// trace is read three times, and twice more for phases. What waits for what is sorted on the disk, in the folder for temporary files, where it is
/// more than some ten million; memory grows with the number of changes from rank to rank.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace, or there is no room to sort.
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

/// Gathers what the path is found by.
pub(crate) struct Finder<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    waits: WaitCollector<'a>,
    extents: BTreeMap<ProcessKey, Extent>,
    sorter: Sorter,
}

impl<'a> Finder<'a> {
    /// Nothing gathered yet from the trace with this header, whose communicators are `communicators`.
    pub(crate) fn new(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        Self {
            header,
            communicators,
            waits: WaitCollector::telling(header, communicators),
            extents: BTreeMap::new(),
            sorter: Sorter::new(),
        }
    }

    /// The same, with the root causes of waits.
    pub(crate) fn with_delays(mut self) -> Self {
        self.waits = self.waits.with_delays();
        self
    }

    /// Takes an event in loops into account; waiting in it is added up by its label, too.
    ///
    /// # Errors
    /// When the disk on which dependencies are sorted takes no more.
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

    /// Follows the path from its end; what was waited is told besides.
    ///
    /// # Errors
    /// When what was sorted on the disk cannot be read.
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
