//! The main part of a job: the time between the start and the end of MPI.
//!
//! It begins with the earliest return of a process's first call that starts MPI, and ends with the latest entry of a
//! process's last call that ends it. For a process without such calls, its first entry and its last return are used. Runs
//! and replays use the same definition. Called by `analysis` for efficiencies, and by `replay`.

use std::collections::BTreeMap;

use belljar_mpi::{Boundary, meaning};

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
#[derive(Clone, Debug)]
pub struct MainPart<K>(BTreeMap<K, Bounds>);

impl<K> Default for MainPart<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> MainPart<K> {
    /// Adds a call of a process. Times are in picoseconds.
    pub fn take(&mut self, process: K, function: u16, entry: u64, exit: u64) {
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

    /// Its length in picoseconds; 0 if the end is before the beginning.
    pub fn span(&self) -> u64 {
        let all = self.0.values();
        let from = all
            .clone()
            .map(|it| it.start.map_or(it.calls.0, |(_, exit)| exit));
        let to = all.map(|it| it.end.unwrap_or(it.calls.1));
        let from = from.min().unwrap_or(0);
        to.max().unwrap_or(0).saturating_sub(from)
    }
}
