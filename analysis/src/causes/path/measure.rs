//! Measurement of the critical path by process, function, call site and phase.
//!
//! The path is known as stretches of time on processes; another pass over the trace finds the calls in them. Used by `path`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use belljar_job::{Member, ProcessKey};
use belljar_mpi::FUNCTIONS;
use belljar_trace::{Event, TraceHeader};

use super::sweep::Spare;
use super::{
    CriticalPath, Extent, PathFunction, PathPhase, PathRank, PathSite, PathStretch, RankSlack,
    Segment,
};
use crate::structure::phases::{Phases, ProgramPhase};
use crate::sums::sites::number::SiteNumbers;

/// Calls on the path and their time on it, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct PathTotals {
    calls: u64,
    time: u64,
}

impl PathTotals {
    fn add(&mut self, calls: u64, time: u64) {
        self.calls = self.calls.saturating_add(calls);
        self.time = self.time.saturating_add(time);
    }
}

/// Measures a path with known stretches.
#[derive(Debug)]
pub(crate) struct Measure {
    header: TraceHeader,
    path: CriticalPath,
    extents: BTreeMap<ProcessKey, Extent>,
    spares: BTreeMap<Member, Spare>,
    phases: Option<Phases>,
    numbers: SiteNumbers,
    /// In the order of time, and disjoint.
    segments: BTreeMap<ProcessKey, Vec<Segment>>,
    functions: BTreeMap<u16, PathTotals>,
    sites: BTreeMap<u32, PathTotals>,
    calls: BTreeMap<(ProcessKey, ProgramPhase), u64>,
    /// Time in calls that start or end MPI.
    boundary: BTreeMap<ProcessKey, u64>,
}

impl Measure {
    /// Creates an empty measurement of this path through these processes.
    pub(super) fn new(
        header: TraceHeader,
        path: CriticalPath,
        segments: BTreeMap<ProcessKey, Vec<Segment>>,
        spares: BTreeMap<Member, Spare>,
        extents: BTreeMap<ProcessKey, Extent>,
        phases: Option<Phases>,
        numbers: SiteNumbers,
    ) -> Self {
        Self {
            header,
            path,
            extents,
            spares,
            phases,
            numbers,
            segments,
            functions: BTreeMap::new(),
            sites: BTreeMap::new(),
            calls: BTreeMap::new(),
            boundary: BTreeMap::new(),
        }
    }

    /// Adds a call.
    pub(crate) fn observe(&mut self, event: &Event) {
        let process = (event.node, event.process);
        let segments = self.segments.get(&process);
        let (Some(segments), Some(exit), 0) = (segments, event.exit, event.depth) else {
            return;
        };
        let frequency = self.header.frequency(event.node);
        let entry = frequency.time_of(event.entry).as_ps();
        let exit = frequency.time_of(exit).as_ps();
        let on_path = within(segments, entry, exit);
        let on_path = match event.calls() {
            1 => on_path,
            // The times of the individual calls are unknown, so they are assumed to be evenly distributed.
            _ => {
                let extent = exit.saturating_sub(entry).max(1);
                let inside = frequency.time_of(event.duration().unwrap_or(0)).as_ps();
                let part = u128::from(on_path) * u128::from(inside) / u128::from(extent);
                u64::try_from(part).unwrap_or(u64::MAX).min(on_path)
            }
        };
        if on_path == 0 {
            return;
        }
        self.functions
            .entry(event.function)
            .or_default()
            .add(event.calls(), on_path);
        if self.numbers.frames() > 0 {
            let site = self.numbers.number(event);
            self.sites
                .entry(site)
                .or_default()
                .add(event.calls(), on_path);
        }
        let phases = self.phases.as_ref();
        let phase = phases.map_or(ProgramPhase::Before, |phases| phases.phase(event));
        let all = self.calls.entry((process, phase)).or_default();
        *all = all.saturating_add(on_path);
        if event.meaning().boundary().is_some() {
            let own = self.boundary.entry(process).or_default();
            *own = own.saturating_add(on_path);
        }
    }

    /// Returns the path with its parts.
    pub(crate) fn finish(self) -> CriticalPath {
        CriticalPath {
            ranks: self.ranks(),
            functions: self.functions(),
            sites: self.sites(),
            phases: self.phases(),
            slack: self.slack(),
            stretches: self.stretches(),
            start_and_end_ps: self.boundary.values().copied().fold(0, u64::saturating_add),
            ..self.path
        }
    }

    fn ranks(&self) -> Vec<PathRank> {
        let ranks = self.segments.iter().filter_map(|(process, segments)| {
            let time = within(segments, 0, u64::MAX);
            let all = (*process, ProgramPhase::Before)..=(*process, ProgramPhase::After);
            let calls = self.calls.range(all).map(|(_, time)| *time);
            let calls = calls.fold(0, u64::saturating_add);
            let member = self.extents.get(process).filter(|_| time > 0)?.member;
            Some(PathRank {
                job: member.job,
                rank: member.rank,
                node: process.0,
                path_ps: time,
                // Calls of several threads may overlap.
                compute_ps: time.saturating_sub(calls),
                start_and_end_ps: self.boundary.get(process).copied().unwrap_or(0),
            })
        });
        let mut ranks: Vec<PathRank> = ranks.collect();
        ranks.sort_by_key(|part| (part.job, part.rank, part.node));
        ranks
    }

    fn functions(&self) -> Vec<PathFunction> {
        let functions = self.functions.iter().map(|(function, part)| {
            let function = FUNCTIONS.get(usize::from(*function));
            PathFunction {
                function: function.map_or("MPI_?", |function| function.name),
                calls: part.calls,
                path_ps: part.time,
            }
        });
        let mut functions: Vec<PathFunction> = functions.collect();
        functions.sort_by_key(|part| (Reverse(part.path_ps), part.function));
        functions
    }

    fn sites(&self) -> Vec<PathSite> {
        let sites = self.sites.iter().filter(|(number, _)| **number > 0);
        let sites = sites.map(|(number, part)| {
            let (function, frames) = self.numbers.shown(*number);
            PathSite {
                function,
                frames,
                calls: part.calls,
                path_ps: part.time,
            }
        });
        let mut sites: Vec<PathSite> = sites.collect();
        // Ties are in the order of appearance.
        sites.sort_by_key(|site| Reverse(site.path_ps));
        sites
    }

    fn phases(&self) -> Vec<PathPhase> {
        let Some(phases) = &self.phases else {
            return Vec::new();
        };
        let mut parts = ProgramPhase::ALL.map(|phase| PathPhase {
            phase,
            path_ps: 0,
            compute_ps: 0,
        });
        for (process, segments) in &self.segments {
            let time = |cycles| self.header.frequency(process.0).time_of(cycles).as_ps();
            let main = phases.main_loop(process.0, process.1);
            let (from, to) = main.map_or((u64::MAX, u64::MAX), |(from, to)| (time(from), time(to)));
            let stretches = [(0, from), (from, to), (to, u64::MAX)];
            for (part, (from, to)) in parts.iter_mut().zip(stretches) {
                let path = within(segments, from, to);
                let calls = self.calls.get(&(*process, part.phase)).copied();
                part.path_ps = part.path_ps.saturating_add(path);
                let computing = path.saturating_sub(calls.unwrap_or(0));
                part.compute_ps = part.compute_ps.saturating_add(computing);
            }
        }
        parts.into()
    }

    fn stretches(&self) -> Vec<PathStretch> {
        let processes = self.segments.iter().filter_map(|(process, segments)| {
            let member = self.extents.get(process)?.member;
            Some((member, segments))
        });
        let stretches = processes.flat_map(|(member, segments)| {
            segments.iter().map(move |(from, to)| PathStretch {
                job: member.job,
                rank: member.rank,
                from_ps: *from,
                to_ps: *to,
            })
        });
        let mut stretches: Vec<PathStretch> = stretches.collect();
        stretches.sort_by_key(|stretch| (stretch.from_ps, stretch.to_ps));
        stretches
    }

    fn slack(&self) -> Vec<RankSlack> {
        let ranks = self.extents.iter().filter_map(|(process, extent)| {
            let spare = self.spares.get(&extent.member)?;
            Some(RankSlack {
                job: extent.member.job,
                rank: extent.member.rank,
                node: process.0,
                least_ps: spare.least,
                mean_ps: spare.mean(),
                most_ps: spare.most,
                busy_ps: spare.time,
                critical_ps: spare.none,
            })
        });
        let mut ranks: Vec<RankSlack> = ranks.collect();
        ranks.sort_by_key(|rank| (rank.job, rank.rank, rank.node));
        ranks
    }
}

/// Returns the part of these stretches between two times.
fn within(segments: &[Segment], from: u64, to: u64) -> u64 {
    let first = segments.partition_point(|(_, end)| *end <= from);
    let own = segments[first..]
        .iter()
        .take_while(|(begin, _)| *begin < to);
    own.map(|(begin, end)| to.min(*end).saturating_sub(from.max(*begin)))
        .fold(0, u64::saturating_add)
}
