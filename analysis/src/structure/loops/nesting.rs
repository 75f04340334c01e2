//! Loops of an event flow graph, and how they nest.
//!
//! A single depth-first pass finds them: T. Wei, J. Mao, W. Zou and Y. Chen, "A new algorithm for identifying loops in decompilation" (SAS 2007). Loops
//! with the same header are one loop in this pass. If such a loop has a part that is repeated a constant number of times, three or more, before each of
//! the others, that part becomes a separate loop. A program's loops often begin with the same call. The pass uses no recursion, because traces are
//! untrusted. Used by `loops`.

use crate::structure::flow::collect::{Edge, Flow};
use crate::structure::flow::{END, START};

/// Most nested loops; deeper ones are merged into the loop around them.
const DEPTH: usize = 32;

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    /// The node at which its iterations begin.
    pub(super) header: u32,
    /// The loop around it.
    pub(super) parent: Option<usize>,
    /// True if it is also entered at other nodes than its header.
    pub(super) irreducible: bool,
}

/// All loops of a graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Nesting {
    pub(super) loops: Vec<Loop>,
    /// For each node the loops that contain it, from the outermost on.
    pub(super) chains: Vec<Vec<usize>>,
}

impl Nesting {
    /// Finds the loops of a thread's graph.
    pub(super) fn of(flow: &Flow) -> Self {
        let ways = Adjacency::new(flow);
        let mut pass = Pass::new(flow.nodes.len());
        pass.run(&ways);
        let (mut loops, mut innermost) = pass.loops();
        Split::all(flow, &ways, &mut loops, &mut innermost);
        let chains = innermost.iter().map(|own| chain(&loops, *own));
        let chains: Vec<Vec<usize>> = chains.collect();
        Self { loops, chains }
    }

    /// Returns the number of loops.
    pub(super) fn len(&self) -> usize {
        self.loops.len()
    }
}

/// Returns the loops around a node in loop `innermost`, including it, up to the depth limit.
fn chain(loops: &[Loop], innermost: Option<usize>) -> Vec<usize> {
    let around = std::iter::successors(innermost, |own| loops[*own].parent);
    let mut chain: Vec<usize> = around.collect();
    chain.reverse();
    chain.truncate(DEPTH);
    chain
}

/// Successors and predecessors of nodes, in their order.
struct Adjacency {
    after: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
}

impl Adjacency {
    fn new(flow: &Flow) -> Self {
        let mut ways = Self {
            after: vec![Vec::new(); flow.nodes.len()],
            before: vec![Vec::new(); flow.nodes.len()],
        };
        for Edge { from, to, .. } in &flow.edges {
            ways.after[*from as usize].push(*to);
            ways.before[*to as usize].push(*from);
        }
        ways
    }
}

/// The pass, with the names of the paper.
struct Pass {
    traversed: Vec<bool>,
    /// The position on the current path, from 1; 0 for nodes that are not on it.
    position: Vec<u32>,
    /// The header of the innermost loop around each node.
    innermost: Vec<Option<u32>>,
    header: Vec<bool>,
    irreducible: Vec<bool>,
}

impl Pass {
    fn new(nodes: usize) -> Self {
        Self {
            traversed: vec![false; nodes],
            position: vec![0; nodes],
            innermost: vec![None; nodes],
            header: vec![false; nodes],
            irreducible: vec![false; nodes],
        }
    }

    fn run(&mut self, ways: &Adjacency) {
        let mut path: Vec<(u32, usize)> = Vec::new();
        self.enter(START, &mut path);
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            if let Some(to) = ways.after[node as usize].get(*next).copied() {
                *next += 1;
                if !self.traversed[to as usize] {
                    self.enter(to, &mut path);
                } else {
                    self.meet(node, to);
                }
                continue;
            }
            self.position[node as usize] = 0;
            path.pop();
            if let Some((before, _)) = path.last() {
                self.tag(*before, self.innermost[node as usize]);
            }
        }
    }

    fn enter(&mut self, node: u32, path: &mut Vec<(u32, usize)>) {
        path.push((node, 0));
        self.traversed[node as usize] = true;
        self.position[node as usize] = path.len() as u32;
    }

    /// Handles an edge to a node that was already traversed.
    fn meet(&mut self, from: u32, to: u32) {
        if self.position[to as usize] > 0 {
            self.header[to as usize] = true;
            self.tag(from, Some(to));
            return;
        }
        let mut around = self.innermost[to as usize];
        while let Some(header) = around {
            if self.position[header as usize] > 0 {
                self.tag(from, Some(header));
                return;
            }
            // An entry into a loop that bypasses its header.
            self.irreducible[header as usize] = true;
            around = self.innermost[header as usize];
        }
    }

    /// Records that a node is in the loop with this header; the loops of both are sorted by the order of the path.
    fn tag(&mut self, node: u32, header: Option<u32>) {
        let Some(header) = header.filter(|header| *header != node) else {
            return;
        };
        let (mut inner, mut outer) = (node, header);
        while let Some(around) = self.innermost[inner as usize] {
            if around == outer {
                return;
            }
            if self.position[around as usize] < self.position[outer as usize] {
                self.innermost[inner as usize] = Some(outer);
                (inner, outer) = (outer, around);
            } else {
                inner = around;
            }
        }
        self.innermost[inner as usize] = Some(outer);
    }

    /// Returns the loops, and the innermost loop for each node, which for a header is its own.
    fn loops(&self) -> (Vec<Loop>, Vec<Option<usize>>) {
        let nodes = 0..self.header.len() as u32;
        let headers: Vec<u32> = nodes.filter(|node| self.header[*node as usize]).collect();
        let number = |header: u32| headers.binary_search(&header).ok();
        let around = |node: u32| self.innermost[node as usize].and_then(number);
        let loops = headers.iter().map(|header| Loop {
            header: *header,
            parent: around(*header),
            irreducible: self.irreducible[*header as usize],
        });
        let innermost = (0..self.header.len() as u32).map(|node| number(node).or(around(node)));
        (loops.collect(), innermost.collect())
    }
}

/// Separates loops that begin with the same call.
struct Split;

impl Split {
    fn all(flow: &Flow, ways: &Adjacency, loops: &mut Vec<Loop>, innermost: &mut [Option<usize>]) {
        for number in 0..loops.len() {
            if loops[number].irreducible {
                continue;
            }
            let header = loops[number].header;
            let is_in = |node: u32, innermost: &[Option<usize>], loops: &[Loop]| {
                let mut around =
                    std::iter::successors(innermost[node as usize], |own| loops[*own].parent);
                around.any(|own| own == number)
            };
            let latches = ways.before[header as usize].iter().copied();
            let latches: Vec<u32> = latches
                .filter(|node| is_in(*node, innermost, loops))
                .collect();
            if latches.len() < 2 {
                continue;
            }
            let all = |node: u32| is_in(node, innermost, loops);
            let parts = latches.iter().map(|latch| natural(header, *latch, ways));
            let found = parts
                .into_iter()
                .find(|part| repeats(flow, header, part, &latches, all));
            let Some(part) = found else {
                continue;
            };
            let inner = loops.len();
            for own in loops.iter_mut() {
                let within = part.binary_search(&own.header).is_ok();
                if own.parent == Some(number) && within {
                    own.parent = Some(inner);
                }
            }
            for node in &part {
                if innermost[*node as usize] == Some(number) {
                    innermost[*node as usize] = Some(inner);
                }
            }
            loops.push(Loop {
                header,
                parent: Some(number),
                irreducible: false,
            });
        }
    }
}

/// Returns the nodes from which a latch is reached without the header, and the header; in order.
fn natural(header: u32, latch: u32, ways: &Adjacency) -> Vec<u32> {
    let mut seen = std::collections::BTreeSet::from([header, latch]);
    let mut next = vec![latch];
    while let Some(node) = next.pop() {
        if node == header {
            continue;
        }
        for before in &ways.before[node as usize] {
            if *before > END && seen.insert(*before) {
                next.push(*before);
            }
        }
    }
    seen.into_iter().collect()
}

/// True if a part of a loop is run a constant number of times, three or more, before each of the others.
fn repeats(
    flow: &Flow,
    header: u32,
    part: &[u32],
    latches: &[u32],
    is_in: impl Fn(u32) -> bool,
) -> bool {
    let within = |node: u32| part.binary_search(&node).is_ok();
    if latches.iter().filter(|latch| within(**latch)).count() != 1 {
        return false;
    }
    let out = flow
        .edges
        .iter()
        .filter(|edge| within(edge.from) && !within(edge.to));
    let (on, away): (Vec<&Edge>, Vec<&Edge>) = out.partition(|edge| is_in(edge.to));
    let [on] = on[..] else {
        return false;
    };
    let visits = flow.nodes[header as usize].visits;
    let last = &flow.nodes[on.from as usize];
    if away.iter().any(|edge| edge.from != on.from) || last.visits != visits {
        return false;
    }
    let Some([label]) = on.labels.list() else {
        return false;
    };
    let times = label.first;
    let ends = on.count + away.iter().map(|edge| edge.count).sum::<u64>();
    let regular = label.block == 1 && (label.stride == 0 || label.stride == times);
    times > 2 && regular && ends * times == visits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the loops of a graph of nodes from 0 with these edges: header, header of the loop around, irreducible.
    fn loops(nodes: usize, edges: &[(u32, u32)]) -> Vec<(u32, Option<u32>, bool)> {
        let mut ways = Adjacency {
            after: vec![Vec::new(); nodes],
            before: vec![Vec::new(); nodes],
        };
        for (from, to) in edges {
            ways.after[*from as usize].push(*to);
        }
        let mut pass = Pass::new(nodes);
        pass.run(&ways);
        let (loops, _) = pass.loops();
        let row = |own: &Loop| {
            let parent = own.parent.map(|parent| loops[parent].header);
            (own.header, parent, own.irreducible)
        };
        loops.iter().map(row).collect()
    }

    #[test]
    fn loops_nest() {
        // for { 1; for { 2; 3 }; 4 }; 5
        let edges = [(0, 1), (1, 2), (2, 3), (3, 2), (3, 4), (4, 1), (4, 5)];
        assert_eq!(loops(6, &edges), [(1, None, false), (2, Some(1), false)]);
        // A single call, repeated, in a loop.
        let edges = [(0, 1), (1, 1), (1, 2), (2, 1), (2, 3)];
        assert_eq!(loops(4, &edges), [(1, None, false)]);
        assert_eq!(loops(3, &[(0, 1), (1, 2)]), []);
    }

    #[test]
    fn a_second_way_in_makes_a_loop_irreducible() {
        let edges = [(0, 1), (0, 2), (1, 2), (2, 1), (2, 3)];
        assert_eq!(loops(4, &edges), [(1, None, true)]);
        // A loop in another one, entered from outside of both.
        let edges = [(0, 1), (1, 2), (2, 3), (3, 2), (3, 1), (0, 3), (1, 4)];
        let found = loops(5, &edges);
        assert!(
            found.iter().any(|(.., irreducible)| *irreducible),
            "{found:?}"
        );
    }

    #[test]
    fn a_long_path_needs_no_stack() {
        let nodes = 200_000;
        let mut edges: Vec<(u32, u32)> = (1..nodes).map(|node| (node - 1, node)).collect();
        edges.push((nodes - 1, 1));
        assert_eq!(loops(nodes as usize, &edges), [(1, None, false)]);
    }
}
