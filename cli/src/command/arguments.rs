//! Arguments that several commands have.

use std::path::PathBuf;

use belljar_cluster::scenario::LaunchKind;
use clap::Args;

/// Of commands whose results are a table and nothing else.
#[derive(Args)]
pub(crate) struct JsonArguments {
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ScenarioArguments {
    /// The scenario's file.
    pub(crate) scenario: PathBuf,
    /// Number of nodes, instead of the scenario's.
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<u32>,
    /// Another value for a key of the scenario, such as `trace.enabled=false`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// Which hosts carry out a run.
#[derive(Args)]
pub(crate) struct HostsArguments {
    /// Hosts that run the nodes, instead of the scenario's.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) hosts: Vec<String>,
    /// Nodes that a host is to run, such as `a=0-3,7`, more than once for several.
    #[arg(long, value_name = "HOST=NODES")]
    pub(crate) place: Vec<String>,
    /// How agents are started on them, instead of the scenario's `hosts.launch`.
    #[arg(long, value_enum)]
    pub(crate) launch: Option<LaunchKind>,
}

/// How this host carries out a run.
#[derive(Args)]
pub(crate) struct HostArguments {
    /// Host threads, on each host; results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// No progress and no notes: only results, warnings and errors.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Progress as a line each second, where standard error is no terminal, too.
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) progress: bool,
    /// No seccomp filter around threads that run guests: only for guests you trust.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}
