//! The walk along the critical path backwards, from wait to wait.
//!
//! It is on one process at a time, and moves to another where that process waited for it. Waits come in order, from the last
//! on. Used by `sweep`.

use std::collections::BTreeMap;

use belljar_job::{Member, ProcessKey};

use super::{CriticalPath, Extent, Segment};
use crate::causes::waiting::{Dependency, DependencyNode};

/// The critical path, as far as it was followed.
#[derive(Debug)]
pub(super) struct PathFollower<'a> {
    extents: &'a BTreeMap<ProcessKey, Extent>,
    processes: BTreeMap<Member, ProcessKey>,
    /// Its current process; `None` in a trace without processes.
    process: Option<ProcessKey>,
    at: u64,
    path: CriticalPath,
    /// Segments from the last on.
    segments: BTreeMap<ProcessKey, Vec<Segment>>,
}

impl<'a> PathFollower<'a> {
    /// Starts at the end of a program of these processes: at the last return of all calls.
    pub(super) fn new(extents: &'a BTreeMap<ProcessKey, Extent>) -> Self {
        let processes = extents.iter();
        let processes = processes.map(|(process, extent)| (extent.member, *process));
        // In a tie, the first.
        let last = extents.iter().rev().max_by_key(|(_, extent)| extent.last);
        let at = last.map_or(0, |(_, extent)| extent.last);
        Self {
            extents,
            processes: processes.collect(),
            process: last.map(|(process, _)| *process),
            at,
            path: CriticalPath {
                to_ps: at,
                ..CriticalPath::default()
            },
            segments: BTreeMap::new(),
        }
    }

    /// Returns the processes.
    pub(super) fn extents(&self) -> &'a BTreeMap<ProcessKey, Extent> {
        self.extents
    }

    /// Handles a wait of a process.
    pub(super) fn wait(&mut self, wait: &Dependency) {
        let Some(process) = self.process else { return };
        let here = DependencyNode::process(self.extents[&process].member);
        if wait.who != here || wait.ready >= self.at {
            return;
        }
        let other = wait.on.member();
        let Some(other) = other.and_then(|member| self.processes.get(&member).copied()) else {
            return;
        };
        // A process cannot be waited for before its first call.
        if self.extents[&other].first > wait.ready {
            return;
        }
        self.segment(process, wait.ready);
        self.process = Some(other);
        self.path.changes += 1;
    }

    fn segment(&mut self, process: ProcessKey, from: u64) {
        let segments = self.segments.entry(process).or_default();
        segments.push((from, self.at));
        self.at = from;
    }

    /// Ends the path at its beginning, which is the first call of all processes. Returns its stretches by process, in the
    /// order of time.
    pub(super) fn finish(mut self) -> (CriticalPath, BTreeMap<ProcessKey, Vec<Segment>>) {
        if let Some(process) = self.process {
            let own = self.extents[&process].first.min(self.at);
            let first = self.extents.values().map(|extent| extent.first).min();
            let first = first.unwrap_or(own).min(own);
            self.segment(process, first);
            self.path.from_ps = first;
            self.path.before_ps = own - first;
        }
        for segments in self.segments.values_mut() {
            segments.reverse();
        }
        (self.path, self.segments)
    }
}
