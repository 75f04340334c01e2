//! Calls and times of two traces, by function and by process.
//!
//! Only calls by the program itself count. Collected while both traces are read.

use std::collections::BTreeMap;

use belljar_job::{Communicators, Member};
use belljar_trace::{Event, TraceHeader};

use super::{Both, FunctionDiff, RankDiff, TraceDiff};

/// One of the two traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffSide {
    /// The first.
    A,
    /// The second.
    B,
}

impl DiffSide {
    /// Both, in order.
    pub(super) const ALL: [Self; 2] = [Self::A, Self::B];
}

impl Both {
    /// Returns the figure of one trace.
    fn of(&mut self, side: DiffSide) -> &mut u64 {
        match side {
            DiffSide::A => &mut self.a,
            DiffSide::B => &mut self.b,
        }
    }

    fn add(&mut self, side: DiffSide, amount: u64) {
        let own = self.of(side);
        *own = own.saturating_add(amount);
    }
}

/// Begin and end.
type Extent = Option<(u64, u64)>;

/// Sums over a process's calls in two traces.
#[derive(Debug, Default)]
struct ProcessSums {
    calls: Both,
    mpi: Both,
    extents: [Extent; 2],
}

/// Sums over the calls of two traces.
#[derive(Debug, Default)]
pub(super) struct DiffSums {
    processes: BTreeMap<Member, ProcessSums>,
    functions: BTreeMap<u16, FunctionDiff>,
}

impl DiffSums {
    /// Adds a call of one of the traces.
    pub(super) fn observe(
        &mut self,
        side: DiffSide,
        event: &Event,
        header: &TraceHeader,
        communicators: &Communicators,
    ) {
        let Some(job) = communicators.job((event.node, event.process)) else {
            return;
        };
        if event.depth > 0 || !event.selected {
            return;
        }
        let time = |cycles| header.frequency(event.node).time_of(cycles).as_ps();
        let (entry, exit) = (time(event.entry), time(event.exit.unwrap_or(event.entry)));
        let spent = match event.calls() {
            1 => exit.saturating_sub(entry),
            _ => time(event.duration().unwrap_or(0)),
        };
        let process = self
            .processes
            .entry(Member {
                job,
                rank: event.rank,
            })
            .or_default();
        if !event.meaning().polls {
            process.calls.add(side, event.calls());
        }
        process.mpi.add(side, spent);
        let extent = &mut process.extents[side as usize];
        let (first, last) = extent.unwrap_or((entry, exit));
        *extent = Some((first.min(entry), last.max(exit)));
        let function = self
            .functions
            .entry(event.function)
            .or_insert(FunctionDiff {
                function: event.name(),
                calls: Both::default(),
                total_ps: Both::default(),
            });
        function.calls.add(side, event.calls());
        function.total_ps.add(side, spent);
    }

    /// Returns the sums, with everything else marked as equal.
    pub(super) fn finish(self) -> TraceDiff {
        let span = |extent: Extent| extent.map_or(0, |(first, last)| last - first);
        let spans = |extents: [Extent; 2]| {
            let [a, b] = extents.map(span);
            Both { a, b }
        };
        let all = |side: usize| {
            let extents = self.processes.values().filter_map(|own| own.extents[side]);
            extents.reduce(|all, own| (all.0.min(own.0), all.1.max(own.1)))
        };
        let span_ps = spans([all(0), all(1)]);
        let ranks = self.processes.iter().map(|(member, own)| RankDiff {
            job: member.job,
            rank: member.rank,
            calls: own.calls,
            span_ps: spans(own.extents),
            mpi_ps: own.mpi,
            parts: None,
            shifts: None,
        });
        let ranks = ranks.collect();
        let mut functions: Vec<_> = self.functions.into_values().collect();
        let equal = functions
            .iter()
            .all(|own| own.calls.a == own.calls.b && own.total_ps.a == own.total_ps.b);
        functions.sort_by_key(|own| {
            (
                std::cmp::Reverse(own.total_ps.a.abs_diff(own.total_ps.b)),
                own.function,
            )
        });
        TraceDiff {
            equal,
            span_ps,
            ranks,
            functions,
            ..TraceDiff::default()
        }
    }
}
