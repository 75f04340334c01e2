//! Event flow graphs as text and as JSON.
//!
//! The text is for programs with some dozens of kinds of calls: a table of the graphs, and each graph node by node with
//! the successors. Used by `belljar trace graph`.

use std::io;

use super::{END, FlowGraph, FlowGraphs, FlowNode, GraphsOf, PerThread, START, Temporal, label};
use crate::table::{Table, count, counted, time};

/// Number of graphs that the text shows; their table has all.
const SHOWN: usize = 16;
/// Number of calls of a chain that the text lists.
const CALLS: usize = 12;

impl FlowGraphs {
    /// Writes the graphs as text.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let of = match self.of {
            GraphsOf::Ranks => "one for each thread",
            GraphsOf::Classes => "one for each class of equal ones",
            GraphsOf::Merged => "one for all",
        };
        writeln!(
            out,
            "Event flow graphs of {} with {}, {of}",
            counted(self.threads, "thread"),
            counted(self.calls, "call")
        )?;
        writeln!(out)?;
        let mut table = Table::new(["graph", "nodes", "edges", "calls", "calls a node", "of"]);
        for (number, graph) in self.graphs.iter().enumerate() {
            let calls = graph.calls();
            let nodes = graph.nodes.len().saturating_sub(2) as u64;
            table.row(vec![
                (number + 1).to_string(),
                count(nodes),
                count(graph.edges.len() as u64),
                count(calls),
                count(calls / (nodes * graph.threads.len() as u64).max(1)),
                graph.name.clone(),
            ]);
        }
        table.write(out)?;
        for (number, graph) in self.graphs.iter().enumerate().take(SHOWN) {
            writeln!(out)?;
            writeln!(out, "Graph {}: {}", number + 1, graph.name)?;
            graph.write(self.untimed, out)?;
        }
        if self.graphs.len() > SHOWN {
            let rest = (self.graphs.len() - SHOWN) as u64;
            writeln!(out)?;
            writeln!(
                out,
                "{}: --json has all, --of merged puts them together",
                counted(rest, "more graph")
            )?;
        }
        Ok(())
    }

    /// Writes the graphs as one JSON object.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

impl FlowGraph {
    /// Returns the number of calls of all threads.
    fn calls(&self) -> u64 {
        let nodes = self.nodes.iter();
        let calls = nodes.map(|node| node.visits.total.saturating_mul(node.calls.len() as u64));
        calls.fold(0, u64::saturating_add)
    }

    fn write(&self, untimed: bool, out: &mut dyn io::Write) -> io::Result<()> {
        let mut edges = self.edges.iter().peekable();
        for (number, node) in (0u32..).zip(&self.nodes) {
            if number != END {
                node.write(number, untimed, out)?;
            }
            while let Some(edge) = edges.next_if(|edge| edge.from == number) {
                let to = node_name(edge.to);
                let mut line = format!("      -> {to:<5} {}", times(&edge.count));
                if edge.between.count > 0 && !untimed {
                    line += &format!(", {} after", time(edge.between.mean_ps));
                }
                let lone = self.edges.iter().filter(|it| it.from == number).count() == 1;
                match &edge.labels {
                    _ if lone => {}
                    Temporal::Regular(labels) => {
                        line += &format!(", at visits {}", label::words(labels));
                    }
                    Temporal::Irregular => line += ", at irregular visits",
                    Temporal::Differs => line += ", at visits that differ",
                }
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }
}

impl FlowNode {
    fn write(&self, number: u32, untimed: bool, out: &mut dyn io::Write) -> io::Result<()> {
        let name = node_name(number);
        if self.calls.is_empty() {
            return writeln!(out, "  {name}");
        }
        writeln!(
            out,
            "  {name:<4}{}{}{}",
            times(&self.visits),
            match untimed {
                true => String::new(),
                false => format!(", {} in each call", time(self.in_mpi.mean_ps)),
            },
            match self.calls.len() {
                1 => String::new(),
                calls => format!(", {calls} calls"),
            }
        )?;
        for call in self.lines(CALLS) {
            writeln!(out, "      {call}")?;
        }
        Ok(())
    }

    /// Returns its calls in at most about `most` lines, with repeated ones in one line.
    pub(super) fn lines(&self, most: usize) -> Vec<String> {
        let mut lines: Vec<(String, usize)> = Vec::new();
        for call in &self.calls {
            match lines.last_mut() {
                Some((text, times)) if *text == call.text => *times += 1,
                _ => lines.push((call.text.clone(), 1)),
            }
        }
        let all = lines.len();
        let mut lines: Vec<String> = lines
            .into_iter()
            .map(|(text, times)| match times {
                1 => text,
                _ => format!("{text} ({times} times)"),
            })
            .collect();
        if all > most {
            let end = lines.split_off(all - most / 2);
            lines.truncate(most / 2);
            lines.push(format!("... {} more ...", all - most / 2 * 2));
            lines.extend(end);
        }
        lines
    }
}

/// Returns a node's name within its graph.
pub(super) fn node_name(number: u32) -> String {
    match number {
        START => "start".to_owned(),
        END => "end".to_owned(),
        number => (number - END).to_string(),
    }
}

/// Formats a count: `10 times`, `3 to 7 times`.
pub(super) fn times(times: &PerThread) -> String {
    match (times.min, times.max) {
        (1, 1) => "once".to_owned(),
        (min, max) if min == max => counted(max, "time"),
        (min, max) => format!("{} to {} times", count(min), count(max)),
    }
}
