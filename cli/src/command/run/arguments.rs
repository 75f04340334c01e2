//! Arguments of `belljar run`, `belljar resume` and `belljar checkpoint`.

use std::path::PathBuf;

use belljar_cluster::scenario::TraceBy;
use clap::Args;

use crate::command::arguments::{HostArguments, HostsArguments, ScenarioArguments};

#[derive(Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    /// Where results go; by default a new folder in `belljar-runs`.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Where in the network ranks are, the node of each rank a line, as `belljar place` writes it: nodes come to these places.
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,
    /// Links to record as pcapng, such as `host0-switch0`, or `all`.
    #[arg(long, value_name = "LINK")]
    pub(crate) pcap: Vec<String>,
    /// Files that every node hands out when the run is over, such as `*.dat` or `out/**`; instead of
    /// the scenario's workload.outputs.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) output: Vec<String>,
    /// Means by which MPI calls are seen, instead of the scenario's.
    #[arg(long, value_enum, value_name = "MEANS")]
    pub(crate) trace_by: Option<TraceBy>,
    /// Boot every node by itself instead of cloning one that booted.
    #[arg(long, conflicts_with = "snapshot")]
    pub(crate) boot_each: bool,
    /// Clone this snapshot's node, which must be of the scenario's kind.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Write hashes of every node's state into `state/` every N instructions, for
    /// `belljar bisect`. Each takes a pass over the node's memory.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) state_hash: Option<u64>,
    /// Write report.html into the run directory, too: what `belljar report` writes.
    #[arg(long)]
    pub(crate) report: bool,
    #[command(flatten)]
    pub(crate) hosts: HostsArguments,
    #[command(flatten)]
    pub(crate) host: HostArguments,
}

#[derive(Args)]
pub(crate) struct ResumeArguments {
    /// The run's directory, with or without `.incomplete`.
    pub(crate) directory: PathBuf,
    /// Bring out the files of workload.outputs as they were at the newest checkpoint, and run no
    /// further.
    #[arg(long)]
    pub(crate) collect: bool,
    /// Where this host has the recipe of the run's image, if elsewhere.
    #[arg(long, value_name = "FILE")]
    pub(crate) recipe: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) hosts: HostsArguments,
    #[command(flatten)]
    pub(crate) host: HostArguments,
}

#[derive(Args)]
pub(crate) struct CheckpointArguments {
    /// The run's directory, with or without `.incomplete`.
    pub(crate) directory: PathBuf,
}
