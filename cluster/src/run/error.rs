//! Why a run ends that could not continue: whatever its nodes, its files, its hosts or the machine
//! under it refuse. Made by the coordinator, told by the commands; what was recorded is kept in all
//! cases.

use std::io;

use belljar_fabric::RoutingError;
use belljar_trace::TraceError;
use belljar_tracer::SelectionError;
use belljar_vmm::NodeError;

use crate::host::memory::Shortage;
use crate::host::sandbox::SandboxError;
use crate::hosts::ExchangeError;
use crate::observe::control::INPUT_FILE;
use crate::plan::parts::PartsError;
use crate::plan::template::TemplateError;
use crate::results::capture::CaptureError;
use crate::results::link_log::LINKS_FILE;
use crate::results::outputs::Refused;
use crate::results::run_directory::RunDirectoryError;
use crate::run::checkpoint::CheckpointError;

/// Why a run could not continue.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no node to clone.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// What the nodes are made of is not usable.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// A node cannot be built or cannot continue.
    #[error("node {node}: {source}")]
    Node {
        /// Which.
        node: u32,
        /// Why.
        source: NodeError,
    },
    /// The run directory cannot be written.
    #[error(transparent)]
    Directory(#[from] RunDirectoryError),
    /// A console's or another output's file cannot be written.
    #[error("cannot write the output of node {node}: {source}")]
    Console {
        /// Which.
        node: u32,
        /// The host's reason.
        source: io::Error,
    },
    /// A file of a node's cannot be kept.
    #[error("workload.outputs: {0}")]
    Outputs(#[from] Refused),
    /// The scenario's choice of calls makes no sense.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The host has no memory left for the nodes.
    #[error(transparent)]
    Memory(#[from] Shortage),
    /// A thread cannot be kept from what it must not do.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A capture cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The network cannot be operated as the plan says.
    #[error("network.routing: {0}")]
    Routing(#[from] RoutingError),
    /// What was typed cannot be written down.
    #[error("cannot write {INPUT_FILE}: {0}")]
    Input(io::Error),
    /// The run cannot continue from the checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The other hosts of the run cannot be dealt with.
    #[error(transparent)]
    Hosts(#[from] ExchangeError),
    /// The links' figures cannot be written.
    #[error("cannot write {LINKS_FILE}: {0}")]
    Links(io::Error),
}
