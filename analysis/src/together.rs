//! All analyses of a trace for a report, in three passes over it instead of two or three for each, and on all processors.
//!
//! The first pass finds prerequisites of the others: communicators, loops, threads. In the second pass all analyses see each event, each on
//! a separate thread (`fan`); the third one measures the critical path. Results equal those of the separate analyses. Memory is the sum over
//! all of them. Used by reports.

/// Distribution of events to several threads.
mod fan;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use belljar_archive::TraceReader;
use belljar_collectives::Tables;
use belljar_job::{Collector, Communicators, Member, ProcessKey};
use belljar_trace::{Event, TraceError, TraceHeader, TraceState};

use crate::causes::path::{CriticalPath, Finder};
use crate::causes::waiting::{Waiting, by_labels};
use crate::dump::Filter;
use crate::structure::flow::Detail;
use crate::structure::loops::{LoopFinder, LoopMeasure, LoopStructure};
use crate::sums::matrix::{Matrix, TrafficCollector, TrafficOf, seen_with};
use crate::sums::sites::number::SiteNumbers;
use crate::sums::sites::{CallSites, SiteCollector};
use crate::sums::stat::{StatCollector, Statistics};
use fan::{Observer, fan};

/// Most threads whose times are kept.
const MOST_THREADS: usize = 1 << 20;

/// A thread that calls MPI, with its begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallingThread {
    /// Its process.
    pub member: Member,
    /// The node.
    pub node: u32,
    /// Its number within the process.
    pub thread: u32,
    /// The entry of its first call, in picoseconds.
    pub from_ps: u64,
    /// The return of its last call, or its entry if it never returned.
    pub to_ps: u64,
}

/// A thread's times by its process, until the process is identified.
type Spans = BTreeMap<(ProcessKey, u32), (u32, u64, u64)>;

/// A trace that was read once.
#[derive(Debug)]
pub struct Survey {
    path: PathBuf,
    header: TraceHeader,
    communicators: Communicators,
    loops: LoopMeasure,
    threads: Vec<CallingThread>,
}

/// The results of all analyses of a trace.
#[derive(Debug)]
pub struct Analyses {
    /// Sums by function and rank.
    pub statistics: Statistics,
    /// Waiting of ranks for each other.
    pub waiting: Waiting,
    /// The critical path.
    pub path: CriticalPath,
    /// Loops.
    pub loops: LoopStructure,
    /// By call site; `None` if the trace has no call sites.
    pub sites: Option<CallSites>,
    /// Traffic by call.
    pub called: Matrix,
    /// Traffic by message, if tables are available.
    pub messages: Option<Matrix>,
    /// The messages that the run recorded, if any.
    pub seen: Option<Matrix>,
    /// The completeness of the trace.
    pub state: TraceState,
}

fn failed(path: &Path) -> impl Fn(io::Error) -> TraceError {
    |source| TraceError::Io {
        action: "analyse on several threads",
        path: path.to_owned(),
        source,
    }
}

impl Survey {
    /// Reads the trace at `path` for the first time.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the file cannot be read as a trace, or if no threads can be created.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let mut reader = TraceReader::open(path)?;
        let header = reader.header().clone();
        let all = Filter::default();
        let mut communicators = Collector::new();
        let mut finder = LoopFinder::new(Detail::Peer, false);
        let mut spans = Spans::new();
        let observers: Vec<Observer<'_>> = vec![
            Box::new(|event| communicators.observe(event, &header)),
            Box::new(|event| {
                if all.wants(event, &header) {
                    finder.observe(event);
                }
                span(&mut spans, event, &header);
            }),
        ];
        fan(&mut reader, observers).map_err(failed(path))?;
        let communicators = communicators.resolve();
        let threads = spans.into_iter().filter_map(|((process, thread), span)| {
            let (rank, from_ps, to_ps) = span;
            let job = communicators.job(process)?;
            Some(CallingThread {
                member: Member { job, rank },
                node: process.0,
                thread,
                from_ps,
                to_ps,
            })
        });
        Ok(Self {
            path: path.to_owned(),
            loops: finder.measure(&communicators),
            threads: threads.collect(),
            header,
            communicators,
        })
    }

    /// Returns the data that precedes the first call.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Returns the members of its communicators.
    pub fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    /// Returns the threads with selected calls of the program, by node, process and thread.
    pub fn threads(&self) -> &[CallingThread] {
        &self.threads
    }

    /// Runs all analyses, and the caller's analysis `also`, which gets each event on another thread. Collective operations become messages
    /// by the library's `tables`.
    ///
    /// # Errors
    /// The same as for [`read`](Self::read), and an error if there is no space for sorting the dependencies of the critical path.
    pub fn analyses(
        &self,
        tables: Option<&Tables>,
        also: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Analyses, TraceError> {
        let (header, communicators) = (&self.header, &self.communicators);
        let (all, of) = (Filter::default(), TrafficOf::default());
        let mut reader = TraceReader::open(&self.path)?;
        let frames = reader.contents().frames;
        let mut statistics = StatCollector::new(header, communicators);
        let mut called = TrafficCollector::new(header, communicators, of, None);
        let mut messages =
            tables.map(|tables| TrafficCollector::new(header, communicators, of, Some(tables)));
        let mut sites = (frames > 0).then(|| SiteCollector::new(header, communicators, frames));
        let mut loops = self.loops.clone();
        let mut finder = Finder::new(header, communicators).with_delays();
        let mut around = self.loops.clone();
        let (mut numbers, mut sorted) = (SiteNumbers::new(frames), Ok(()));
        let wants = |event: &Event| all.wants(event, header);
        let mut observers: Vec<Observer<'_>> = vec![
            Box::new(|event| {
                let sited = frames > 0 && wants(event);
                let site = if sited { numbers.number(event) } else { 0 };
                if sorted.is_ok() {
                    let loops = around.around(event);
                    sorted = finder.observe(event, site.into(), loops);
                }
            }),
            Box::new(also),
            Box::new(|event| {
                if wants(event) {
                    statistics.observe(event);
                    loops.observe(event);
                }
                called.observe(event, wants(event));
            }),
        ];
        if let Some(messages) = &mut messages {
            observers.push(Box::new(|event| messages.observe(event, wants(event))));
        }
        if let Some(sites) = &mut sites {
            observers.push(Box::new(|event| sites.observe(event, wants(event))));
        }
        fan(&mut reader, observers).map_err(failed(&self.path))?;
        sorted.map_err(failed(&self.path))?;
        let names = around.names(header, communicators);
        let (waiting, path) = self.path(finder, &numbers, &names)?;
        let (statistics, state) = crate::dump::finished(statistics, &reader, &self.path, &all)?;
        let sites = sites.map(|it| {
            crate::sums::sites::finished(it, &self.path, reader.state().clone(), &all, frames)
        });
        let seen = seen_with(&self.path, &all, of, || Ok(communicators.clone()))?;
        Ok(Analyses {
            statistics,
            waiting,
            path,
            loops: loops.finish(header, communicators),
            sites: sites.transpose()?.map(|(sites, _)| sites),
            called: called.finish(),
            messages: messages.map(TrafficCollector::finish),
            seen: seen.map(|(seen, _)| seen),
            state,
        })
    }

    /// Follows the critical path, and reads the trace to measure it.
    fn path(
        &self,
        finder: Finder<'_>,
        numbers: &SiteNumbers,
        loops: &[String],
    ) -> Result<(Waiting, CriticalPath), TraceError> {
        let mut reader = TraceReader::open(&self.path)?;
        let sites = SiteNumbers::new(reader.contents().frames);
        let followed = finder.follow(None, sites);
        let (mut measure, waits) = followed.map_err(failed(&self.path))?;
        fan(&mut reader, vec![Box::new(|event| measure.observe(event))])
            .map_err(failed(&self.path))?;
        Ok((by_labels(waits, numbers, Some(loops)), measure.finish()))
    }
}

/// Adds a call to its thread's times.
fn span(spans: &mut Spans, event: &Event, header: &TraceHeader) {
    let key = ((event.node, event.process), event.thread);
    let counts = event.depth == 0 && event.selected;
    if !counts || spans.len() >= MOST_THREADS && !spans.contains_key(&key) {
        return;
    }
    let time = |cycles| header.frequency(event.node).time_of(cycles).as_ps();
    let (entry, exit) = (time(event.entry), time(event.exit.unwrap_or(event.entry)));
    let (_, from, to) = spans.entry(key).or_insert((event.rank, entry, exit));
    (*from, *to) = ((*from).min(entry), (*to).max(exit));
}

#[cfg(test)]
mod tests;
