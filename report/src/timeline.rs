//! Calls over time: in buckets at every scale, and individually in pages.
//!
//! The threads and the length of a trace are known before; then calls come one by one. It keeps buckets, pages up to their limit, and
//! messages with only one side so far, up to a limit. A row is a thread that calls MPI. Created for a [`Report`](crate::Report).

/// Classes of similar rows.
mod classes;
/// The tables of a timeline while calls are added.
mod filling;
/// Kinds of functions.
mod kinds;
/// Buckets at every scale.
mod levels;
/// Single calls.
mod pages;

use std::collections::BTreeMap;

use belljar_analysis::{CallingThread, Survey, WaitCollector};
use belljar_formats::{ExportedCall, Source};
use belljar_trace::Event;
use serde::Serialize;

use crate::pack::Packed;
use classes::RowClass;
use filling::Filling;
use pages::PageIndex;

/// Most rows; threads beyond have none.
const MOST_ROWS: usize = 1 << 15;
/// Number of functions with a separate number; the others share the next one.
const MOST_FUNCTIONS: usize = 254;
/// Most messages with only one side so far.
const MOST_HALVES: usize = 1 << 20;

/// The selection of calls that are shown individually.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Most bytes of these calls in the file.
    pub budget: usize,
    /// Only calls that ended at this time or later, in picoseconds.
    pub from: u64,
    /// Only calls that began before this time.
    pub to: u64,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            budget: 8 << 20,
            from: 0,
            to: u64::MAX,
        }
    }
}

/// A thread that calls MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct TimelineRow {
    pub(crate) job: u32,
    pub(crate) rank: u32,
    pub(crate) node: u32,
    pub(crate) thread: u32,
}

impl From<&CallingThread> for TimelineRow {
    fn from(thread: &CallingThread) -> Self {
        Self {
            job: thread.member.job,
            rank: thread.member.rank,
            node: thread.node,
            thread: thread.thread,
        }
    }
}

impl TimelineRow {
    fn of(call: &ExportedCall, source: &Source) -> Option<Self> {
        let (member, _) = *source.places().processes().get(call.process as usize)?;
        Some(Self {
            job: member.job,
            rank: member.rank,
            node: call.event.node,
            thread: call.event.thread,
        })
    }
}

/// A timeline, ready for the page.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) about: About,
    pub(crate) levels: Packed,
    pub(crate) pages: Vec<(PageIndex, Packed)>,
    /// For each row, calls and time in each function.
    pub(crate) sums: Packed,
}

/// The description of a timeline.
#[derive(Debug, Serialize)]
pub(crate) struct About {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) rows: Vec<TimelineRow>,
    /// Classes of similar rows.
    pub(crate) classes: Vec<RowClass>,
    /// Number of threads without a row.
    pub(crate) beyond: usize,
    /// Functions by number, from 1.
    pub(crate) functions: Vec<&'static str>,
    /// The kind of each function, which determines its colour.
    pub(crate) function_kinds: Vec<u8>,
    /// Length of the shortest buckets, in picoseconds, and the number of scales.
    pub(crate) width: u64,
    pub(crate) depth: usize,
    pub(crate) pages: Vec<PageIndex>,
    /// One of this many pages was kept.
    pub(crate) stride: usize,
    /// Number of calls, with a record of several calls counted as one. Then the number of these calls in pages.
    pub(crate) calls: u64,
    pub(crate) exact_calls: u64,
    pub(crate) kinds: Vec<&'static str>,
    /// Messages with both sides.
    pub(crate) messages: u64,
}

/// The threads of a trace, and its begin and end.
#[derive(Debug, Default)]
struct TimelineExtent {
    rows: BTreeMap<TimelineRow, usize>,
    /// The duration of each row, from its first call to its last return.
    lengths: Vec<u64>,
    beyond: usize,
    from: u64,
    to: u64,
}

impl TimelineExtent {
    fn of(threads: &[CallingThread]) -> Self {
        let mut rows: BTreeMap<TimelineRow, u64> = BTreeMap::new();
        for thread in threads {
            let length = rows.entry(TimelineRow::from(thread)).or_default();
            *length = (*length).max(thread.to_ps.saturating_sub(thread.from_ps));
        }
        let beyond = rows.len().saturating_sub(MOST_ROWS);
        let rows = || rows.iter().take(MOST_ROWS);
        let to = threads.iter().map(|it| it.to_ps).max().unwrap_or(0);
        Self {
            rows: rows().map(|(row, _)| *row).zip(0..).collect(),
            lengths: rows().map(|(_, length)| *length).collect(),
            beyond,
            from: threads.iter().map(|it| it.from_ps).min().unwrap_or(to),
            to,
        }
    }
}

/// Builds a timeline, event by event.
pub(crate) struct TimelineBuilder<'a> {
    source: Source,
    waits: WaitCollector<'a>,
    filling: Filling,
}

impl<'a> TimelineBuilder<'a> {
    /// Creates an empty timeline of the surveyed trace.
    pub(crate) fn new(survey: &'a Survey, detail: Detail) -> Self {
        let (header, communicators) = (survey.header(), survey.communicators());
        Self {
            source: Source::given(header.clone(), communicators.clone()),
            waits: WaitCollector::naming(header, communicators),
            filling: Filling::new(TimelineExtent::of(survey.threads()), detail),
        }
    }

    /// Adds the next event of the trace.
    pub(crate) fn observe(&mut self, event: &Event) {
        let Some(call) = self.source.take(event.clone()) else {
            return;
        };
        self.waits.observe(&call.event, true);
        if let Some(row) = TimelineRow::of(&call, &self.source)
            && let Some(row) = self.filling.extent.rows.get(&row).copied()
        {
            self.filling.call(&call, row, &self.source);
        }
        self.waited();
    }

    fn waited(&mut self) {
        let waits = self.waits.waits();
        waits.iter().for_each(|wait| self.filling.wait(wait));
    }

    /// Ends the input.
    pub(crate) fn finish(mut self) -> Timeline {
        self.waits.end();
        self.waited();
        self.filling.finish()
    }
}
