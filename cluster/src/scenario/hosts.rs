//! The physical hosts that a scenario is run on.
//!
//! Results do not depend on them. The command line may say otherwise than the file. Read by
//! [`hosts`](crate::hosts), which finds the hosts and starts agents there.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// How the hosts of a run are found, and agents started on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchKind {
    /// Slurm inside an allocation; ssh with a list of hosts; this host alone otherwise.
    #[default]
    Auto,
    /// This host runs all nodes.
    Alone,
    /// By srun, on the hosts of the allocation.
    Slurm,
    /// By ssh, on the listed hosts.
    Ssh,
    /// As processes on this host, one for each name in the list.
    Local,
}

/// Which hosts, and how they are dealt with.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Hosts {
    /// How agents are started.
    pub launch: LaunchKind,
    /// The hosts that run nodes, by names under which they reach each other.
    pub list: Vec<String>,
    /// Host seconds without a sign of a host after which it is given up; 30 by default.
    pub patience: Option<u32>,
    /// Nodes by the host that is to run them, as `"0-3,7"`; the others go where they fit.
    pub place: BTreeMap<String, String>,
}

impl Hosts {
    /// After how long without a sign a host is given up.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.patience.unwrap_or(30).max(1).into())
    }
}
