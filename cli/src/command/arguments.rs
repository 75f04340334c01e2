//! Arguments that several commands have.
//!
//! Each is flattened into the arguments of the commands that take it, so that an option has one meaning everywhere. Used by `check`, `run`, `mpirun`, `submit` and `sweep`.

use std::path::PathBuf;

use belljar_cluster::scenario::LaunchKind;
use clap::Args;

/// For commands whose only result is a table.
#[derive(Args)]
pub(crate) struct JsonArguments {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ScenarioArguments {
    /// Scenario file.
    pub(crate) scenario: PathBuf,
    /// Set the number of nodes, overriding the scenario.
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<u32>,
    /// Override a scenario key, such as `trace.enabled=false`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The hosts that carry out a run.
#[derive(Args)]
pub(crate) struct HostsArguments {
    /// Hosts that run the nodes, overriding the scenario.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) hosts: Vec<String>,
    /// Nodes of a host, such as `a=0-3,7`; repeatable.
    #[arg(long, value_name = "HOST=NODES")]
    pub(crate) place: Vec<String>,
    /// Method to start agents on hosts, overriding `hosts.launch`.
    #[arg(long, value_enum)]
    pub(crate) launch: Option<LaunchKind>,
}

/// Options of this host for a run.
#[derive(Args)]
pub(crate) struct HostArguments {
    /// Number of host threads on each host.
    ///
    /// Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Print only results, warnings and errors.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print progress each second, even without a terminal.
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) progress: bool,
    /// Disable the seccomp filter around threads that run guests.
    ///
    /// Use it only with trusted guests.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}
