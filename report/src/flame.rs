//! Stacks of a profile as a tree: each node has its name, its samples and its callees' samples.
//!
//! Nodes with less than a small share of all samples are merged into their callers, so that a page stays small. Created
//! for a [`Report`](crate::Report).

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_profile::Named;
use serde::Serialize;

/// The rest of a stack, and the number of its samples.
type Rest<'n> = (&'n [Arc<str>], u64);

/// Least share of a node: one part in this many of all samples.
const LEAST: u64 = 4000;
/// Most levels of the tree.
const DEEPEST: usize = 200;

/// A function at its position in the tree.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FlameNode {
    pub(crate) name: String,
    pub(crate) samples: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<FlameNode>,
}

/// Returns the tree of all stacks.
pub(crate) fn tree(named: &Named) -> FlameNode {
    let stacks: Vec<Rest<'_>> = named
        .stacks
        .iter()
        .map(|(stack, count)| (&stack[..stack.len().min(DEEPEST)], *count))
        .collect();
    let mut root = node("all", &stacks, named.samples() / LEAST);
    root.samples = named.samples();
    root
}

fn node(name: &str, stacks: &[Rest<'_>], least: u64) -> FlameNode {
    let mut inner: BTreeMap<&str, Vec<Rest<'_>>> = BTreeMap::new();
    let mut samples = 0u64;
    for (stack, count) in stacks {
        samples = samples.saturating_add(*count);
        if let Some((first, rest)) = stack.split_first() {
            inner.entry(first).or_default().push((rest, *count));
        }
    }
    let calls = inner.iter().map(|(name, stacks)| node(name, stacks, least));
    FlameNode {
        name: name.to_owned(),
        samples,
        calls: calls.filter(|node| node.samples > least).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_share_what_they_have_in_common() {
        let stack = |names: &[&str]| {
            names
                .iter()
                .map(|name| Arc::from(*name))
                .collect::<Vec<Arc<str>>>()
        };
        let named = Named {
            every: 1,
            points: 0,
            busy: 0,
            of_all: true,
            stacks: BTreeMap::from([
                (stack(&["main", "a"]), 3),
                (stack(&["main"]), 1),
                (stack(&["main", "b"]), 2),
            ]),
        };
        let tree = tree(&named);
        assert_eq!((tree.samples, tree.calls.len()), (6, 1));
        let main = &tree.calls[0];
        assert_eq!((main.name.as_str(), main.samples), ("main", 6));
        let inner: Vec<_> = main
            .calls
            .iter()
            .map(|node| (node.name.as_str(), node.samples))
            .collect();
        assert_eq!(inner, [("a", 3), ("b", 2)]);
    }
}
