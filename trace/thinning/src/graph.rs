//! The growing event flow graph of a thread, and its current loop.
//!
//! Nodes are numbered in the order of their first visits. A graph has at most `MOST_NODES` nodes and `MOST_EDGES`
//! transitions; each call beyond these limits counts as growth. Used by `follower`.

use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};

use crate::signature::Signature;

const MOST_NODES: usize = 4096;
const MOST_EDGES: usize = 1 << 16;

/// A kind of call in a thread's graph.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct CallNode {
    of_all: bool,
    /// True if it is a message with a named peer.
    has_peer: bool,
    visits: u64,
    /// Visits since the graph last grew.
    recent: u64,
    since: u64,
}

/// A loop: its nodes, and the one at which an iteration begins.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Loop {
    pub(crate) nodes: BTreeSet<u32>,
    pub(crate) header: u32,
    /// True if the header is a collective operation of all processes.
    pub(crate) of_all: bool,
}

/// The graph of a thread's outermost calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Graph {
    numbers: BTreeMap<Signature, u32>,
    nodes: Vec<CallNode>,
    /// The time of each transition's last use, in calls.
    edges: BTreeMap<(u32, u32), u64>,
    last: Option<u32>,
    calls: u64,
    grown: u64,
}

impl Graph {
    /// Adds a call. Returns its node, if it has one, and the previous node.
    pub(crate) fn visit(
        &mut self,
        signature: Signature,
        of_all: bool,
    ) -> (Option<u32>, Option<u32>) {
        self.calls = self.calls.saturating_add(1);
        let before = self.last;
        let number = match self.numbers.get(&signature) {
            Some(number) => Some(*number),
            None => self.add(signature, of_all),
        };
        if let (Some(from), Some(to)) = (before, number) {
            self.pass(from, to);
        }
        let (calls, grown) = (self.calls, self.grown);
        match number.and_then(|number| self.nodes.get_mut(number as usize)) {
            Some(node) => {
                node.visits = node.visits.saturating_add(1);
                if node.since != grown {
                    (node.since, node.recent) = (grown, 0);
                }
                node.recent = node.recent.saturating_add(1);
            }
            None => self.grown = calls,
        }
        self.last = number;
        (number, before)
    }

    fn add(&mut self, signature: Signature, of_all: bool) -> Option<u32> {
        self.grown = self.calls;
        if self.nodes.len() >= MOST_NODES {
            return None;
        }
        let number = self.nodes.len() as u32;
        let has_peer = signature.has_peer();
        self.numbers.insert(signature, number);
        self.nodes.push(CallNode {
            of_all,
            has_peer,
            visits: 0,
            recent: 0,
            since: 0,
        });
        Some(number)
    }

    fn pass(&mut self, from: u32, to: u32) {
        let calls = self.calls;
        match self.edges.get_mut(&(from, to)) {
            Some(last) => *last = calls,
            None => {
                self.grown = calls;
                if self.edges.len() < MOST_EDGES {
                    self.edges.insert((from, to), calls);
                }
            }
        }
    }

    /// Considers only transitions used from now on for loops.
    pub(crate) fn forget(&mut self) {
        self.grown = self.calls;
    }

    /// Returns the number of calls since the graph last grew.
    pub(crate) fn age(&self) -> u64 {
        self.calls - self.grown.min(self.calls)
    }

    /// Returns the time when the graph last grew, in calls.
    pub(crate) fn grown(&self) -> u64 {
        self.grown
    }

    /// Returns the number of visits to a node in total, and since the graph last grew.
    pub(crate) fn visits(&self, node: u32) -> (u64, u64) {
        let Some(node) = self.nodes.get(node as usize) else {
            return (0, 0);
        };
        let recent = if node.since == self.grown {
            node.recent
        } else {
            0
        };
        (node.visits, recent)
    }

    /// Returns the loop that contains the last call: the strongly connected component of the transitions used since the
    /// graph last grew. Its header is the first seen of its collective operations of all processes, else of its messages
    /// with a named peer, else of its nodes.
    pub(crate) fn find_loop(&self) -> Option<Loop> {
        let used = self.edges.iter().filter(|(_, last)| **last > self.grown);
        let used: Vec<(u32, u32)> = used.map(|(edge, _)| *edge).collect();
        let turned: Vec<(u32, u32)> = used.iter().map(|(from, to)| (*to, *from)).collect();
        let here = self.last?;
        let (after, before) = (reached(here, &used), reached(here, &turned));
        let nodes: BTreeSet<u32> = after.intersection(&before).copied().collect();
        let first = |wanted: fn(&CallNode) -> bool| {
            let mut all = nodes.iter();
            all.find(|node| self.nodes.get(**node as usize).is_some_and(wanted))
        };
        let of_all = first(|it| it.of_all);
        let header = of_all.or_else(|| first(|it| it.has_peer));
        Some(Loop {
            header: *header.or(nodes.first())?,
            of_all: of_all.is_some(),
            nodes,
        })
    }
}

/// Returns the nodes reachable in at least one step.
fn reached(from: u32, edges: &[(u32, u32)]) -> BTreeSet<u32> {
    let mut next: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(*from).or_default().push(*to);
    }
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(node) = open.pop() {
        for to in next.get(&node).into_iter().flatten() {
            if found.insert(*to) {
                open.push(*to);
            }
        }
    }
    found
}
