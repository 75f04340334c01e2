//! The tables of a timeline while calls are added.
//!
//! Each call is added to the pages and levels of its row. Called by `timeline`.

use std::collections::BTreeMap;

use belljar_analysis::{CallWait, WaitKind, argument_words};
use belljar_formats::{ExportedCall, ExportedMessage, Record, Source};
use belljar_job::Member;
use belljar_mpi::Meaning;
use belljar_sim::figures::counted;

use super::kinds::FunctionKind;
use super::levels::Levels;
use super::pages::{OneCall, TimelineMessage, TimelinePages, Wait};
use super::{About, Detail, MOST_FUNCTIONS, MOST_HALVES, Timeline, TimelineExtent};
use crate::pack::PackedNumbers;

/// Fills a timeline.
pub(super) struct Filling {
    pub(super) extent: TimelineExtent,
    detail: Detail,
    levels: Levels,
    pages: TimelinePages,
    numbers: BTreeMap<&'static str, u8>,
    functions: Vec<&'static str>,
    function_kinds: Vec<u8>,
    /// Calls and time by row and function.
    sums: super::classes::Sums,
    /// By message, the row and the time of the side seen first.
    sent: BTreeMap<u64, (usize, u64)>,
    received: BTreeMap<u64, (usize, u64)>,
    /// The first row of each process.
    processes: BTreeMap<Member, usize>,
    calls: u64,
    messages: u64,
}

impl Filling {
    pub(super) fn new(extent: TimelineExtent, detail: Detail) -> Self {
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

    pub(super) fn call(&mut self, call: &ExportedCall, row: usize, source: &Source) {
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

    pub(super) fn wait(&mut self, wait: &CallWait) {
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

    pub(super) fn finish(mut self) -> Timeline {
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
            classes: super::classes::classes(&self.sums, &self.extent.lengths),
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
pub(super) fn words(call: &ExportedCall) -> String {
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
