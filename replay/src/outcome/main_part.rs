//! The main part of a job: the time between the start and the end of MPI.
//!
//! In each MPI program it begins with the last return of a process's first call that starts MPI, and ends with the first
//! entry of a process's last call that ends it. A process without such a call counts by its first entry and its last return.
//! Of several programs, such as spawned ones, the earliest beginning and the latest end count. Called by `outcome`.

use std::collections::BTreeMap;

use belljar_mpi::{Boundary, meaning};
use belljar_program::Program;

/// The calls of one process, as far as they bound its main part.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The first entry and the last return of all calls.
    calls: (u64, u64),
    /// The entry and the return of the first call that starts MPI.
    start: Option<(u64, u64)>,
    /// The last entry of a call that ends MPI.
    end: Option<u64>,
}

/// Gathers the main part from calls, in any order.
#[derive(Debug, Default)]
pub(super) struct MainPart(BTreeMap<u32, Bounds>);

impl MainPart {
    /// Takes a call of a process into account.
    pub(super) fn take(&mut self, process: u32, function: u16, (entry, exit): (u64, u64)) {
        let bounds = self.0.entry(process).or_insert(Bounds {
            calls: (entry, exit),
            start: None,
            end: None,
        });
        bounds.calls = (bounds.calls.0.min(entry), bounds.calls.1.max(exit));
        match meaning(function).boundary() {
            Some(Boundary::Start) if bounds.start.is_none_or(|(first, _)| entry < first) => {
                bounds.start = Some((entry, exit));
            }
            Some(Boundary::End) => bounds.end = bounds.end.max(Some(entry)),
            _ => {}
        }
    }

    /// Its length in picoseconds; 0 where the end is before the beginning.
    pub(super) fn span(&self, program: &Program) -> u64 {
        let mut jobs: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (process, bounds) in &self.0 {
            let from = bounds.start.map_or(bounds.calls.0, |(_, exit)| exit);
            let to = bounds.end.unwrap_or(bounds.calls.1);
            let job = program.processes[*process as usize].job;
            let own = jobs.entry(job).or_insert((from, to));
            *own = (own.0.max(from), own.1.min(to));
        }
        let from = jobs.values().map(|(from, _)| *from).min();
        let to = jobs.values().map(|(_, to)| *to).max();
        to.unwrap_or(0).saturating_sub(from.unwrap_or(0))
    }
}
