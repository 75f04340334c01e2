//! Counters that a tracer keeps besides the calls it records.
//!
//! Counts do not depend on the selection, and no warning stops a run: each is a line at its end. Kept by tracers,
//! written at a trace's end, and shown by the run's summary.

use std::collections::BTreeMap;
use std::fmt;

use belljar_mpi::renumbered;
use bincode::{Decode, Encode};
use serde::Serialize;

use crate::implementation::Implementation;

/// Call counts and warnings of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Counters {
    /// Calls entered, selected or not, by the function's number.
    pub calls: BTreeMap<u16, u64>,
    /// Calls recorded.
    pub recorded: u64,
    /// Warnings.
    pub warnings: Warnings,
}

/// Counts of irregularities. They never stop a run; each is printed as a line at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Warnings {
    /// Calls with an argument that pointed to memory that could not be read.
    pub bad_pointers: u64,
    /// Calls that were left by a jump, not by returning.
    pub abandoned: u64,
    /// Calls whose return could not be intercepted, their stack being unwritable: they
    /// are recorded without exit.
    pub unreturnable: u64,
    /// Returns to the return stub without a matching call.
    pub unknown_returns: u64,
    /// Calls of functions that the program's MPI lacks.
    pub missing_functions: u64,
    /// Calls forgotten because too many were open at once.
    pub dropped: u64,
    /// Calls from processes that never introduced themselves.
    pub unknown_processes: u64,
    /// Unknown magic instructions.
    pub unknown_magic: u64,
    /// Predefined objects of an MPI library whose addresses could not be read: objects derived from them are
    /// meaningless.
    pub unread_objects: u64,
    /// Objects (requests, datatypes, communicators, groups, windows, messages) forgotten because a process had too
    /// many.
    pub forgotten_objects: u64,
}

impl Warnings {
    /// True if there are no warnings.
    pub fn is_empty(&self) -> bool {
        self.lines().next().is_none()
    }

    fn lines(&self) -> impl Iterator<Item = (u64, &'static str)> {
        [
            (
                self.bad_pointers,
                "calls with a pointer that could not be read",
            ),
            (self.abandoned, "calls left by a jump"),
            (self.unreturnable, "calls whose return could not be seen"),
            (
                self.unknown_returns,
                "returns from calls that were never seen",
            ),
            (
                self.missing_functions,
                "calls of functions that the program's MPI lacks",
            ),
            (self.dropped, "calls forgotten: too many open at once"),
            (
                self.unknown_processes,
                "calls by processes that never introduced themselves",
            ),
            (
                self.unknown_magic,
                "magic instructions without a known meaning",
            ),
            (
                self.unread_objects,
                "predefined MPI objects whose addresses could not be read",
            ),
            (self.forgotten_objects, "MPI objects forgotten: too many"),
        ]
        .into_iter()
        .filter(|(count, _)| *count != 0)
    }

    /// Adds another node's counters.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.bad_pointers, other.bad_pointers),
            (&mut self.abandoned, other.abandoned),
            (&mut self.unreturnable, other.unreturnable),
            (&mut self.unknown_returns, other.unknown_returns),
            (&mut self.missing_functions, other.missing_functions),
            (&mut self.dropped, other.dropped),
            (&mut self.unknown_processes, other.unknown_processes),
            (&mut self.unknown_magic, other.unknown_magic),
            (&mut self.unread_objects, other.unread_objects),
            (&mut self.forgotten_objects, other.forgotten_objects),
        ];
        for (mine, theirs) in pairs {
            *mine = mine.saturating_add(theirs);
        }
    }
}

/// Prints one line for each kind of warning that occurred.
impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (count, what)) in self.lines().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{count} {what}")?;
        }
        Ok(())
    }
}

/// An MPI process of a node.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct ProcessInfo {
    /// Its number on the node, in order of start.
    pub process: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its MPI implementation.
    pub implementation: Implementation,
    /// When it started, in cycles of the node's processor.
    pub start: u64,
}

/// A node tracer's summary at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NodeSummary {
    /// The node.
    pub node: u32,
    /// Its clock at the end, in cycles.
    pub end: u64,
    /// Its MPI processes, in order of start.
    pub processes: Vec<ProcessInfo>,
    /// Call counts and warnings.
    pub counters: Counters,
}

/// The end of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct TraceSummary {
    /// Summaries by node.
    pub nodes: Vec<NodeSummary>,
    /// The reason why the run ended, in words; empty for a regular end.
    pub ending: String,
}

impl TraceSummary {
    /// Returns the warnings of all nodes together.
    pub fn warnings(&self) -> Warnings {
        let mut sum = Warnings::default();
        for node in &self.nodes {
            sum.add(&node.counters.warnings);
        }
        sum
    }

    /// Gives functions their current numbers, in the summary of a trace of version 13 or earlier.
    pub fn renumber(&mut self) {
        for node in &mut self.nodes {
            let calls = std::mem::take(&mut node.counters.calls);
            let today = calls.into_iter();
            let today = today.filter_map(|(number, count)| Some((renumbered(number)?, count)));
            node.counters.calls = today.collect();
        }
    }

    /// Returns the calls entered on all nodes, selected or not, by function.
    pub fn calls(&self) -> BTreeMap<u16, u64> {
        let mut sum = BTreeMap::new();
        let calls = self.nodes.iter().flat_map(|node| &node.counters.calls);
        for (function, count) in calls {
            let total: &mut u64 = sum.entry(*function).or_default();
            *total = total.saturating_add(*count);
        }
        sum
    }
}
