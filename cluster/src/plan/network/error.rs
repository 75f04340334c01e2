//! Errors of networks.
//!
//! Each message follows the word "network" and names the key, link or file that is wrong. Returned by
//! `plan/network.rs` and `plan/graph.rs` as part of a `PlanError`.

use std::path::PathBuf;

use belljar_fabric::graphml::GraphmlError;
use belljar_fabric::{ImpairmentError, RoutingError, TableError, TopologyError};
use belljar_sim::Span;

use crate::plan::background::BackgroundError;
use crate::scenario::quantity::QuantityError;

/// An error of a network. Messages follow the word "network".
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Its parts do not fit together.
    #[error(": {0}")]
    Topology(#[from] TopologyError),
    /// A background job on it is invalid.
    #[error(": background{0}")]
    Background(#[from] BackgroundError),
    /// An invalid frame size for Ethernet.
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
    /// A missing key of the topology.
    #[error(".{key} is missing; a {topology} needs it, for example {key} = {example}")]
    Missing {
        /// The key.
        key: &'static str,
        /// The topology.
        topology: String,
        /// An example.
        example: &'static str,
    },
    /// Routing by tables without a file.
    #[error(
        ".tables is missing; routing \"tables\" needs a file with the link of each switch towards each node"
    )]
    NoTables,
    /// A file of tables with another routing.
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
    /// The tables are invalid.
    #[error(".tables: {path}: {source}")]
    Tables {
        /// The file.
        path: PathBuf,
        /// The reason and its place.
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
    /// The graph's file is invalid.
    #[error(".topology: {path}: {source}")]
    Graphml {
        /// The file.
        path: PathBuf,
        /// The reason and its place.
        source: GraphmlError,
    },
    /// The graph does not fit the scenario.
    #[error(".topology: {path}: {reason}")]
    Graph {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An invalid value in the graph.
    #[error(".topology: {path}: {key} of {place}: {source}")]
    Value {
        /// The file.
        path: PathBuf,
        /// The attribute.
        key: &'static str,
        /// The node, or the two ends of the edge.
        place: String,
        /// The reason.
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
    /// Invalid settings of a link.
    #[error(".link `{name}`: {source}")]
    Impairment {
        /// The link.
        name: String,
        /// The reason.
        source: ImpairmentError,
    },
    /// A repair without a failure.
    #[error(".link `{0}`: repair-at without fail-at; add fail-at")]
    Repair(String),
    /// An invalid placement of nodes.
    #[error(".places: {0}")]
    Places(TopologyError),
    /// A routing that the topology does not support.
    #[error(".routing: {0}")]
    Routing(#[from] RoutingError),
    /// Windows that are too short for statistics.
    #[error(
        ".statistics is {0}; it must be whole nanoseconds, at least 1 us, and at least a thousandth of the time that the slowest link takes for a full frame"
    )]
    Statistics(Span),
}
