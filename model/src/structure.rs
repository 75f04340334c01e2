//! The loops of a sequence of calls, and parsing of sequences by known loops.
//!
//! A sequence consists of tokens: equivalent calls have the same one. [`fold`](Structure::fold) converts repetitions to nested loops; loops that differ only in their
//! turns are the same loop. [`parse`](Structure::parse) parses another sequence with other turns. Used by models of runs.

/// Possible successors of each call.
mod automaton;

use automaton::Automaton;
use serde::{Deserialize, Serialize};

/// Most nodes of a loop's body.
const MOST_BODY: usize = 1 << 10;

/// Deepest nesting of loops.
const DEEPEST: u32 = 64;

/// A node of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StructureNode {
    /// A call.
    Call {
        /// The class of equivalent calls.
        token: u32,
        /// Its number among the structure's calls.
        number: u32,
    },
    /// A loop.
    Loop {
        /// The body.
        body: Vec<StructureNode>,
        /// Its number among the structure's loops.
        number: u32,
    },
}

/// The structure of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Structure {
    /// Its parts, in order.
    pub nodes: Vec<StructureNode>,
    /// The number of its calls.
    pub calls: u32,
    /// The number of its loops.
    pub loops: u32,
}

/// Turns of the loops around a call, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// The turn of the innermost one.
    pub turn: u32,
    /// The turns of the loops around it, from the inside out.
    pub outer: [u32; 3],
    /// True in the last turn of the innermost one.
    pub last: bool,
}

impl Turns {
    /// Returns the turns within an inner loop.
    pub(crate) fn within(self, turn: u32) -> Self {
        Self {
            turn,
            outer: [self.turn, self.outer[0], self.outer[1]],
            last: false,
        }
    }
}

/// A sequence parsed by a structure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedSequence {
    /// For each token of the sequence, the number of its call, and the turn of the innermost loop around it, from 0.
    pub calls: Vec<(u32, u32)>,
    /// For each token, the turns of all loops around it.
    pub around: Vec<Turns>,
    /// The turns of each loop, for each of its entries.
    pub turns: Vec<Vec<u32>>,
}

/// A node under construction.
#[derive(Clone, Debug)]
struct GrowingNode {
    /// Hash of its tokens, independent of repetitions.
    hash: u64,
    /// The body of a loop; for a call its token.
    of: Result<Vec<GrowingNode>, u32>,
}

impl GrowingNode {
    fn call(token: u32) -> Self {
        Self {
            hash: mix(0x51ed_270b, u64::from(token)),
            of: Err(token),
        }
    }

    fn repeated(body: Vec<Self>) -> Self {
        // A loop of one part hashes like that part, since a single execution might have been repeated.
        let hash = match body.as_slice() {
            [single] => single.hash,
            _ => body.iter().fold(0x2545_f491, |hash, it| mix(hash, it.hash)),
        };
        Self { hash, of: Ok(body) }
    }

    /// Merges two parts that differ only in repetitions.
    fn merged(self, other: Self) -> Self {
        match (self.of, other.of) {
            (Ok(body), Ok(more)) if body.len() == more.len() => {
                let both = body.into_iter().zip(more);
                Self::repeated(both.map(|(a, b)| a.merged(b)).collect())
            }
            (Ok(body), _) | (Err(_), Ok(body)) => Self::repeated(body),
            (Err(token), Err(_)) => Self::call(token),
        }
    }
}

fn mix(hash: u64, with: u64) -> u64 {
    let mixed = (hash ^ with).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// True if parts differ only in repetitions.
fn alike(a: &[GrowingNode], b: &[GrowingNode]) -> bool {
    let mut pairs = a.iter().rev().zip(b.iter().rev());
    a.len() == b.len() && pairs.all(|(a, b)| a.hash == b.hash)
}

/// Converts the end of `parts` to a loop, if it repeats the parts before it. Returns true if it did.
fn reduce(parts: &mut Vec<GrowingNode>) -> bool {
    for length in 1..=MOST_BODY.min(parts.len().saturating_sub(1)) {
        let start = parts.len() - length;
        // One more turn of a loop.
        if let Some(Ok(body)) = parts[..start].last().map(|it| it.of.as_ref())
            && alike(body, &parts[start..])
        {
            let turn = parts.split_off(start);
            if let Some(GrowingNode { of: Ok(body), .. }) = parts.pop() {
                let merged = body.into_iter().zip(turn).map(|(a, b)| a.merged(b));
                parts.push(GrowingNode::repeated(merged.collect()));
            }
            return true;
        }
        // The second turn.
        if start >= length && alike(&parts[start - length..start], &parts[start..]) {
            let second = parts.split_off(start);
            let first = parts.split_off(start - length);
            let merged = first.into_iter().zip(second).map(|(a, b)| a.merged(b));
            parts.push(GrowingNode::repeated(merged.collect()));
            return true;
        }
    }
    false
}

impl Structure {
    /// Finds the loops of a sequence.
    pub fn fold(tokens: &[u32]) -> Self {
        let mut parts: Vec<GrowingNode> = Vec::new();
        for token in tokens {
            parts.push(GrowingNode::call(*token));
            while reduce(&mut parts) {}
        }
        let mut structure = Self::default();
        structure.nodes = structure.numbered(parts);
        // A loop may occur twice, once for a remainder that an earlier one also parses.
        match structure.parse(tokens) {
            Some(reading) => structure.pruned(&reading),
            None => structure,
        }
    }

    /// Removes loops that never turned.
    fn pruned(self, reading: &ParsedSequence) -> Self {
        fn growing(nodes: Vec<StructureNode>, reading: &ParsedSequence) -> Vec<GrowingNode> {
            let mut parts = Vec::new();
            for node in nodes {
                match node {
                    StructureNode::Call { token, .. } => parts.push(GrowingNode::call(token)),
                    StructureNode::Loop { body, number } => {
                        if reading.turns[number as usize]
                            .iter()
                            .any(|turns| *turns > 0)
                        {
                            parts.push(GrowingNode::repeated(growing(body, reading)));
                        }
                    }
                }
            }
            parts
        }
        let parts = growing(self.nodes, reading);
        let mut structure = Self::default();
        structure.nodes = structure.numbered(parts);
        structure
    }

    /// Returns a sequence without loops, and its parse.
    pub fn flat(tokens: &[u32]) -> (Self, ParsedSequence) {
        let nodes = (0..)
            .zip(tokens)
            .map(|(number, token)| StructureNode::Call {
                token: *token,
                number,
            });
        let structure = Self {
            nodes: nodes.collect(),
            calls: tokens.len() as u32,
            loops: 0,
        };
        let calls = (0..tokens.len() as u32).map(|number| (number, 0));
        let reading = ParsedSequence {
            calls: calls.collect(),
            around: vec![Turns::default(); tokens.len()],
            turns: Vec::new(),
        };
        (structure, reading)
    }

    fn numbered(&mut self, parts: Vec<GrowingNode>) -> Vec<StructureNode> {
        let mut nodes = Vec::new();
        for part in parts {
            match part.of {
                Err(token) => {
                    nodes.push(StructureNode::Call {
                        token,
                        number: self.calls,
                    });
                    self.calls += 1;
                }
                Ok(body) => {
                    let number = self.loops;
                    self.loops += 1;
                    let body = self.numbered(body);
                    nodes.push(StructureNode::Loop { body, number });
                }
            }
        }
        nodes
    }

    /// Parses a sequence by this structure. `None` if it does not match.
    pub fn parse(&self, tokens: &[u32]) -> Option<ParsedSequence> {
        self.parsed(tokens.len(), |at, token| tokens.get(at) == Some(&token))
    }

    /// The same for a sequence whose calls may each have one of several tokens.
    pub fn parse_any(&self, tokens: &[Vec<u32>]) -> Option<ParsedSequence> {
        self.parsed(tokens.len(), |at, token| {
            tokens.get(at).is_some_and(|all| all.contains(&token))
        })
    }

    fn parsed(&self, length: usize, fits: impl Fn(usize, u32) -> bool) -> Option<ParsedSequence> {
        let numbers = Automaton::of(self).read(length, fits)?;
        let mut reading = ParsedSequence {
            calls: Vec::with_capacity(length),
            around: Vec::with_capacity(length),
            turns: vec![Vec::new(); self.loops as usize],
        };
        let mut at = 0;
        follow(
            &self.nodes,
            &numbers,
            &mut at,
            Turns::default(),
            0,
            &mut reading,
        )
        .then_some(())?;
        (at == length).then_some(reading)
    }

    /// True if its calls and loops are numbered without gaps, each once.
    pub fn is_sound(&self) -> bool {
        let mut seen = (
            vec![false; self.calls as usize],
            vec![false; self.loops as usize],
        );
        sound(&self.nodes, &mut seen, 0) && seen.0.iter().chain(&seen.1).all(|seen| *seen)
    }
}

fn sound(nodes: &[StructureNode], seen: &mut (Vec<bool>, Vec<bool>), depth: u32) -> bool {
    let mut once = |of: usize, which: bool| {
        let all = if which { &mut seen.0 } else { &mut seen.1 };
        all.get_mut(of)
            .is_some_and(|seen| !std::mem::replace(seen, true))
    };
    let mut bodies = Vec::new();
    for node in nodes {
        let fine = match node {
            StructureNode::Call { number, .. } => once(*number as usize, true),
            StructureNode::Loop { body, number } => {
                bodies.push(body);
                once(*number as usize, false) && !body.is_empty()
            }
        };
        if !fine {
            return false;
        }
    }
    depth < DEEPEST && bodies.into_iter().all(|body| sound(body, seen, depth + 1))
}

/// Follows the calls of `numbers` through `nodes`, from `at` on, in these turns of loops, the innermost first. A loop turns as long as its body repeats.
fn follow(
    nodes: &[StructureNode],
    numbers: &[u32],
    at: &mut usize,
    turns: Turns,
    depth: u32,
    reading: &mut ParsedSequence,
) -> bool {
    if depth > DEEPEST {
        return false;
    }
    for node in nodes {
        match node {
            StructureNode::Call { number, .. } => {
                if numbers.get(*at) != Some(number) {
                    return false;
                }
                reading.calls.push((*number, turns.turn));
                reading.around.push(turns);
                *at += 1;
            }
            StructureNode::Loop { body, number } => {
                let place = reading.turns[*number as usize].len();
                reading.turns[*number as usize].push(0);
                let (mut turn, mut begun) = (0, reading.calls.len());
                while let Some(next) = numbers.get(*at)
                    && begins(body, *next)
                {
                    begun = reading.calls.len();
                    if !follow(body, numbers, at, turns.within(turn), depth + 1, reading) {
                        return false;
                    }
                    turn += 1;
                }
                reading.turns[*number as usize][place] = turn;
                ended(body, &mut reading.around[begun..]);
            }
        }
    }
    true
}

/// Marks the calls of a loop's last turn, but not those of loops in it.
fn ended(body: &[StructureNode], around: &mut [Turns]) {
    let Some(outer) = around.iter().map(|it| it.turn).max() else {
        return;
    };
    let plain = body
        .iter()
        .all(|node| matches!(node, StructureNode::Call { .. }));
    if plain {
        around
            .iter_mut()
            .filter(|it| it.turn == outer)
            .for_each(|it| it.last = true);
    }
}

/// True if a call may be the first of a turn.
fn begins(nodes: &[StructureNode], call: u32) -> bool {
    for node in nodes {
        match node {
            StructureNode::Call { number, .. } => return *number == call,
            StructureNode::Loop { body, .. } if begins(body, call) => return true,
            StructureNode::Loop { .. } => {}
        }
    }
    false
}

#[cfg(test)]
mod tests;
