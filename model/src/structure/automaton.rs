//! Possible successors of each call in a structure.
//!
//! The automaton of Glushkov (1961): its states are the calls. All possible parses of a sequence are followed at once; of several that lead to one call, the one that
//! stays in inner loops is kept. Used by `structure`.

use super::{Structure, StructureNode};

/// Most parses that are kept while a sequence is read.
const MOST_WAYS: usize = 1 << 27;

/// The possible successors of each call, those of inner loops first.
#[derive(Debug, Default)]
pub(super) struct Automaton {
    tokens: Vec<u32>,
    /// Possible first calls.
    first: Vec<u32>,
    next: Vec<Vec<u32>>,
    /// True for each possible last call.
    last: Vec<bool>,
    /// True if the sequence may be empty.
    empty: bool,
}

/// A list of nodes around a call: the list, and the index of the next node.
#[derive(Clone, Copy)]
struct Around<'s> {
    nodes: &'s [StructureNode],
    after: usize,
}

impl Automaton {
    pub(super) fn of(structure: &Structure) -> Self {
        let calls = structure.calls as usize;
        let mut automaton = Self {
            tokens: vec![0; calls],
            next: vec![Vec::new(); calls],
            last: vec![false; calls],
            ..Self::default()
        };
        automaton.empty = firsts(&structure.nodes, &mut automaton.first);
        automaton.add(&structure.nodes, &mut Vec::new());
        automaton
    }

    /// Adds the calls of nodes, which are nested in `around`.
    fn add<'s>(&mut self, nodes: &'s [StructureNode], around: &mut Vec<Around<'s>>) {
        for (at, node) in nodes.iter().enumerate() {
            around.push(Around {
                nodes,
                after: at + 1,
            });
            match node {
                StructureNode::Call { token, number } => {
                    let mut next = Vec::new();
                    let last = successors(around, &mut next);
                    let number = *number as usize;
                    if let Some(own) = self.next.get_mut(number) {
                        (*own, self.last[number], self.tokens[number]) = (next, last, *token);
                    }
                }
                StructureNode::Loop { body, .. } => self.add(body, around),
            }
            around.pop();
        }
    }

    /// Returns the calls of a parsed sequence of this length; `fits` is true if an item of the sequence may be a token. `None` if the structure has no such sequence.
    pub(super) fn read(
        &self,
        length: usize,
        fits: impl Fn(usize, u32) -> bool,
    ) -> Option<Vec<u32>> {
        if length == 0 {
            return self.empty.then(Vec::new);
        }
        // By token, its possible calls, each with its predecessor.
        let mut ways: Vec<Vec<(u32, u32)>> = Vec::with_capacity(length);
        let mut seen = vec![usize::MAX; self.tokens.len()];
        let mut kept = 0;
        for at in 0..length {
            let mut own = Vec::new();
            let mut reach = |calls: &[u32], before: u32| {
                for call in calls {
                    let of = self.tokens.get(*call as usize);
                    if of.is_some_and(|token| fits(at, *token))
                        && std::mem::replace(&mut seen[*call as usize], at) != at
                    {
                        own.push((*call, before));
                    }
                }
            };
            match ways.last() {
                None => reach(&self.first, 0),
                Some(before) => {
                    for (index, (call, _)) in (0..).zip(before) {
                        reach(&self.next[*call as usize], index);
                    }
                }
            }
            kept += own.len();
            if own.is_empty() || kept > MOST_WAYS {
                return None;
            }
            ways.push(own);
        }
        let ends = ways.last()?.iter();
        let mut at = ends
            .clone()
            .position(|(call, _)| self.last[*call as usize])?;
        let mut calls = Vec::with_capacity(length);
        for own in ways.iter().rev() {
            let (call, before) = own[at];
            calls.push(call);
            at = before as usize;
        }
        calls.reverse();
        Some(calls)
    }
}

/// Adds the possible first calls of nodes, and returns true if the nodes may be empty.
fn firsts(nodes: &[StructureNode], into: &mut Vec<u32>) -> bool {
    for node in nodes {
        match node {
            StructureNode::Call { number, .. } => {
                into.push(*number);
                return false;
            }
            StructureNode::Loop { body, .. } => {
                firsts(body, into);
            }
        }
    }
    true
}

/// Adds the possible successors of a position in `around`, whose last entry is innermost, and returns true if the end may follow.
fn successors(around: &[Around<'_>], into: &mut Vec<u32>) -> bool {
    for (depth, list) in around.iter().enumerate().rev() {
        if !firsts(&list.nodes[list.after..], into) {
            return false;
        }
        // All lists except the outermost are bodies of loops.
        if depth > 0 {
            firsts(list.nodes, into);
        }
    }
    true
}
