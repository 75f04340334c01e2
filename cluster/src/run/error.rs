//! Errors of a run: of its nodes, its files, its hosts or this machine. Returned by the
//! coordinator, and printed by the commands; the records so far are kept in all cases.

use std::io;

use belljar_fabric::RoutingError;
use belljar_trace::TraceError;
use belljar_tracer::SelectionError;
use belljar_vmm::NodeError;

use crate::host::memory::Shortage;
use crate::host::sandbox::SandboxError;
use crate::hosts::ExchangeError;
use crate::observe::control::INPUT_FILE;
use crate::plan::nodes::parts::PartsError;
use crate::plan::nodes::template::TemplateError;
use crate::results::capture::CaptureError;
use crate::results::link_log::LINKS_FILE;
use crate::results::outputs::Refused;
use crate::results::run_directory::RunDirectoryError;
use crate::run::checkpoint::CheckpointError;

/// An error that ends a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The template cannot be made.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The parts of the nodes are not usable.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// A node cannot be built or cannot continue.
    #[error("node {node}: {source}")]
    Node {
        /// Number of the node.
        node: u32,
        /// The reason.
        source: NodeError,
    },
    /// The run directory cannot be written.
    #[error(transparent)]
    Directory(#[from] RunDirectoryError),
    /// A console's or another output's file cannot be written.
    #[error("cannot write the output of node {node}: {source}")]
    Console {
        /// Number of the node.
        node: u32,
        /// The host's reason.
        source: io::Error,
    },
    /// A file of a node's cannot be kept.
    #[error("workload.outputs: {0}")]
    Outputs(#[from] Refused),
    /// The scenario's filter of calls is invalid.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The host has no memory left for the nodes.
    #[error(transparent)]
    Memory(#[from] Shortage),
    /// A thread cannot be confined.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A capture cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The network does not support the plan's routing.
    #[error("network.routing: {0}")]
    Routing(#[from] RoutingError),
    /// Input cannot be recorded.
    #[error("cannot write {INPUT_FILE}: {0}")]
    Input(io::Error),
    /// The run cannot continue from the checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The exchange with other hosts failed.
    #[error(transparent)]
    Hosts(#[from] ExchangeError),
    /// A position is not on the run's timeline.
    #[error("the run has no position with {instructions} retired instructions of node {node}")]
    NoPosition {
        /// Number of the node.
        node: u32,
        /// Its instructions there.
        instructions: u64,
    },
    /// The links' figures cannot be written.
    #[error("cannot write {LINKS_FILE}: {0}")]
    Links(io::Error),
}
