//! Slurm on the nodes: the table `slurm` of a scenario.
//!
//! Its presence starts Slurm before the workload. Names are checked when a plan is made.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// Slurm on the nodes. Its nodes, processors and memory are those of the scenario.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Slurm {
    /// Recipe of the image with Slurm, relative to the scenario's file, or the name of a built-in one.
    pub recipe: PathBuf,
    /// Partitions, the default one first; each has all nodes.
    pub partitions: Vec<String>,
    /// Features of every node, which jobs select by `--constraint`.
    pub features: Vec<String>,
    /// Licences, each with a number, such as `solver:2`.
    pub licenses: Vec<String>,
}

impl Default for Slurm {
    fn default() -> Self {
        Self {
            recipe: "bookworm-slurm".into(),
            partitions: vec!["batch".to_owned()],
            features: Vec::new(),
            licenses: Vec::new(),
        }
    }
}
