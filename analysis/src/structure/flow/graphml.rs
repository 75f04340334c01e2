//! Event flow graphs in GraphML, for networkx, Gephi and yEd.
//!
//! A file has one `graph`, because most readers only read the first: nodes and edges name their graph in the attribute `graph`.
//! Times are in picoseconds. Used by `belljar trace graph --graphml`.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::render::node_name;
use super::{FlowEdge, FlowGraph, FlowGraphs, FlowNode, Temporal, label};

/// Attributes: the element, the name and the type.
const KEYS: [(&str, &str, &str); 16] = [
    ("node", "graph", "string"),
    ("node", "label", "string"),
    ("node", "calls", "int"),
    ("node", "visits", "long"),
    ("node", "mpi_min_ps", "long"),
    ("node", "mpi_mean_ps", "long"),
    ("node", "mpi_max_ps", "long"),
    ("node", "mpi_total_ps", "long"),
    ("node", "at", "string"),
    ("edge", "count", "long"),
    ("edge", "threads", "long"),
    ("edge", "between_min_ps", "long"),
    ("edge", "between_mean_ps", "long"),
    ("edge", "between_max_ps", "long"),
    ("edge", "between_total_ps", "long"),
    ("edge", "at", "string"),
];

type Xml<'a> = Writer<&'a mut dyn io::Write>;

impl FlowGraphs {
    /// Writes the graphs as GraphML.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_graphml(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut xml = Writer::new_with_indent(out, b' ', 1);
        xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        xml.create_element("graphml")
            .with_attribute(("xmlns", "http://graphml.graphdrawing.org/xmlns"))
            .write_inner_content(|xml| {
                for (of, name, kind) in KEYS {
                    xml.create_element("key")
                        .with_attribute(("id", format!("{of}_{name}").as_str()))
                        .with_attribute(("for", of))
                        .with_attribute(("attr.name", name))
                        .with_attribute(("attr.type", kind))
                        .write_empty()?;
                }
                xml.create_element("graph")
                    .with_attribute(("id", "event-flow"))
                    .with_attribute(("edgedefault", "directed"))
                    .write_inner_content(|xml| {
                        for (number, graph) in self.graphs.iter().enumerate() {
                            graph.write_graphml(number + 1, xml)?;
                        }
                        Ok(())
                    })?;
                Ok(())
            })?;
        writeln!(xml.into_inner())
    }
}

impl FlowGraph {
    fn write_graphml(&self, graph: usize, xml: &mut Xml<'_>) -> io::Result<()> {
        for (number, node) in (0u32..).zip(&self.nodes) {
            xml.create_element("node")
                .with_attribute(("id", format!("{graph}.{number}").as_str()))
                .write_inner_content(|xml| node.write_data(&self.name, number, xml))?;
        }
        for edge in &self.edges {
            let id = |number| format!("{graph}.{number}");
            xml.create_element("edge")
                .with_attribute(("source", id(edge.from).as_str()))
                .with_attribute(("target", id(edge.to).as_str()))
                .write_inner_content(|xml| edge.write_data(xml))?;
        }
        Ok(())
    }
}

impl FlowNode {
    fn write_data(&self, graph: &str, number: u32, xml: &mut Xml<'_>) -> io::Result<()> {
        let mut lines = self.lines(usize::MAX);
        if lines.is_empty() {
            lines.push(node_name(number));
        }
        let values = [
            graph.to_owned(),
            lines.join("; "),
            self.calls.len().to_string(),
            self.visits.total.to_string(),
            self.in_mpi.min_ps.to_string(),
            self.in_mpi.mean_ps.to_string(),
            self.in_mpi.max_ps.to_string(),
            self.in_mpi.total_ps.to_string(),
            at(&self.labels),
        ];
        data("node", &values, xml)
    }
}

impl FlowEdge {
    fn write_data(&self, xml: &mut Xml<'_>) -> io::Result<()> {
        let values = [
            self.count.total.to_string(),
            self.threads.to_string(),
            self.between.min_ps.to_string(),
            self.between.mean_ps.to_string(),
            self.between.max_ps.to_string(),
            self.between.total_ps.to_string(),
            at(&self.labels),
        ];
        data("edge", &values, xml)
    }
}

/// Writes the values of all attributes of a node or an edge.
fn data(of: &str, values: &[String], xml: &mut Xml<'_>) -> io::Result<()> {
    let keys = KEYS.iter().filter(|(what, ..)| *what == of);
    for ((_, name, _), value) in keys.zip(values) {
        xml.create_element("data")
            .with_attribute(("key", format!("{of}_{name}").as_str()))
            .write_text_content(BytesText::new(value))?;
    }
    Ok(())
}

fn at(labels: &Temporal) -> String {
    match labels {
        Temporal::Regular(labels) => label::words(labels),
        Temporal::Irregular => "irregular".to_owned(),
        Temporal::Differs => "differs".to_owned(),
    }
}
