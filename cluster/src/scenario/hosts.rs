//! The physical hosts of a scenario.
//!
//! Results do not depend on them. The command line may override the file. Used by
//! [`hosts`](crate::hosts), which finds the hosts and starts agents there.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// Method to find hosts and start agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchKind {
    /// Slurm inside an allocation; ssh with a list of hosts; otherwise this host alone.
    #[default]
    Auto,
    /// This host alone runs all nodes.
    Alone,
    /// By srun, on the hosts of the allocation.
    Slurm,
    /// By ssh, on the listed hosts.
    Ssh,
    /// As processes on this host, one for each name in the list.
    Local,
}

/// Hosts of a run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Hosts {
    /// Method to start agents.
    pub launch: LaunchKind,
    /// Hosts that run nodes, by names under which they reach each other.
    pub list: Vec<String>,
    /// Host seconds of silence after which a host is given up; 30 by default.
    pub patience: Option<u32>,
    /// Nodes of a host, as `"0-3,7"`; other nodes are placed automatically.
    pub place: BTreeMap<String, String>,
}

impl Hosts {
    /// Time of silence after which a host is given up.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.patience.unwrap_or(30).max(1).into())
    }
}
