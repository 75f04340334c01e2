//! The nodes of a traced run, from the scenario next to the trace.
//!
//! A trace that was moved away from its run has no scenario; then the output omits the nodes. Called by `belljar
//! trace stat`.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::{Nodes, Scenario};
use belljar_files::read_input_text;
use serde::Serialize;

/// A group of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct TracedNodeGroup {
    name: String,
    first_node: u32,
    nodes: u32,
    clock_hz: u64,
}

/// Adds the groups to JSON statistics, if there are any.
///
/// # Errors
/// Errors of `out`.
pub(super) fn add_to(
    statistics: &[u8],
    groups: &[TracedNodeGroup],
    out: &mut dyn Write,
) -> io::Result<()> {
    if groups.is_empty() {
        return out.write_all(statistics);
    }
    let mut told: serde_json::Value = serde_json::from_slice(statistics)?;
    told["groups"] = serde_json::to_value(groups)?;
    serde_json::to_writer_pretty(&mut *out, &told)?;
    writeln!(out)
}

/// The groups of nodes, in the order of their nodes; empty if the scenario cannot be read.
pub(super) fn groups_of(trace: &Path) -> Vec<TracedNodeGroup> {
    let nodes = nodes_of(trace).ok().flatten();
    let groups = nodes.as_ref().map_or(&[][..], |nodes| &nodes.group);
    let kinds = nodes.as_ref().map_or_else(Vec::new, |nodes| nodes.kinds(1));
    let mut next = 0_u32;
    let groups = groups.iter().zip(kinds).zip(1..);
    let groups = groups.map(|((group, (kind, _)), number)| {
        let first_node = next;
        next = next.saturating_add(group.count);
        TracedNodeGroup {
            name: group.name.clone().unwrap_or_else(|| number.to_string()),
            first_node,
            nodes: group.count,
            clock_hz: kind.clock.0.as_hz(),
        }
    });
    groups.collect()
}

/// Groups as text, printed after the statistics; empty without groups.
pub(super) fn told(groups: &[TracedNodeGroup]) -> String {
    let mut text = String::new();
    for group in groups {
        let (name, first) = (&group.name, group.first_node);
        let last = first.saturating_add(group.nodes.saturating_sub(1));
        let nodes = match first == last {
            true => format!("node {first}"),
            false => format!("nodes {first} to {last}"),
        };
        let clock = group.clock_hz as f64 / 1e9;
        text.push_str(&format!("  {name}: {nodes} at {clock} GHz\n"));
    }
    match text.is_empty() {
        true => text,
        false => format!("\nGroups\n{text}"),
    }
}

/// How nodes count cycles and instructions.
pub(super) struct Processors {
    /// Cycles of an instruction without other costs, the same on all nodes.
    pub(super) ratio: f64,
    /// The most processors that a node has.
    pub(super) most: u32,
}

/// Reads the processors of the traced run. With a time model, nodes must have one processor: an account is a processor's, and
/// ranks move between them.
pub(super) fn processors_of(trace: &Path) -> Result<Processors> {
    let kinds = nodes_of(trace)?.map_or_else(Vec::new, |nodes| nodes.kinds(1));
    let is_timed = kinds.iter().any(|(nodes, _)| nodes.timing.is_some());
    let most = kinds
        .iter()
        .map(|(nodes, _)| nodes.vcpus)
        .max()
        .unwrap_or(1);
    if is_timed && most > 1 {
        bail!(
            "a time model accounts for processors, and ranks move between the {most} of a node; run with nodes.vcpus = 1, or without nodes.timing"
        );
    }
    let mut ratios: Vec<f64> = kinds.iter().map(|(nodes, _)| nodes.ratio()).collect();
    ratios.dedup();
    if !is_timed && let [one, other, ..] = ratios[..] {
        bail!(
            "an instruction takes {one} cycles on some nodes and {other} on others; run with a nodes.timing in one of the groups, so that nodes account for their time"
        );
    }
    let ratio = ratios.first().copied().unwrap_or(1.0);
    Ok(Processors { ratio, most })
}

/// The nodes of the traced run, if its scenario is next to the trace.
fn nodes_of(trace: &Path) -> Result<Option<Nodes>> {
    let scenario = trace.with_file_name(SCENARIO_FILE);
    match read_input_text(&scenario) {
        Ok(text) => Ok(Some(Scenario::parse(&scenario, &text, &[])?.nodes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", scenario.display())),
    }
}
