//! Calls over time: in buckets at every scale, and individually in pages.
//!
//! The threads and the length of a trace are known before; then calls come one by one. It keeps buckets, pages up to their limit, and
//! messages with only one side so far, up to a limit. A row is a thread that calls MPI. Created for a [`Report`](crate::Report).

/// Classes of similar rows.
mod classes;
/// Kinds of functions.
mod kinds;
/// Buckets at every scale.
mod levels;
/// Single calls.
mod pages;

use std::collections::BTreeMap;

use belljar_analysis::{CallWait, CallingThread, Survey, WaitCollector, WaitKind, argument_words};
use belljar_formats::{ExportedCall, ExportedMessage, Record, Source};
use belljar_job::Member;
use belljar_mpi::Meaning;
use belljar_sim::figures::counted;
use belljar_trace::Event;
use serde::Serialize;

use crate::pack::{Packed, PackedNumbers};
use classes::RowClass;
use kinds::FunctionKind;
use levels::Levels;
use pages::{OneCall, PageIndex, TimelineMessage, TimelinePages, Wait};

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

/// Fills a timeline.
struct Filling {
    extent: TimelineExtent,
    detail: Detail,
    levels: Levels,
    pages: TimelinePages,
    numbers: BTreeMap<&'static str, u8>,
    functions: Vec<&'static str>,
    function_kinds: Vec<u8>,
    /// Calls and time by row and function.
    sums: classes::Sums,
    /// By message, the row and the time of the side seen first.
    sent: BTreeMap<u64, (usize, u64)>,
    received: BTreeMap<u64, (usize, u64)>,
    /// The first row of each process.
    processes: BTreeMap<Member, usize>,
    calls: u64,
    messages: u64,
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

impl Filling {
    fn new(extent: TimelineExtent, detail: Detail) -> Self {
        let mut processes = BTreeMap::new();
        for (row, number) in &extent.rows {
            let member = Member {
                job: row.job,
                rank: row.rank,
            };
            processes.entry(member).or_insert(*number);
        }
        Self {
            levels: Levels::new(extent.rows.len(), extent.from, extent.to),
            pages: TimelinePages::new(detail.budget),
            extent,
            detail,
            processes,
            numbers: BTreeMap::new(),
            functions: Vec::new(),
            function_kinds: Vec::new(),
            sums: BTreeMap::new(),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            calls: 0,
            messages: 0,
        }
    }

    /// Returns the number of a function.
    fn function(&mut self, name: &'static str, meaning: &Meaning) -> u8 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.functions.len() >= MOST_FUNCTIONS {
            if self.functions.len() == MOST_FUNCTIONS {
                self.functions.push("other functions");
                self.function_kinds.push(FunctionKind::Other as u8);
            }
            return MOST_FUNCTIONS as u8 + 1;
        }
        self.functions.push(name);
        self.function_kinds.push(FunctionKind::of(meaning) as u8);
        let number = self.functions.len() as u8;
        self.numbers.insert(name, number);
        number
    }

    fn call(&mut self, call: &ExportedCall, row: usize, source: &Source) {
        let entry = source.picoseconds(call.entry);
        let exit = call.exit.map(|exit| source.picoseconds(exit));
        let function = self.function(call.event.name(), call.event.meaning());
        // A call that never returned lasts to the end.
        let last = exit.unwrap_or(self.extent.to).max(entry);
        self.levels.call(row, function, entry, last);
        self.calls += 1;
        let inside = call.event.duration().filter(|_| call.event.calls() > 1);
        let frequency = source.header().frequency(call.event.node);
        let inside = inside.map_or(last - entry, |cycles| frequency.time_of(cycles).as_ps());
        let sum = self.sums.entry((row, function)).or_default();
        sum.0 = sum.0.saturating_add(call.event.calls());
        sum.1 = sum.1.saturating_add(inside);
        if last >= self.detail.from && entry < self.detail.to {
            let words = match self.pages.wanted() {
                true => words(call),
                false => String::new(),
            };
            self.pages.call(OneCall {
                row,
                function,
                entry,
                exit,
                words: &words,
            });
        }
        for record in &call.begun {
            if let Record::Send(part) | Record::SendBegun(part, _) = record {
                self.side(part, (row, entry), true);
            }
        }
        for record in &call.done {
            if let Record::Receive(part) | Record::ReceiveCompleted(part, _) = record {
                self.side(part, (row, last), false);
            }
        }
    }

    /// Adds one side of a message, which becomes a message with the other one.
    fn side(&mut self, part: &ExportedMessage, here: (usize, u64), sends: bool) {
        let Some(number) = part.message else { return };
        let (own, other) = match sends {
            true => (&mut self.sent, &mut self.received),
            false => (&mut self.received, &mut self.sent),
        };
        let Some(there) = other.remove(&number) else {
            if own.len() < MOST_HALVES {
                own.insert(number, here);
            }
            return;
        };
        self.messages += 1;
        let ((from, sent), (to, received)) = if sends { (here, there) } else { (there, here) };
        if received >= self.detail.from && sent < self.detail.to {
            self.pages.message(TimelineMessage {
                from,
                to,
                sent,
                received,
                bytes: part.bytes,
            });
        }
    }

    fn wait(&mut self, wait: &CallWait) {
        let row = |job, rank| self.processes.get(&Member { job, rank }).copied();
        let (Some(own), Some(other)) = (row(wait.job, wait.rank), row(wait.for_job, wait.for_rank))
        else {
            return;
        };
        self.levels.wait(own, wait.at_ps, wait.waiting_ps);
        let over = wait.at_ps.saturating_add(wait.waiting_ps);
        if over >= self.detail.from && wait.at_ps < self.detail.to {
            self.pages.wait(Wait {
                row: own,
                at: wait.at_ps,
                time: wait.waiting_ps,
                kind: wait.kind as usize,
                row_waited_for: other,
            });
        }
    }

    fn finish(mut self) -> Timeline {
        self.levels.end();
        let mut sums = PackedNumbers::default();
        sums.push(self.sums.len() as u64);
        for ((row, function), (calls, time)) in &self.sums {
            [*row as u64, (*function).into(), *calls, *time]
                .into_iter()
                .for_each(|number| sums.push(number));
        }
        let (pages, stride) = self.pages.finish();
        let about = About {
            from: self.extent.from,
            to: self.extent.to,
            classes: classes::classes(&self.sums, &self.extent.lengths),
            rows: self.extent.rows.into_keys().collect(),
            beyond: self.extent.beyond,
            functions: self.functions,
            function_kinds: self.function_kinds,
            width: self.levels.width(),
            depth: self.levels.depth(),
            pages: pages.iter().map(|(index, _)| *index).collect(),
            stride,
            calls: self.calls,
            exact_calls: pages.iter().map(|(index, _)| index.calls as u64).sum(),
            kinds: WaitKind::ALL.map(WaitKind::name).to_vec(),
            messages: self.messages,
        };
        Timeline {
            about,
            levels: self.levels.packed(),
            pages,
            sums: sums.packed(),
        }
    }
}

/// Describes a call.
fn words(call: &ExportedCall) -> String {
    let mut words = argument_words(&call.event);
    if call.event.calls() > 1 {
        words.push_str(&format!(
            "\n{} in a row",
            counted(call.event.calls(), "equal call")
        ));
    }
    let (mut sends, mut receives) = (0u64, 0u64);
    for record in call.begun.iter().chain(&call.done) {
        match record {
            Record::Send(part) | Record::SendBegun(part, _) => {
                sends += 1;
                if sends == 1 {
                    words.push_str(&format!(
                        "\nsends {} B to rank {}",
                        part.bytes, part.other.member.rank
                    ));
                }
            }
            Record::Receive(part) | Record::ReceiveCompleted(part, _) => {
                receives += 1;
                if receives == 1 {
                    words.push_str(&format!(
                        "\nreceives {} B from rank {}",
                        part.bytes, part.other.member.rank
                    ));
                }
            }
            _ => {}
        }
    }
    for (count, what) in [(sends, "sent"), (receives, "received")] {
        if count > 1 {
            words.push_str(&format!(
                "\n{count} messages {what}, of which this is the first"
            ));
        }
    }
    words
}
