//! The table `workload` of a scenario.
//!
//! Values as written: a plan checks limits and finds files. Read by `Scenario::parse`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::quantity::{Bytes, Duration};

/// Workload and its limits.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// Shell script, run on node 0. `mpiexec.hydra -n N PROGRAM` reaches all nodes.
    pub command: String,
    /// Ranks that launchers may start on each node, in the host files of the run.
    #[serde(default = "one_rank")]
    pub ranks_per_node: u32,
    /// Environment of the command and of all MPI ranks.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files placed in the command's folder on every node: name there, and either
    /// a path relative to the scenario's file or `{ text = "..." }`.
    #[serde(default)]
    pub files: BTreeMap<String, FileSource>,
    /// True if all nodes have node 0's `/root`, over NFS. Default: true with Slurm on several nodes, if their kernels have NFS.
    pub shared_folder: Option<bool>,
    /// Virtual time limit of the run.
    #[serde(default = "default_limit")]
    pub limit: Duration,
    /// False to continue a run in which no rank can proceed up to its limit.
    #[serde(default = "yes")]
    pub stop_when_stuck: bool,
    /// Files that every node returns after the run: patterns of paths in `/root`, or from `/`.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Byte limit of such files of each node.
    #[serde(default = "default_output_limit")]
    pub output_limit: Bytes,
}

fn default_output_limit() -> Bytes {
    Bytes(1 << 30)
}

fn yes() -> bool {
    true
}

fn one_rank() -> u32 {
    1
}

fn default_limit() -> Duration {
    Duration(belljar_sim::Span::from_ps(3_600_000_000_000_000))
}

/// Source of a workload's file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "neither a path, such as \"in.dat\", nor a text, such as { text = \"1 2 3\" }"
)]
pub enum FileSource {
    /// A file next to the scenario.
    Path(PathBuf),
    /// The content itself.
    Text {
        /// The content.
        text: String,
    },
}
