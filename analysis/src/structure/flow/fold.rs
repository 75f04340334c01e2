//! Chains of nodes as one node.
//!
//! A node with a single outgoing edge, to a successor with a single incoming edge, is always visited together with it.
//! Folding them changes no count: a chain is visited as often as each of its nodes. Used by `graph`.

use super::{END, FlowEdge, FlowGraph, FlowNode, START};

impl FlowGraph {
    /// Returns the graph with each chain as one node, numbered by its first.
    pub(super) fn folded(self) -> Self {
        let next = self.next();
        let mut follows = vec![false; self.nodes.len()];
        for to in next.iter().flatten() {
            follows[*to as usize] = true;
        }
        // A chain has a first node; otherwise it would be a loop without an entry, which no walk reaches.
        let heads = (0..self.nodes.len()).filter(|node| !follows[*node]);
        let mut inside: Vec<Option<FlowEdge>> = vec![None; self.nodes.len()];
        let mut edges = Vec::new();
        for edge in self.edges {
            match next[edge.from as usize] {
                Some(_) => {
                    let from = edge.from as usize;
                    inside[from] = Some(edge);
                }
                None => edges.push(edge),
            }
        }
        let mut number = vec![START; self.nodes.len()];
        let mut nodes = Vec::new();
        for head in heads {
            let chain = std::iter::successors(Some(head), |node| next[*node].map(|to| to as usize));
            let mut folded = FlowNode::default();
            for (place, node) in chain.enumerate() {
                number[node] = nodes.len() as u32;
                let own = &self.nodes[node];
                if place == 0 {
                    folded = own.clone();
                } else {
                    folded.calls.extend(own.calls.iter().cloned());
                    folded.in_mpi.with(&own.in_mpi);
                }
                if let Some(edge) = &inside[node] {
                    folded.between.with(&edge.between);
                }
            }
            nodes.push(folded);
        }
        for edge in &mut edges {
            edge.from = number[edge.from as usize];
            edge.to = number[edge.to as usize];
        }
        edges.sort_by_key(|edge| (edge.from, edge.to));
        Self {
            nodes,
            edges,
            ..self
        }
    }

    /// Returns, for each node, its successor in a chain.
    fn next(&self) -> Vec<Option<u32>> {
        let mut ways_in = vec![0u32; self.nodes.len()];
        let mut ways_out = vec![0u32; self.nodes.len()];
        for edge in &self.edges {
            ways_out[edge.from as usize] += 1;
            ways_in[edge.to as usize] += 1;
        }
        let mut next = vec![None; self.nodes.len()];
        for edge in &self.edges {
            let calls = edge.from > END && edge.to > END && edge.from != edge.to;
            if calls && ways_out[edge.from as usize] == 1 && ways_in[edge.to as usize] == 1 {
                next[edge.from as usize] = Some(edge.to);
            }
        }
        next
    }
}
