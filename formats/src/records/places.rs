//! Processes, threads, communicators and windows, by number.
//!
//! Numbers count from 0 without gaps. Processes are numbered by job and rank before the first call; threads, communicators and windows at their
//! first use, so that unused ones get no number. Kept by the source; formats define all of them at the end.

use std::collections::BTreeMap;

use belljar_job::{Communicators, Member, Members, ProcessKey, WindowId};
use belljar_trace::WORLD;

/// A thread of a process with exported calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportedThread {
    /// The process, by number.
    pub process: u32,
    /// The thread, by its number in the process.
    pub thread: u32,
}

/// A communicator of exported calls.
#[derive(Clone, Debug)]
pub struct ExportedCommunicator {
    /// Its members, or those of the group that was seen first.
    pub members: Members,
    /// The members of the other group, if there are two.
    pub remote: Option<Members>,
    /// True for `MPI_COMM_WORLD` itself; its copies have the same members.
    pub is_world: bool,
}

/// A window of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The communicator on which it was made, by number.
    pub group: u32,
    /// The number of windows created earlier on that communicator.
    pub sequence: u32,
}

/// Most windows known at once, over all processes.
const MOST_WINDOWS: usize = 1 << 20;

/// All numbered items of calls.
#[derive(Debug, Default)]
pub struct Places {
    processes: Vec<(Member, u32)>,
    numbers: BTreeMap<Member, u32>,
    threads: BTreeMap<ExportedThread, u64>,
    groups: Vec<ExportedCommunicator>,
    by_identity: BTreeMap<u32, u32>,
    windows: Vec<Window>,
    by_window: BTreeMap<WindowId, u32>,
}

impl Places {
    /// Creates the places of all processes in the trace.
    pub(crate) fn new(communicators: &Communicators) -> Self {
        let all = communicators.all();
        let processes: Vec<_> = all
            .map(|member| (member, communicators.node(member).unwrap_or(0)))
            .collect();
        let numbers = (0..).zip(&processes);
        let numbers = numbers.map(|(number, (member, _))| (*member, number));
        Self {
            numbers: numbers.collect(),
            processes,
            ..Self::default()
        }
    }

    /// Returns the processes, and the node of each.
    pub fn processes(&self) -> &[(Member, u32)] {
        &self.processes
    }

    /// Returns the number of a process.
    pub fn process(&self, member: Member) -> Option<u32> {
        self.numbers.get(&member).copied()
    }

    /// Returns the threads with calls, and the number of calls of each.
    pub fn threads(&self) -> impl Iterator<Item = (ExportedThread, u64)> {
        self.threads.iter().map(|(thread, calls)| (*thread, *calls))
    }

    /// Returns the communicators.
    pub fn groups(&self) -> &[ExportedCommunicator] {
        &self.groups
    }

    /// Returns the windows.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Records a call of a thread.
    pub(crate) fn called(&mut self, thread: ExportedThread) {
        *self.threads.entry(thread).or_default() += 1;
    }

    /// Returns the number of a process's communicator; `None` if its members are unknown or incomplete.
    pub(crate) fn group(
        &mut self,
        communicators: &Communicators,
        process: ProcessKey,
        number: u32,
    ) -> Option<u32> {
        let identity = communicators.identity(process, number)?;
        if let Some(known) = self.by_identity.get(&identity) {
            return Some(*known);
        }
        let members = communicators.members(process, number)?.clone();
        let remote = communicators.remote_members(process, number).cloned();
        let sides = [Some(&members), remote.as_ref()];
        let there = |side: &Members| {
            // A world is not expanded, so its size may be anything.
            side.len() as usize <= self.processes.len()
                && side.iter().all(|member| self.numbers.contains_key(&member))
        };
        if !sides.into_iter().flatten().all(there) {
            return None;
        }
        let group = self.groups.len() as u32;
        let is_world = communicators.identity(process, WORLD) == Some(identity);
        self.groups.push(ExportedCommunicator {
            members,
            remote,
            is_world,
        });
        self.by_identity.insert(identity, group);
        Some(group)
    }

    /// Adds a window that a process created on the communicator with this number. `None` if there are too many.
    pub(crate) fn window_made(&mut self, window: WindowId, group: u32) -> Option<u32> {
        if let Some(known) = self.by_window.get(&window) {
            return Some(*known);
        }
        if self.windows.len() >= MOST_WINDOWS {
            return None;
        }
        let number = self.windows.len() as u32;
        let sequence = window.sequence;
        self.windows.push(Window { group, sequence });
        self.by_window.insert(window, number);
        Some(number)
    }

    /// Returns the number of a window that a process created.
    pub(crate) fn window(&self, window: WindowId) -> Option<u32> {
        self.by_window.get(&window).copied()
    }
}
