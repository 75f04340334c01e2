//! GraphML: network files of other tools.
//!
//! This reads the subset of the format (Brandes et al., "GraphML progress report", 2001) that
//! networks need: one graph of nodes and edges, in any order, and data with the names of their keys
//! and with defaults. Ports, hyperedges, and nested graphs are refused. Files are untrusted: they are
//! read in one pass, without recursion, within limits.

use std::collections::BTreeMap;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// Data by name: the `attr.name` of its key in lower case, or the key's identifier.
pub type Data = BTreeMap<String, String>;

/// A graph from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// In the file's order.
    pub nodes: Vec<GraphNode>,
    /// In the file's order. In a directed graph an edge and its reverse are one.
    pub edges: Vec<GraphEdge>,
}

/// A node of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphNode {
    /// Its name: letters, digits and `_.:` only, beginning with a letter or digit.
    pub id: String,
    /// Its data.
    pub data: Data,
}

/// An edge of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphEdge {
    /// Indices of the nodes at its ends.
    pub ends: [usize; 2],
    /// Its data.
    pub data: Data,
}

/// An error of parsing a graph.
#[derive(Debug, thiserror::Error)]
#[error("byte {at}: {reason}")]
pub struct GraphmlError {
    /// Position of the error, in bytes from the start.
    pub at: u64,
    /// The problem.
    pub reason: String,
}

/// Longest text that is accepted, in bytes.
pub const MAX_BYTES: usize = 32 << 20;
const MAX_NODES: usize = 1 << 17;
const MAX_EDGES: usize = 1 << 19;
const MAX_KEYS: usize = 256;
const MAX_NAME: usize = 64;
const MAX_VALUE: usize = 256;

impl Graph {
    /// Parses a file's text.
    ///
    /// # Errors
    /// When it is not well-formed, exceeds the limits, refers to a missing node or key, or uses
    /// features outside the subset.
    pub fn parse(text: &str) -> Result<Self, GraphmlError> {
        let mut reader = Reader::from_str(text);
        let mut parser = Parser::default();
        let result = if text.len() > MAX_BYTES {
            Err(format!("it has more than {MAX_BYTES} bytes"))
        } else {
            parser.read(&mut reader)
        };
        result.map_err(|reason| GraphmlError {
            at: reader.buffer_position(),
            reason,
        })?;
        Ok(parser.graph)
    }
}

/// A key: the name of its data, the element it applies to, and its default.
#[derive(Debug, Default)]
struct Key {
    name: String,
    domain: String,
    default: Option<String>,
}

/// The element that text and data belong to.
#[derive(Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    Graph,
    Node,
    Edge,
}

#[derive(Debug, Default)]
struct Parser {
    graph: Graph,
    by_id: BTreeMap<String, usize>,
    /// For each edge, the names of its ends and whether it is directed.
    ends: Vec<([String; 2], bool)>,
    keys: BTreeMap<String, Key>,
    directed: bool,
    within: Within,
    /// The key whose default is being read, the key whose data are, and the text so far.
    key: Option<String>,
    data: Option<String>,
    text: Option<String>,
    graphs: u32,
    ended: bool,
}

type Step = Result<(), String>;

impl Parser {
    fn read(&mut self, reader: &mut Reader<&[u8]>) -> Step {
        loop {
            match reader.read_event().map_err(|error| error.to_string())? {
                Event::Start(element) => self.open(&element)?,
                Event::Empty(element) => {
                    self.open(&element)?;
                    self.close(element.local_name().as_ref())?;
                }
                Event::End(element) => self.close(element.local_name().as_ref())?,
                Event::Text(text) => self.note(&text),
                Event::CData(text) => self.note(&text),
                Event::GeneralRef(name) => self.note(&character(&name)?),
                // An external document type is ignored; an internal one may define entities.
                Event::DocType(text) if text.contains('[') => {
                    return Err("a document type with declarations is not read; remove it".into());
                }
                Event::DocType(_) => {}
                Event::Eof if self.graphs == 1 && self.ended => return Ok(()),
                Event::Eof => return Err("the text ends before its graph does".into()),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            }
        }
    }

    fn open(&mut self, element: &BytesStart<'_>) -> Step {
        match (element.local_name().as_ref(), &self.within) {
            ("key", _) => self.open_key(element),
            ("graph", Within::Nothing) => {
                self.graphs += 1;
                if self.graphs > 1 {
                    return Err("there is a second graph; write one to a file".into());
                }
                self.directed = attribute(element, "edgedefault")?.as_deref() == Some("directed");
                self.within = Within::Graph;
                Ok(())
            }
            ("graph", _) => Err("there is a graph within the graph; write them as one".into()),
            ("node", Within::Graph) => self.open_node(element),
            ("edge", Within::Graph) => self.open_edge(element),
            ("port", _) => Err("a port is no part of a network here; remove it".into()),
            ("hyperedge", _) => Err("a hyperedge is no link; write a switch instead".into()),
            ("data", Within::Node | Within::Edge) => {
                self.data = Some(needed(element, "key")?);
                self.text = Some(String::new());
                Ok(())
            }
            ("default", _) if self.key.is_some() => {
                self.text = Some(String::new());
                Ok(())
            }
            (name @ ("node" | "edge"), _) => Err(format!("a {} stands outside of the graph", name)),
            // Extensions of drawing tools are ignored.
            _ => Ok(()),
        }
    }

    fn open_key(&mut self, element: &BytesStart<'_>) -> Step {
        if self.keys.len() >= MAX_KEYS {
            return Err(format!("there are more than {MAX_KEYS} keys"));
        }
        let id = needed(element, "id")?;
        let key = Key {
            name: attribute(element, "attr.name")?
                .unwrap_or_else(|| id.clone())
                .to_lowercase(),
            domain: attribute(element, "for")?.unwrap_or_else(|| "all".into()),
            default: None,
        };
        self.keys.insert(id.clone(), key);
        self.key = Some(id);
        Ok(())
    }

    fn open_node(&mut self, element: &BytesStart<'_>) -> Step {
        let id = needed(element, "id")?;
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.:".contains(letter);
        let begins = id.starts_with(|first: char| first.is_ascii_alphanumeric());
        if !begins || !id.chars().all(allowed) {
            return Err(format!(
                "the node `{}` cannot be called that; use letters, digits and _.: and begin with a letter or digit",
                id.escape_debug()
            ));
        }
        if self.graph.nodes.len() >= MAX_NODES {
            return Err(format!("there are more than {MAX_NODES} nodes"));
        }
        if self
            .by_id
            .insert(id.clone(), self.graph.nodes.len())
            .is_some()
        {
            return Err(format!("there are two nodes `{id}`"));
        }
        let data = self.defaults("node");
        self.graph.nodes.push(GraphNode { id, data });
        self.within = Within::Node;
        Ok(())
    }

    fn open_edge(&mut self, element: &BytesStart<'_>) -> Step {
        let names = [needed(element, "source")?, needed(element, "target")?];
        let directed = match attribute(element, "directed")?.as_deref() {
            Some(directed) => directed == "true",
            None => self.directed,
        };
        if self.graph.edges.len() >= MAX_EDGES {
            return Err(format!("there are more than {MAX_EDGES} edges"));
        }
        let data = self.defaults("edge");
        // Its nodes may follow the edge.
        self.ends.push((names, directed));
        let ends = [0; 2];
        self.graph.edges.push(GraphEdge { ends, data });
        self.within = Within::Edge;
        Ok(())
    }

    fn defaults(&self, domain: &str) -> Data {
        let keys = self.keys.values();
        let here = keys.filter(|key| key.domain == domain || key.domain == "all");
        here.filter_map(|key| Some((key.name.clone(), key.default.clone()?)))
            .collect()
    }

    /// Appends text, up to a limit above all useful values.
    fn note(&mut self, more: &str) {
        if let Some(text) = &mut self.text {
            text.push_str(more);
            text.truncate(text.floor_char_boundary(MAX_VALUE));
        }
    }

    fn close(&mut self, name: &str) -> Step {
        match name {
            "key" => self.key = None,
            "default" => {
                if let (Some(id), Some(text)) = (&self.key, self.text.take())
                    && let Some(key) = self.keys.get_mut(id)
                {
                    key.default = Some(text.trim().to_owned());
                }
            }
            "data" => self.close_data()?,
            "node" | "edge" => self.within = Within::Graph,
            "graph" => {
                self.within = Within::Nothing;
                self.ended = true;
                self.connect()?;
                self.join_reverses();
            }
            _ => {}
        }
        Ok(())
    }

    fn close_data(&mut self) -> Step {
        let (Some(id), Some(text)) = (self.data.take(), self.text.take()) else {
            return Ok(());
        };
        let key = self.keys.get(&id);
        let key = key.ok_or_else(|| {
            format!(
                "data names the key `{}`, which is not declared",
                id.escape_debug()
            )
        })?;
        let data = match self.within {
            Within::Node => self.graph.nodes.last_mut().map(|node| &mut node.data),
            Within::Edge => self.graph.edges.last_mut().map(|edge| &mut edge.data),
            _ => None,
        };
        if let Some(data) = data {
            data.insert(key.name.clone(), text.trim().to_owned());
        }
        Ok(())
    }

    /// Finds the nodes of all edges.
    fn connect(&mut self) -> Step {
        for (edge, (names, _)) in self.graph.edges.iter_mut().zip(&self.ends) {
            for (end, id) in edge.ends.iter_mut().zip(names) {
                *end = *self.by_id.get(id).ok_or_else(|| {
                    format!(
                        "an edge leads to the node `{}`, which is not in the graph",
                        id.escape_debug()
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Links are bidirectional: a directed edge and its reverse become one edge.
    fn join_reverses(&mut self) {
        let mut single: BTreeMap<[usize; 2], u32> = BTreeMap::new();
        let mut directed = self.ends.iter().map(|(_, directed)| *directed);
        self.graph.edges.retain(|edge| {
            if !directed.next().unwrap_or(false) {
                return true;
            }
            let [source, target] = edge.ends;
            match single.get_mut(&[target, source]) {
                Some(unmatched) if *unmatched > 0 => {
                    *unmatched -= 1;
                    false
                }
                _ => {
                    *single.entry(edge.ends).or_default() += 1;
                    true
                }
            }
        });
    }
}

/// The character of `&name;`: XML's five entities and numeric references, but no entities of the
/// file's own.
fn character(name: &str) -> Result<String, String> {
    let number = name
        .strip_prefix('#')
        .and_then(|digits| match digits.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        });
    let named = match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => number.and_then(char::from_u32),
    };
    named
        .map(String::from)
        .ok_or_else(|| format!("`&{}` stands for nothing", name.escape_debug()))
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Result<Option<String>, String> {
    let found = element
        .try_get_attribute(name)
        .map_err(|error| error.to_string())?;
    let Some(found) = found else {
        return Ok(None);
    };
    let value = found
        .normalized_value(XmlVersion::Implicit1_0)
        .map_err(|error| error.to_string())?;
    if value.len() > MAX_NAME {
        return Err(format!("a name has more than {MAX_NAME} bytes"));
    }
    Ok(Some(value.into_owned()))
}

fn needed(element: &BytesStart<'_>, name: &str) -> Result<String, String> {
    attribute(element, name)?
        .ok_or_else(|| format!("a {} has no {}", element.local_name().as_ref(), name))
}

#[cfg(test)]
mod tests;
