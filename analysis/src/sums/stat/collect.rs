//! Collection of statistics, event by event.
//!
//! Events come in the order of the trace, after communicators are known. Maps are ordered by numbers, so the figures are reproducible. A
//! record of several calls counts as all of them: exactly in counts, sums, minima and maxima, and with their mean in medians and harmonic
//! means. Used by `dump`'s [`statistics`](crate::statistics).

use std::collections::BTreeMap;

use belljar_job::{Communicators, Member, ProcessKey};
use belljar_mpi::FUNCTIONS;
use belljar_sim::figures::significant;
use belljar_trace::{Direction, Event, Peer, Phase, TraceHeader, TraceSummary, Transfer};

use super::collected::Lacking;
use super::{FunctionStat, IntervalStat, RankStat, SizeStat, Statistics, TrafficStat, Volume};
use crate::causes::efficiency::EfficiencyCollector;

/// Significant digits of harmonic means: sums of reciprocals are not more precise.
pub(crate) const DIGITS: usize = 12;

#[derive(Debug, Default)]
pub(super) struct FunctionSum {
    pub(super) calls: u64,
    pub(super) nested: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// The duration of each separate call.
    durations: Vec<u64>,
    /// For each record of several calls: the mean duration, and the number of calls.
    folds: Vec<(u64, u64)>,
    /// The total duration of all of them, of the shortest and of the longest.
    folded: Option<(u64, u64, u64)>,
    /// Calls missing from the trace.
    pub(super) lacking: Lacking,
}

#[derive(Debug, Default)]
pub(super) struct ProcessSum {
    pub(super) rank: u32,
    pub(super) calls: u64,
    pub(super) compute: u64,
    pub(super) mpi: u64,
    /// The part in calls that start or end MPI.
    pub(super) start_and_end: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) intervals: Intervals,
    /// For each thread, the cycle at which its last call returned.
    left: BTreeMap<u32, u64>,
}

/// Sums for harmonic means.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Intervals {
    pub(super) count: u64,
    pub(super) reciprocal_cycles: f64,
    pub(super) reciprocal_seconds: f64,
}

/// Collects [`Statistics`] from the events of a trace, in its order. Keeps eight bytes for each call, for the medians.
#[derive(Debug)]
pub struct StatCollector<'a> {
    pub(super) header: &'a TraceHeader,
    pub(super) communicators: &'a Communicators,
    pub(super) functions: BTreeMap<u16, FunctionSum>,
    pub(super) processes: BTreeMap<ProcessKey, ProcessSum>,
    sizes: BTreeMap<u32, (u64, u64)>,
    traffic: BTreeMap<(Member, Member), (u64, u64)>,
    efficiency: EfficiencyCollector<'a>,
    /// The figures that are sums already.
    pub(super) result: Statistics,
}

impl<'a> StatCollector<'a> {
    /// Creates an empty collector for the trace with this header and `communicators`.
    pub fn new(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        Self {
            header,
            communicators,
            functions: BTreeMap::new(),
            processes: BTreeMap::new(),
            sizes: BTreeMap::new(),
            traffic: BTreeMap::new(),
            efficiency: EfficiencyCollector::new(header),
            result: Statistics {
                processors: header.processors().to_vec(),
                ..Statistics::default()
            },
        }
    }

    /// Creates the same for events without times. Keeps nothing for each call.
    pub fn untimed(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        let mut own = Self::new(header, communicators);
        own.result.untimed = true;
        own
    }

    /// Adds an event. An unselected call is ignored.
    pub fn observe(&mut self, event: &Event) {
        if !event.selected {
            return;
        }
        if event.depth > 0 {
            let function = self.functions.entry(event.function).or_default();
            function.nested = function.nested.saturating_add(event.calls());
            return;
        }
        if event.exit.is_none() {
            self.result.unfinished += 1;
        }
        if event.bad.is_some() {
            self.result.bad += 1;
        }
        let Volume {
            sent,
            received,
            inexact,
            unresolved,
        } = Volume::of(event, self.communicators);
        self.result.unresolved_collectives += unresolved;
        let inexact_received = &mut self.result.inexact_received;
        *inexact_received = inexact_received.saturating_add(inexact);
        if !self.result.untimed {
            self.time(event);
            self.efficiency.observe(event);
        }
        let function = self.functions.entry(event.function).or_default();
        function.calls = function.calls.saturating_add(event.calls());
        function.sent = function.sent.saturating_add(sent);
        function.received = function.received.saturating_add(received);
        let key = (event.node, event.process);
        let process = self.processes.entry(key).or_default();
        process.rank = event.rank;
        process.calls = process.calls.saturating_add(event.calls());
        process.sent = process.sent.saturating_add(sent);
        process.received = process.received.saturating_add(received);
        for transfer in &event.transfers {
            self.message(event, transfer);
        }
    }

    /// Counts a message that the call sends.
    fn message(&mut self, event: &Event, transfer: &Transfer) {
        // One-sided accesses have no tag; sends always have one.
        let sends = transfer.direction == Direction::Send && transfer.tag.is_some();
        let moves = transfer.phase != Phase::Prepared && transfer.peer != Peer::Null;
        if !sends || !moves || event.exit.is_none() {
            return;
        }
        let add = |(messages, bytes): &mut (u64, u64)| {
            *messages += 1;
            *bytes = bytes.saturating_add(transfer.bytes);
        };
        let class = u64::BITS - transfer.bytes.leading_zeros();
        add(self.sizes.entry(class).or_default());
        let process = (event.node, event.process);
        let to = transfer.communicator.and_then(|communicator| {
            self.communicators
                .peer(process, communicator, transfer.peer)
        });
        match to.zip(self.communicators.job(process)) {
            Some((to, job)) => {
                let rank = event.rank;
                add(self.traffic.entry((Member { job, rank }, to)).or_default());
            }
            None => self.result.unresolved_messages += 1,
        }
    }

    /// Adds a call's time, and the time since the call before.
    fn time(&mut self, event: &Event) {
        let frequency = self.header.frequency(event.node);
        let span = |from: u64, to: u64| {
            let from = frequency.time_of(from);
            frequency.time_of(to).since(from).as_ps()
        };
        let key = (event.node, event.process);
        let process = self.processes.entry(key).or_default();
        let left = process.left.remove(&event.thread);
        if let Some(left) = left.filter(|left| *left <= event.entry) {
            let cycles = (event.entry - left).max(1) as f64;
            process.compute = process.compute.saturating_add(span(left, event.entry));
            process.intervals.count = process.intervals.count.saturating_add(1);
            process.intervals.reciprocal_cycles += 1.0 / cycles;
            process.intervals.reciprocal_seconds += frequency.as_hz() as f64 / cycles;
        }
        let Some(exit) = event.exit else {
            return;
        };
        process.left.insert(event.thread, exit);
        let function = self.functions.entry(event.function).or_default();
        if event.calls() > 1 {
            let ps = |cycles| frequency.time_of(cycles).as_ps();
            let inside = ps(event.duration().unwrap_or(0));
            let outside = event.outside();
            process.mpi = process.mpi.saturating_add(inside);
            process.compute = process.compute.saturating_add(ps(outside));
            let between = event.calls() - 1;
            process
                .intervals
                .add_equal(between, outside, frequency.as_hz());
            let extremes = event.durations().unwrap_or_default();
            function.add_folded(event.calls(), inside, ps(extremes.0), ps(extremes.1));
            return;
        }
        let duration = span(event.entry, exit);
        process.mpi = process.mpi.saturating_add(duration);
        if event.meaning().boundary().is_some() {
            process.start_and_end = process.start_and_end.saturating_add(duration);
        }
        function.durations.push(duration);
    }

    /// Returns the statistics. With the trace's `summary`, unrecorded calls are counted too.
    pub fn finish(self, summary: Option<&TraceSummary>) -> Statistics {
        let efficiency = (!self.result.untimed).then(|| self.efficiency.finish());
        let seen = summary.map(TraceSummary::calls);
        let mut functions = self.functions;
        for function in seen.iter().flat_map(BTreeMap::keys) {
            functions.entry(*function).or_default();
        }
        let mut functions: Vec<FunctionStat> = functions
            .into_iter()
            .map(|(number, sum)| {
                let seen = seen.as_ref();
                sum.finish(
                    number,
                    seen.map(|seen| seen.get(&number).copied().unwrap_or(0)),
                )
            })
            .collect();
        functions.sort_by(|a, b| {
            let key = |stat: &FunctionStat| {
                (
                    std::cmp::Reverse((stat.total_ps, stat.calls)),
                    stat.function,
                )
            };
            key(a).cmp(&key(b))
        });
        let mut all = Intervals::default();
        let mut ranks = Vec::new();
        for (key, process) in &self.processes {
            all.add(process.intervals);
            ranks.push(process.finish(*key, self.communicators.job(*key).unwrap_or(0)));
        }
        ranks.sort_by_key(|stat| (stat.job, stat.rank, stat.node));
        Statistics {
            functions,
            ranks,
            intervals: all.finish(),
            efficiency,
            sizes: self.sizes.into_iter().map(size_stat).collect(),
            traffic: self.traffic.into_iter().map(traffic_stat).collect(),
            singletons: self.communicators.singletons(),
            ..self.result
        }
    }
}

impl FunctionSum {
    /// Adds several calls with a total of `inside` picoseconds, and the times in the shortest and the longest.
    fn add_folded(&mut self, calls: u64, inside: u64, shortest: u64, longest: u64) {
        self.folds.push((inside / calls, calls));
        let (all, least, most) = self.folded.unwrap_or((0, u64::MAX, 0));
        self.folded = Some((
            all.saturating_add(inside),
            least.min(shortest),
            most.max(longest),
        ));
    }

    /// Returns the median, the lower of the two middle values; calls of one record count with their mean.
    fn median(&mut self) -> u64 {
        self.folds.sort_unstable();
        let count = self.durations.len() as u128;
        let folded: u128 = self.folds.iter().map(|(_, calls)| u128::from(*calls)).sum();
        let mut left = (count + folded).saturating_sub(1) / 2;
        let mut singles = self.durations.iter().copied().peekable();
        for (mean, calls) in &self.folds {
            while let Some(single) = singles.next_if(|single| single <= mean) {
                match left.checked_sub(1) {
                    Some(fewer) => left = fewer,
                    None => return single,
                }
            }
            match left.checked_sub(u128::from(*calls)) {
                Some(fewer) => left = fewer,
                None => return *mean,
            }
        }
        singles.nth(left as usize).unwrap_or(0)
    }

    fn finish(mut self, number: u16, seen: Option<u64>) -> FunctionStat {
        self.durations.sort_unstable();
        let median_ps = self.median();
        let durations = &self.durations;
        let (inside, shortest, longest) = self.folded.unwrap_or((0, u64::MAX, 0));
        let singles: u128 = durations.iter().map(|ps| u128::from(*ps)).sum();
        let total = singles + u128::from(inside) + u128::from(self.lacking.inside);
        let folded: u128 = self.folds.iter().map(|(_, calls)| u128::from(*calls)).sum();
        let count = durations.len() as u128 + folded + u128::from(self.lacking.calls);
        let lacking = self.lacking.extremes.unwrap_or((u64::MAX, 0));
        let (shortest, longest) = (shortest.min(lacking.0), longest.max(lacking.1));
        let least = durations.first().copied().unwrap_or(u64::MAX).min(shortest);
        FunctionStat {
            function: FUNCTIONS
                .get(usize::from(number))
                .map_or("MPI_?", |function| function.name),
            calls: self.calls,
            nested: self.nested,
            seen,
            sent: self.sent,
            received: self.received,
            returned: u64::try_from(count).unwrap_or(u64::MAX),
            min_ps: if count == 0 { 0 } else { least },
            median_ps,
            mean_ps: total.checked_div(count).unwrap_or(0) as u64,
            max_ps: durations.last().copied().unwrap_or(0).max(longest),
            total_ps: u64::try_from(total).unwrap_or(u64::MAX),
        }
    }
}

impl ProcessSum {
    fn finish(&self, (node, _): ProcessKey, job: u32) -> RankStat {
        RankStat {
            job,
            rank: self.rank,
            node,
            calls: self.calls,
            compute_ps: self.compute,
            mpi_ps: self.mpi,
            start_and_end_ps: self.start_and_end,
            sent: self.sent,
            received: self.received,
            intervals: self.intervals.finish(),
        }
    }
}

impl Intervals {
    /// Adds `count` intervals with a total of `cycles` as if they were equally long, since the individual ones are unknown.
    fn add_equal(&mut self, count: u64, cycles: u64, hz: u64) {
        let reciprocals = count as f64 * (count as f64 / cycles.max(1) as f64).min(1.0);
        self.count = self.count.saturating_add(count);
        self.reciprocal_cycles += reciprocals;
        self.reciprocal_seconds += hz as f64 * reciprocals;
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.reciprocal_cycles += other.reciprocal_cycles;
        self.reciprocal_seconds += other.reciprocal_seconds;
    }

    fn finish(self) -> IntervalStat {
        let mean = |reciprocals: f64| {
            if self.count == 0 {
                0.0
            } else {
                significant(self.count as f64 / reciprocals, DIGITS)
            }
        };
        IntervalStat {
            count: self.count,
            harmonic_mean_cycles: mean(self.reciprocal_cycles),
            harmonic_mean_s: mean(self.reciprocal_seconds),
        }
    }
}

fn size_stat((class, (messages, bytes)): (u32, (u64, u64))) -> SizeStat {
    let (from, to) = match class {
        0 => (0, 0),
        class => (1 << (class - 1), u64::MAX >> (u64::BITS - class)),
    };
    SizeStat {
        from,
        to,
        messages,
        bytes,
    }
}

fn traffic_stat(((from, to), (messages, bytes)): ((Member, Member), (u64, u64))) -> TrafficStat {
    TrafficStat {
        job: from.job,
        from: from.rank,
        to_job: to.job,
        to: to.rank,
        messages,
        bytes,
    }
}
