//! Arguments of `belljar run`, `belljar resume` and `belljar checkpoint`.
//!
//! Options of hosts and scenarios are those of all commands. Used by `main` and by `run`.

use std::path::PathBuf;

use belljar_cluster::scenario::TraceBy;
use clap::Args;

use crate::command::arguments::{HostArguments, HostsArguments, ScenarioArguments};

#[derive(Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    /// Results folder.
    ///
    /// The default is a new folder in `belljar-runs`.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Placement of ranks in the network.
    ///
    /// Each line is the node of a rank, as `belljar place` writes it. Nodes move to these places.
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,
    /// Record links as pcapng: names such as `host0-switch0`, or `all`.
    #[arg(long, value_name = "LINK")]
    pub(crate) pcap: Vec<String>,
    /// Files that nodes return, overriding `workload.outputs`.
    ///
    /// Patterns such as `*.dat` or `out/**` select them.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) output: Vec<String>,
    /// Method to trace MPI calls, overriding the scenario.
    #[arg(long, value_enum, value_name = "MEANS")]
    pub(crate) trace_by: Option<TraceBy>,
    /// Boot each node instead of cloning a booted one.
    #[arg(long, conflicts_with = "snapshot")]
    pub(crate) boot_each: bool,
    /// Clone the node of this snapshot.
    ///
    /// It must match the scenario's nodes.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Hash each node's state every N instructions.
    ///
    /// The hashes go to `state/`, for `belljar bisect`. Each hash reads all of the node's memory.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) state_hash: Option<u64>,
    /// Write a report into the run directory, as `report.html`.
    #[arg(long)]
    pub(crate) report: bool,
    #[command(flatten)]
    pub(crate) hosts: HostsArguments,
    #[command(flatten)]
    pub(crate) host: HostArguments,
}

#[derive(Args)]
pub(crate) struct ResumeArguments {
    /// Run directory, with or without `.incomplete`.
    pub(crate) directory: PathBuf,
    /// Extract output files of the newest checkpoint and stop.
    ///
    /// They are the files of `workload.outputs`.
    #[arg(long)]
    pub(crate) collect: bool,
    /// Recipe of the run's image, if it moved.
    #[arg(long, value_name = "FILE")]
    pub(crate) recipe: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) hosts: HostsArguments,
    #[command(flatten)]
    pub(crate) host: HostArguments,
}

#[derive(Args)]
pub(crate) struct CheckpointArguments {
    /// Run directory, with or without `.incomplete`.
    pub(crate) directory: PathBuf,
}
