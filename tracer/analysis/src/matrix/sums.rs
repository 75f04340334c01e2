//! Sums by pairs, and why something is in none.
//!
//! `collect` fills them, and so do those that work out collective operations.

use std::collections::BTreeMap;

use crate::communicators::{Communicators, Member};

/// Why something is not in the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unknown {
    /// The trace does not tell whom the communicator joins.
    Peer,
    /// The trace does not tell the bytes.
    Bytes,
    /// The trace does not tell each member's part.
    Pieces,
    /// It was started by `MPI_Start`, and what was prepared does not tell which operation it is.
    Persistent,
    /// Its communicator joins two groups.
    Intercommunicator,
    /// Neighbours are not those of a grid.
    Neighbors,
    /// The library is another than that of the tables.
    Library,
    /// Members share nodes.
    Nodes,
    /// The library's tables say nothing, or name an algorithm that is not known.
    Algorithm,
    /// The trace does not tell whether the program's own reduction is commutative.
    Reduction,
    /// There are too many pairs.
    Pairs,
}

impl Unknown {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Peer => "messages or calls on communicators that could not be worked out",
            Self::Bytes => "collective calls whose bytes the trace does not tell",
            Self::Pieces => {
                "collective calls of which the trace has no count for each member: an earlier Belljar wrote it"
            }
            Self::Persistent => {
                "persistent collective operations started, of which it is unknown what prepared them"
            }
            Self::Intercommunicator => "collective calls between groups",
            Self::Neighbors => "calls among neighbours of a graph",
            Self::Library => {
                "collective calls of another MPI library than the one whose tables are read"
            }
            Self::Nodes => "collective calls of ranks that share nodes, and memory",
            Self::Algorithm => "collective calls whose algorithm is not known",
            Self::Reduction => {
                "collective calls with an operation of which it is unknown whether it is commutative"
            }
            Self::Pairs => "messages between more pairs of ranks than are kept",
        }
    }
}

/// What goes from one to another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Sum {
    pub(super) fn add(&mut self, messages: u64, bytes: u64) {
        self.messages = self.messages.saturating_add(messages);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Pairs that are kept, at most: those of two thousand ranks of which each talks to each.
const MOST_PAIRS: usize = 1 << 22;

/// Members of a communicator that are believed of a trace that has fewer processes.
const MEMBERS_BELIEVED: usize = 1 << 12;

/// Whether a communicator may have so many members: a trace of a few bytes could claim any number.
pub(super) fn is_plausible(communicators: &Communicators, members: u32) -> bool {
    members as usize <= communicators.processes().max(MEMBERS_BELIEVED)
}

/// Sums by pairs.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) sums: BTreeMap<(Member, Member), Sum>,
    /// Messages of pairs for which there was no room.
    pub(super) left_out: u64,
}

impl Pairs {
    /// So many messages, of so many bytes together.
    pub(super) fn add(&mut self, from: Member, to: Member, messages: u64, bytes: u64) {
        let pair = (from, to);
        if self.sums.len() >= MOST_PAIRS && !self.sums.contains_key(&pair) {
            self.left_out = self.left_out.saturating_add(messages);
            return;
        }
        self.sums.entry(pair).or_default().add(messages, bytes);
    }
}
