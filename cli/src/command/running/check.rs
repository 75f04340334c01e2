//! `belljar check` and `belljar snapshot`: resolves a scenario, and boots the node to clone.
//!
//! No guest runs for a check; a snapshot boots one node of each kind. Called by `main`; other commands read scenarios and make sandboxes with the functions here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cluster::host::memory as host_memory;
use belljar_cluster::host::sandbox::Sandbox;
use belljar_cluster::hosts::Preview;
use belljar_cluster::plan::Plan;
use belljar_cluster::plan::nodes::{run_disk, template};
use belljar_cluster::scenario::engine::Engine;
use belljar_cluster::scenario::{Scenario, Standalone};
use belljar_files::{read_input_text, write_file};
use clap::Args;

use super::{background, run};
use crate::command::arguments::{HostsArguments, ScenarioArguments};
use crate::command::output::say;

#[derive(Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    /// Write the disk that hands over the workload, as tar.
    #[arg(long, value_name = "FILE")]
    pub(crate) run_disk: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) hosts: HostsArguments,
}

#[derive(Args)]
pub(crate) struct SnapshotArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    /// File to write.
    ///
    /// By default the file that runs of such nodes look for.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Disable the seccomp filter around the guest's thread.
    ///
    /// Use it only with trusted guests.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

/// Returns a scenario, and a standalone copy to run it again.
pub(in crate::command) fn read_scenario(
    arguments: &ScenarioArguments,
    more: &[String],
) -> Result<(Scenario, Standalone)> {
    let path = &arguments.scenario;
    let text = read_input_text(path)
        .with_context(|| format!("cannot read the scenario {}", path.display()))?;
    let mut overrides = arguments.set.clone();
    overrides.extend(arguments.nodes.map(|nodes| format!("nodes.count={nodes}")));
    overrides.extend_from_slice(more);
    let full = std::path::absolute(path)?;
    let folder = full.parent().unwrap_or(Path::new("/"));
    let mut scenario = Scenario::parse(path, &text, &overrides)?;
    let mut own = Scenario::standalone(path, &text, &overrides, folder)?;
    background::prepare(&mut scenario, &mut own, folder)?;
    Ok((scenario, own))
}

/// `belljar check`.
pub(crate) fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let (scenario, _) = read_scenario(&arguments.scenario, &[])?;
    let plan = Plan::resolve(&scenario, &arguments.scenario.scenario)?;
    say(&plan)?;
    let hosts = run::with_arguments(scenario.hosts.clone(), &arguments.hosts)?;
    match Preview::new(&plan, &hosts)? {
        Some(preview) => say(preview)?,
        None => {
            say("hosts      this one alone")?;
            say(format!("memory     {}", {
                let memory = plan.memory_of(0..plan.nodes);
                host_memory::preview(plan.nodes, memory, plan.likely_memory(memory))
            }))?;
        }
    }
    if let Some(path) = &arguments.run_disk {
        let disk = run_disk::build(&plan, &plan.images[plan.kind_of(0).image])
            .context("cannot pack the workload's files")?;
        write_file(path, disk)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `belljar snapshot`.
pub(crate) fn snapshot(arguments: &SnapshotArguments) -> Result<ExitCode> {
    let (scenario, _) = read_scenario(&arguments.scenario, &[])?;
    let plan = Plan::resolve(&scenario, &arguments.scenario.scenario)?;
    let several = plan.kinds().len() > 1;
    if arguments.out.is_some() && several {
        bail!("--out names one snapshot, and each group of nodes needs its own; leave out --out");
    }
    let sandbox = sandbox(arguments.no_sandbox, plan.engine)?;
    for (number, kind) in plan.kinds().iter().enumerate() {
        let path = match &arguments.out {
            Some(path) => path.clone(),
            None => template::path_of(&plan, kind)?,
        };
        template::write(&plan, number, sandbox.as_ref(), &path)?;
        say(path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The sandbox for threads that run guests, unless it is disabled.
pub(in crate::command) fn sandbox(unwanted: bool, engine: Engine) -> Result<Option<Sandbox>> {
    if unwanted {
        return Ok(None);
    }
    let sandbox = Sandbox::new()?;
    Ok(Some(match engine {
        Engine::Exact => sandbox,
        Engine::Kvm => sandbox.with_kvm()?,
    }))
}
