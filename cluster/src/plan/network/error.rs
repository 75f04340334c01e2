//! Why there cannot be such a network.
//!
//! Each message follows the word "network" and names the key, link or file that is wrong. Returned by
//! `plan/network.rs` and `plan/graph.rs` as part of a `PlanError`.

use std::path::PathBuf;

use belljar_fabric::graphml::GraphmlError;
use belljar_fabric::{ImpairmentError, RoutingError, TableError, TopologyError};
use belljar_sim::Span;

use crate::plan::background::BackgroundError;
use crate::scenario::quantity::QuantityError;

/// Why there cannot be such a network. What it says follows the word "network".
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Its parts do not fit.
    #[error(": {0}")]
    Topology(#[from] TopologyError),
    /// A background job, whose hosts are part of it, cannot be.
    #[error(": background{0}")]
    Background(#[from] BackgroundError),
    /// Frames of a size that is not Ethernet's.
    #[error(".mtu = {0} is out of range; give 576 to 9216 bytes")]
    Mtu(u16),
    /// A key of another topology.
    #[error(".{key} says nothing about a {topology}; remove it, or choose another topology")]
    Foreign {
        /// The key.
        key: &'static str,
        /// The topology.
        topology: String,
    },
    /// A key that the topology needs.
    #[error(".{key} is missing; a {topology} needs it, for example {key} = {example}")]
    Missing {
        /// The key.
        key: &'static str,
        /// The topology.
        topology: String,
        /// What could be written.
        example: &'static str,
    },
    /// Routing by tables, and no file of them.
    #[error(
        ".tables is missing; routing \"tables\" needs a file that says which link each switch sends frames to each node over"
    )]
    NoTables,
    /// Tables, and another routing.
    #[error(
        ".tables says nothing where routing is \"{0}\"; remove it, or set routing = \"tables\""
    )]
    TablesUnused(String),
    /// The tables' file cannot be read.
    #[error(".tables: cannot read {path}: {source}")]
    ReadTables {
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: std::io::Error,
    },
    /// The tables' file has none that are right.
    #[error(".tables: {path}: {source}")]
    Tables {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        source: TableError,
    },
    /// The graph's file cannot be read.
    #[error(".topology: cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: std::io::Error,
    },
    /// The graph's file is none.
    #[error(".topology: {path}: {source}")]
    Graphml {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        source: GraphmlError,
    },
    /// The graph is no network of the scenario's.
    #[error(".topology: {path}: {reason}")]
    Graph {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A value of the graph.
    #[error(".topology: {path}: {key} of {place}: {source}")]
    Value {
        /// The file.
        path: PathBuf,
        /// The attribute.
        key: &'static str,
        /// The node, or the two ends of the edge.
        place: String,
        /// What is wrong with it.
        source: Box<QuantityError>,
    },
    /// A link that does not exist.
    #[error(".{key}: there is no link `{name}`; links are {known}")]
    NoLink {
        /// The scenario's key.
        key: &'static str,
        /// The name as written.
        name: String,
        /// Names that exist.
        known: String,
    },
    /// A link that cannot be so.
    #[error(".link `{name}`: {source}")]
    Impairment {
        /// The link.
        name: String,
        /// Why not.
        source: ImpairmentError,
    },
    /// A repair without a failure.
    #[error(".link `{0}`: repair-at without fail-at; say when the link fails")]
    Repair(String),
    /// Nodes cannot be placed so.
    #[error(".places: {0}")]
    Places(TopologyError),
    /// Such routes do not exist there.
    #[error(".routing: {0}")]
    Routing(#[from] RoutingError),
    /// Windows too short to write down.
    #[error(
        ".statistics is {0}; it must be whole nanoseconds, at least 1 us, and at least a thousandth of the time that the slowest link takes for a full frame"
    )]
    Statistics(Span),
}
