//! `belljar branches`: runs that continue checkpoints of one run, in one process.
//!
//! The parts of the nodes are read once, and translated code serves all of the runs. Each run has a directory that a process of the same
//! user made from a checkpoint. The runs of a process differ in delays and limits alone. Requests come on standard input and results go to
//! standard output, one line of JSON each. Started by `belljar explore`, never by users.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use belljar_cluster::host::sandbox::{Reach, Sandbox};
use belljar_cluster::observe::progress::{ProgressDisplay, Showing};
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_cluster::run::checkpoint::{CheckpointChoice, FOLDER};
use belljar_cluster::run::coordinator::{Ending, NodeParts, Run, Setup};
use belljar_cluster::run::stuck::StuckWatchFiles;
use belljar_cluster::run::summary::{HostSummary, Summary};
use belljar_cluster::scenario::{Scenario, of_run_directory};
use belljar_files::read_input_text;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::{watch_ranks, write_lost, write_traffic};
use crate::command::running::check::sandbox;
use crate::command::terminal::interrupt::Deferral;

/// The reason of a run without results that a signal ended.
pub(in crate::command::running) const INTERRUPTED: &str = "interrupted";

/// Arguments of `belljar branches`.
#[derive(Args)]
pub(crate) struct BranchesArguments {
    /// Folder with the directories of all runs.
    folder: PathBuf,
    /// Disable the seccomp filter around threads that run guests.
    #[arg(long)]
    no_sandbox: bool,
}

/// A request for a run.
#[derive(Serialize, Deserialize)]
pub(in crate::command::running) struct BranchRequest {
    /// The run's directory, which is incomplete.
    pub(in crate::command::running) directory: PathBuf,
}

/// The end of a run.
#[derive(Serialize, Deserialize)]
pub(in crate::command::running) struct BranchAnswer {
    /// The reason, if the run has no results.
    pub(in crate::command::running) failure: Option<String>,
}

/// `belljar branches`; ends with its standard input.
pub(crate) fn branches(arguments: &BranchesArguments) -> Result<ExitCode> {
    let deferral = Deferral::begin();
    let mut branches = Branches {
        folder: &arguments.folder,
        is_confined: !arguments.no_sandbox,
        shared: None,
        stop: deferral.flag(),
    };
    for line in io::stdin().lock().lines() {
        let request: BranchRequest = serde_json::from_str(&line?)?;
        let outcome = branches.carry_out(&request.directory);
        let answer = BranchAnswer {
            failure: outcome.err().map(|error| format!("{error:#}")),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
        out.flush()?;
        if deferral.is_wanted() {
            break;
        }
    }
    if let Some((parts, _)) = branches.shared {
        parts.keep_code();
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs of one process.
struct Branches<'a> {
    folder: &'a Path,
    is_confined: bool,
    /// Set by the first run.
    shared: Option<(NodeParts, Option<Sandbox>)>,
    stop: &'a AtomicBool,
}

impl Branches<'_> {
    /// Continues the run in `directory` to its end.
    fn carry_out(&mut self, directory: &Path) -> Result<()> {
        let before = belljar_cluster::run::summary::processor_seconds();
        let directory = RunDirectory::resume(directory)?;
        let path = directory.path().join(SCENARIO_FILE);
        let text = read_input_text(&path)
            .with_context(|| format!("cannot read the scenario {}", path.display()))?;
        let scenario = Scenario::parse(&path, &of_run_directory(text), &[])?;
        let plan = Plan::resolve(&scenario, &path)?;
        let (parts, sandbox) = match &mut self.shared {
            Some(shared) => shared,
            none => none.insert(begin(&plan, self.folder, self.is_confined)?),
        };
        let sandbox = sandbox.as_ref();
        let mut choice = CheckpointChoice::among(directory.path())?;
        let mut progress = ProgressDisplay::start(Showing::Nothing);
        let watched = StuckWatchFiles::open(&plan);
        let setup = Setup {
            plan: &plan,
            directory: Some(&directory),
            threads: 1,
            sandbox,
            checkpoints: None,
            exchange: None,
        };
        let (mut run, _) = Run::resume_with(setup, &mut choice, parts)?;
        let prepared = progress.elapsed();
        watch_ranks(&plan, &directory, &mut run, watched)?;
        let ending = run.go_in(sandbox, self.stop, &mut progress)?;
        if ending == Ending::Interrupted {
            bail!(INTERRUPTED);
        }
        let summary = Summary::of(&plan, &run, &ending);
        let took = [prepared, progress.elapsed()];
        let mut host = HostSummary::of(&plan, &summary, &run, took, 1);
        write_lost(&directory, &mut run, &ending)?;
        write_traffic(&run, &directory)?;
        drop(run);
        host.processor_seconds -= before;
        directory.write("summary.json", &serde_json::to_string_pretty(&summary)?)?;
        directory.write("host.json", &serde_json::to_string_pretty(&host)?)?;
        if let Ending::Workload(_) = ending {
            directory.complete(Some(FOLDER))?;
        }
        Ok(())
    }
}

/// The parts of all runs, and the sandbox of their guests.
fn begin(plan: &Plan, folder: &Path, is_confined: bool) -> Result<(NodeParts, Option<Sandbox>)> {
    let parts = NodeParts::load(plan)?;
    let reach = Reach::nothing()
        .reading(Path::new("/"))
        .writing(folder)
        .renaming_in(folder);
    let sandbox = sandbox(!is_confined, plan.engine)?;
    let sandbox = sandbox.map(|sandbox| sandbox.reaching(reach).repeating());
    Ok((parts, sandbox.transpose()?))
}
