//! `belljar run`, `belljar resume` and `belljar checkpoint`.
//!
//! Each makes a plan, connects the other hosts if there are any, and carries out the run, with a control
//! socket if the host allows it. The run directory has its final name only when the run is whole. `belljar
//! mpirun` starts its runs here, too.

/// Arguments of these commands.
mod arguments;
/// Runs that continue checkpoints of one run, with common parts of their nodes.
pub(super) mod branches;
/// Stuck ranks and ended processes of a run.
mod stuck;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use belljar_cluster::host::sandbox::Sandbox;
use belljar_cluster::hosts::muster::{Agents, Muster};
use belljar_cluster::hosts::{Exchange, Given};
use belljar_cluster::observe::control::{Client, Mailbox, Server};
use belljar_cluster::observe::follow::OutputFollower;
use belljar_cluster::observe::progress::{ProgressDisplay, Showing};
use belljar_cluster::plan::Plan;
use belljar_cluster::plan::nodes::template;
use belljar_cluster::results::infiniband::{
    self, INFINIBAND_LINKS_FILE, INFINIBAND_MARKS_FILE, INFINIBAND_PAIRS_FILE, INFINIBAND_WIRE_FILE,
};
use belljar_cluster::results::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_cluster::results::wire::{self, WIRE_FILE};
use belljar_cluster::run::checkpoint::{CheckpointChoice, Tell};
use belljar_cluster::run::coordinator::{Checkpoints, Ending, Run, Setup};
use belljar_cluster::run::stuck::StuckWatchFiles;
use belljar_cluster::run::summary::{HostSummary, Summary, render};
use belljar_cluster::scenario::engine::Engine;
use belljar_cluster::scenario::{Hosts, Scenario, of_run_directory};
use belljar_files::{Registration, read_input_text};

use super::check::{read_scenario, sandbox};
use super::conclusion::{conclude, what_is_kept};
use crate::command::arguments::{HostArguments, HostsArguments};
use crate::command::output::{print, say};
use crate::command::predicting::replay::hostfile::places;
use crate::command::results::report::deferred::DeferredReport;
use crate::command::terminal::interrupt::{Deferral, Interrupted};
pub(crate) use arguments::{CheckpointArguments, ResumeArguments, RunArguments};
pub(crate) use branches::{BranchesArguments, branches};
use stuck::{watch_ranks, write_lost};

/// `belljar run`.
pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let pcap: Vec<String> = arguments
        .pcap
        .iter()
        .map(|link| format!("{link:?}"))
        .collect();
    let mut more = Vec::new();
    if !pcap.is_empty() {
        more.push(format!("network.pcap=[{}]", pcap.join(",")));
    }
    if !arguments.output.is_empty() {
        let patterns = arguments
            .output
            .iter()
            .map(|pattern| format!("{pattern:?}"));
        let patterns: Vec<String> = patterns.collect();
        more.push(format!("workload.outputs=[{}]", patterns.join(",")));
    }
    if let Some(file) = &arguments.mapping {
        let (scenario, _) = read_scenario(&arguments.scenario, &more)?;
        let (topology, _) = Plan::network_of(&scenario, &arguments.scenario.scenario)?;
        let places = places(file, &topology, scenario.workload.ranks_per_node)?;
        more.push(format!("network.places={places:?}"));
    }
    if let Some(means) = arguments.trace_by {
        more.push(format!("trace.by={}", means.name()));
    }
    if arguments.boot_each {
        more.push("nodes.boot=each".to_owned());
    }
    let (scenario, own) = read_scenario(&arguments.scenario, &more)?;
    let mut plan = Plan::resolve(&scenario, &arguments.scenario.scenario)?;
    if arguments.snapshot.is_some() && plan.kinds().len() > 1 {
        bail!(
            "--snapshot names one snapshot, and each group of nodes needs its own; leave out --snapshot"
        );
    }
    plan.snapshots.extend(arguments.snapshot.clone());
    if plan.engine == Engine::Kvm && arguments.state_hash.is_some() {
        bail!(
            "--state-hash counts instructions, which engine kvm does not; use engine = \"exact\""
        );
    }
    let directory = RunDirectory::create(arguments.out.as_deref(), &plan.name)?;
    directory.write("plan.txt", &format!("{plan}\n"))?;
    directory.write(SCENARIO_FILE, &own.text)?;
    for (from, name) in &own.inputs {
        directory.copy(from, name)?;
    }
    let task = RunTask {
        plan,
        directory,
        hosts: with_arguments(scenario.hosts, &arguments.hosts)?,
        inputs: own.inputs.into_iter().map(|(_, name)| name).collect(),
        host: &arguments.host,
        state_hash: arguments.state_hash,
        report: arguments.report,
        choice: None,
        collect: false,
    };
    task.carry_out()
}

/// `belljar resume`.
pub(crate) fn resume(arguments: &ResumeArguments) -> Result<ExitCode> {
    if arguments.directory.join("summary.json").exists()
        && arguments.directory.extension() != Some("incomplete".as_ref())
    {
        bail!(
            "the run in {} is complete; there is nothing to resume",
            arguments.directory.display()
        );
    }
    let directory = RunDirectory::resume(&arguments.directory)?;
    let path = directory.path().join(SCENARIO_FILE);
    let text = read_input_text(&path).with_context(|| {
        let path = path.display();
        format!("cannot read the scenario {path}; start the run again with: belljar run")
    })?;
    let text = of_run_directory(text);
    let mut overrides = Vec::new();
    if let Some(recipe) = &arguments.recipe {
        let recipe = belljar_images::place(&std::env::current_dir()?, recipe);
        overrides.push(format!("image.recipe={recipe:?}"));
    }
    let scenario = Scenario::parse(&path, &text, &overrides)?;
    let plan = Plan::resolve(&scenario, &path)?;
    if arguments.collect && plan.outputs.patterns.is_empty() {
        bail!(
            "{} requests no files: name them in its workload.outputs",
            path.display()
        );
    }
    let choice = CheckpointChoice::among(directory.path())?;
    let task = RunTask {
        plan,
        directory,
        // Checkpoints do not depend on hosts, so these may differ from the hosts before.
        hosts: with_arguments(scenario.hosts.clone(), &arguments.hosts)?,
        inputs: scenario.inputs(),
        host: &arguments.host,
        state_hash: None,
        report: false,
        choice: Some(choice),
        collect: arguments.collect,
    };
    task.carry_out()
}

/// Carries out a plan whose directory has its scenario and `inputs`. Writes a report if it is requested.
///
/// # Errors
/// As for a run.
pub(in crate::command) fn start(
    plan: Plan,
    directory: RunDirectory,
    hosts: Hosts,
    inputs: Vec<String>,
    host: &HostArguments,
    report: bool,
) -> Result<ExitCode> {
    let task = RunTask {
        plan,
        directory,
        hosts,
        inputs,
        host,
        state_hash: None,
        report,
        choice: None,
        collect: false,
    };
    task.carry_out()
}

/// `belljar checkpoint`.
pub(crate) fn checkpoint(arguments: &CheckpointArguments) -> Result<ExitCode> {
    let report = Client::connect(&arguments.directory)?.checkpoint()?;
    say(report)?;
    Ok(ExitCode::SUCCESS)
}

/// A run to carry out.
struct RunTask<'a> {
    plan: Plan,
    directory: RunDirectory,
    /// Hosts of the run, and names of the files next to its scenario.
    hosts: Hosts,
    inputs: Vec<String>,
    host: &'a HostArguments,
    state_hash: Option<u64>,
    /// True if the run gets a report.
    report: bool,
    /// Checkpoints from which the run may continue.
    choice: Option<CheckpointChoice>,
    /// True to extract the nodes' output files and run no further.
    collect: bool,
}

impl RunTask<'_> {
    /// Returns the number of host threads: the requested one, or that of this host's processors.
    fn threads(&self) -> usize {
        let here = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.host.threads.unwrap_or_else(here);
        threads.clamp(1, self.plan.nodes as usize)
    }

    fn carry_out(mut self) -> Result<ExitCode> {
        let mut choice = self.choice.take();
        let (plan, directory) = (&self.plan, &self.directory);
        let threads = self.threads();
        for warning in &plan.network_warnings {
            warning!("{warning}");
        }
        // Its files are out of reach once the sandbox is active.
        let report = self.report.then(DeferredReport::start).transpose()?;
        let mut sandbox = sandbox(self.host.no_sandbox, plan.engine)?;
        // The socket must be made before the sandbox is active.
        let mailbox = Arc::new(Mailbox::default());
        let server = serve(directory.path(), plan, &mailbox);
        if let Some(server) = &server {
            let listening = |sandbox: Sandbox| sandbox.listening(server.listener());
            sandbox = sandbox.map(listening).transpose()?;
        }
        sandbox = sandbox.map(|sandbox| sandbox.reaching(directory.reach()));
        let deferral = Deferral::begin();
        let called = self.call_hosts(choice.as_mut(), sandbox.as_ref(), &deferral)?;
        let (exchange, agents) = called.unzip();
        // Other hosts learn of the end in their rounds; a single host has nothing to keep yet.
        let deferral = Some(deferral).filter(|_| exchange.is_some());
        let unstarted = choice
            .is_none()
            .then(|| Registration::of_folder(directory.path()));
        let mut progress = ProgressDisplay::start(self.host.showing());
        // The kernels' files are out of reach once the sandbox is active.
        let watched = StuckWatchFiles::open(plan);
        let setup = Setup {
            plan,
            directory: Some(directory),
            threads,
            sandbox: sandbox.as_ref(),
            checkpoints: Some(checkpoints(&mailbox)?),
            exchange,
        };
        let mut run = match &mut choice {
            Some(choice) => {
                let (run, from) = Run::resume(setup, choice)?;
                if !self.host.quiet {
                    note!("continuing from {from}");
                }
                run
            }
            None => Run::prepare(setup)?,
        };
        let prepared = progress.elapsed();
        let deferral = deferral.unwrap_or_else(Deferral::begin);
        let stop = deferral.flag();
        drop(unstarted);
        if let Some(every) = self.state_hash {
            run.log_states(directory, every)?;
        }
        run.attend_to(mailbox);
        watch_ranks(plan, directory, &mut run, watched)?;
        stop.fetch_or(self.collect, Ordering::Relaxed);
        let follower =
            (!self.host.quiet).then(|| OutputFollower::start(directory.path(), progress.line()));
        let ending = run.go_in(sandbox.as_ref(), stop, &mut progress);
        let kept = run.finish_checkpoints();
        drop(server);
        drop(agents);
        follower.into_iter().for_each(OutputFollower::finish);
        progress.finish();
        let ending = ending.with_context(|| what_is_kept(directory.path()))?;
        let summary = Summary::of(plan, &run, &ending);
        let mut host = HostSummary::of(
            plan,
            &summary,
            &run,
            [prepared, progress.elapsed()],
            threads,
        );
        host.checkpoints = kept;
        if self.collect && ending == Ending::Interrupted {
            print(render(&summary, &host, self.directory.path()))?;
            return Ok(ExitCode::SUCCESS);
        }
        write_lost(directory, &mut run, &ending)?;
        write_traffic(&run, directory)?;
        drop(deferral);
        let keeps = self.plan.checkpoints_kept.is_some();
        conclude(self.directory, &summary, &host, &ending, report, keeps)
            .inspect(|_| run.keep_code())
    }
}

impl RunTask<'_> {
    /// As [`gather`](Self::gather), but ends at the user's signal.
    fn call_hosts(
        &self,
        choice: Option<&mut CheckpointChoice>,
        sandbox: Option<&Sandbox>,
        deferral: &Deferral,
    ) -> Result<Option<(Exchange, Agents)>> {
        let called = self.gather(choice, sandbox, deferral.flag());
        match deferral.is_wanted() {
            true => Err(Interrupted("before the first round".to_owned()).into()),
            false => called,
        }
    }

    /// Connects the other hosts, if the run has any, and sends them their inputs. Returns this host's part,
    /// and the agents, which end when they are dropped.
    fn gather(
        &self,
        choice: Option<&mut CheckpointChoice>,
        sandbox: Option<&Sandbox>,
        stop: &AtomicBool,
    ) -> Result<Option<(Exchange, Agents)>> {
        let Some(muster) = Muster::of(&self.hosts)? else {
            return Ok(None);
        };
        if self.state_hash.is_some() {
            bail!("--state-hash needs all nodes on this host; leave out hosts");
        }
        let gathered = muster.gather(stop)?;
        let folder = self.directory.path();
        let inputs = self.inputs.iter();
        let inputs = inputs.map(|name| (name.clone(), folder.join(name)));
        // All hosts must continue from the same checkpoint, and hold some of its pages.
        let found = choice.map(|choice| choice.settle(&self.directory));
        let found = found.transpose()?;
        let snapshots = match found {
            // Snapshots are part of the checkpoint.
            Some(_) => Vec::new(),
            None => template::files(&self.plan, sandbox)?,
        };
        let given = Given {
            scenario: of_run_directory(read_input_text(folder.join(SCENARIO_FILE))?),
            inputs: inputs.collect(),
            snapshots,
            checkpoint: found.map_or_else(Vec::new, |found| found.files(folder)),
            sandboxed: sandbox.is_some(),
            threads: self.host.threads,
        };
        let gathered = gathered.hand_out(&self.plan, &self.hosts, given, stop)?;
        Ok(Some(gathered))
    }
}

/// The hosts of the command line, else of the scenario.
pub(in crate::command) fn with_arguments(
    mut hosts: Hosts,
    arguments: &HostsArguments,
) -> Result<Hosts> {
    for wish in &arguments.place {
        let Some((host, nodes)) = wish.split_once('=') else {
            bail!("--place {wish}: write --place HOST=NODES, such as a=0-3,7");
        };
        hosts.place.insert(host.to_owned(), nodes.to_owned());
    }
    if !arguments.hosts.is_empty() {
        hosts.list.clone_from(&arguments.hosts);
    }
    hosts.launch = arguments.launch.unwrap_or(hosts.launch);
    Ok(hosts)
}

/// Checkpoints on request by the control socket (`mailbox`) or by SIGUSR1.
fn checkpoints(mailbox: &Arc<Mailbox>) -> Result<Checkpoints> {
    let wanted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, wanted.clone())
        .context("cannot watch for SIGUSR1")?;
    let mailbox = mailbox.clone();
    let tell: Tell = Arc::new(move |number, outcome| {
        match outcome {
            Ok(report) => tracing::info!("{report}"),
            Err(why) => {
                tracing::warn!("checkpoint {number} failed, the run continues without: {why}");
            }
        }
        mailbox.tell_checkpoint(number, outcome);
    });
    Ok(Checkpoints { wanted, tell })
}

/// Opens the control socket; the run continues without it if that fails.
fn serve(directory: &Path, plan: &Plan, mailbox: &Arc<Mailbox>) -> Option<Server> {
    match Server::open(directory, &plan.name, plan.nodes, mailbox.clone()) {
        Ok(server) => Some(server),
        Err(error) => {
            warning!("belljar watch and console will not find this run: {error}");
            None
        }
    }
}

impl HostArguments {
    /// The form in which the run's progress is shown.
    fn showing(&self) -> Showing {
        match (self.quiet, self.progress, io::stderr().is_terminal()) {
            (true, ..) => Showing::Nothing,
            (_, true, _) => Showing::Lines,
            (_, _, true) => Showing::Line,
            _ => Showing::Nothing,
        }
    }
}

/// Writes the traffic of the networks.
fn write_traffic(run: &Run, directory: &RunDirectory) -> Result<()> {
    directory.write(WIRE_FILE, &wire::table(run.fabric()))?;
    if let Some(network) = run.infiniband() {
        directory.write(INFINIBAND_LINKS_FILE, &infiniband::links(network))?;
        directory.write(INFINIBAND_WIRE_FILE, &infiniband::wire(network))?;
        if network.has_control() {
            directory.write(INFINIBAND_MARKS_FILE, &infiniband::marks(network))?;
            let nodes = run.reports().iter();
            let nodes = nodes.map(|report| (report.node(), report.congestion()));
            directory.write(INFINIBAND_PAIRS_FILE, &infiniband::pairs(nodes))?;
        }
    }
    Ok(())
}
