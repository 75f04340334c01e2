//! Event flow graphs in DOT, for Graphviz.
//!
//! All graphs are in one `digraph`, each as a cluster. All names are quoted. Used by `belljar trace graph --dot`.

use std::io;

use super::render::{node_name, times};
use super::{FlowGraph, FlowGraphs, Temporal, label};
use crate::table::time;

/// Number of calls of a chain that a node shows.
const CALLS: usize = 8;

impl FlowGraphs {
    /// Writes the graphs in the language of Graphviz.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_dot(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "digraph \"event flow\" {{")?;
        writeln!(out, "  node [shape=box, fontname=\"sans-serif\"];")?;
        writeln!(out, "  edge [fontname=\"sans-serif\"];")?;
        for (number, graph) in self.graphs.iter().enumerate() {
            graph.write_dot(number + 1, self.untimed, out)?;
        }
        writeln!(out, "}}")
    }
}

impl FlowGraph {
    fn write_dot(&self, graph: usize, untimed: bool, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "  subgraph \"cluster_{graph}\" {{")?;
        writeln!(
            out,
            "    label={};",
            quoted(std::slice::from_ref(&self.name))
        )?;
        for (number, node) in (0u32..).zip(&self.nodes) {
            let mut lines = node.lines(CALLS);
            if lines.is_empty() {
                lines.push(node_name(number));
            } else if untimed {
                lines.push(times(&node.visits));
            } else {
                let time = time(node.in_mpi.mean_ps);
                lines.push(format!("{}, {time} a call", times(&node.visits)));
            }
            let shape = if node.calls.is_empty() {
                ", shape=ellipse"
            } else {
                ""
            };
            writeln!(
                out,
                "    \"{graph}.{number}\" [label={}{shape}];",
                quoted(&lines)
            )?;
        }
        for edge in &self.edges {
            let mut lines = vec![times(&edge.count)];
            if edge.between.count > 0 && !untimed {
                lines.push(time(edge.between.mean_ps));
            }
            if let Temporal::Regular(labels) = &edge.labels {
                lines.push(format!("[{}]", label::words(labels)));
            }
            writeln!(
                out,
                "    \"{graph}.{}\" -> \"{graph}.{}\" [label={}];",
                edge.from,
                edge.to,
                quoted(&lines)
            )?;
        }
        writeln!(out, "  }}")
    }
}

/// Joins lines into one quoted text.
fn quoted(lines: &[String]) -> String {
    let lines = lines
        .iter()
        .map(|line| line.replace('\\', "\\\\").replace('"', "\\\""));
    format!("\"{}\"", lines.collect::<Vec<_>>().join("\\n"))
}
