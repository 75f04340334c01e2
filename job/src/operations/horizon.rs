//! The time up to which all calls of a trace are known.
//!
//! A trace has calls in the order of their returns, and a thread enters the program's calls one after another: no later
//! call can have been entered before the latest entry of each thread. Threads without a call yet are left out. Called
//! with each event.

use std::collections::BTreeMap;

use belljar_mpi::CallKind;
use belljar_trace::Event;

use crate::communicators::ProcessKey;

/// Events from one deduction to the next.
const EVERY: u64 = 1 << 12;

/// The latest entry of each thread.
#[derive(Debug)]
pub(super) struct Horizon {
    threads: BTreeMap<ProcessKey, BTreeMap<u32, u64>>,
    events: u64,
}

impl Horizon {
    /// Creates a horizon for processes without known calls.
    pub(super) fn new(processes: impl Iterator<Item = ProcessKey>) -> Self {
        Self {
            threads: processes.map(|key| (key, BTreeMap::new())).collect(),
            events: 0,
        }
    }

    /// Records a call and its entry. Returns true if [`value`](Self::value) should be called.
    pub(super) fn observe(&mut self, event: &Event, entry: u64) -> bool {
        let key = (event.node, event.process);
        if event.meaning().kind == CallKind::Finalize {
            self.threads.remove(&key);
        } else if let Some(threads) = self.threads.get_mut(&key)
            && event.depth == 0
        {
            let latest = threads.entry(event.thread).or_insert(entry);
            *latest = entry.max(*latest);
        }
        self.events += 1;
        self.events.is_multiple_of(EVERY)
    }

    /// All calls entered before this time are known.
    pub(super) fn value(&self) -> u64 {
        let process = |threads: &BTreeMap<u32, u64>| threads.values().min().copied().unwrap_or(0);
        self.threads.values().map(process).min().unwrap_or(u64::MAX)
    }
}
