//! A host's part in a run that another host started.
//!
//! It has only the data that host 0 sends: all files are in a folder for the run, and a name that leads
//! out of it is refused. The run itself is the same code as on one host. Called by `belljar agent`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use belljar_images::{Image, ReceivedFiles};
use belljar_peers::{KeyError, Listener, Mesh, PeerError, Settings};

use super::bootstrap::{Company, Greeting, Introduction, read};
use super::exchange::Exchange;
use super::list::own_capacity;
use super::message::{
    FileOffer, HostTask, INFINIBAND, INITRD, KERNEL, NFS, ROOT, numbered, snapshot_name,
};
use super::provision::{Early, ProvisionError, take_in};
use crate::host::sandbox::{Reach, Sandbox};
use crate::observe::progress::{ProgressDisplay, Showing};
use crate::plan::Plan;
use crate::plan::error::PlanError;
use crate::plan::nodes::template;
use crate::results::run_directory::SCENARIO_FILE;
use crate::run::checkpoint::{CheckpointChoice, FOLDER as CHECKPOINT};
use crate::run::coordinator::{Ending, Run, Setup};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioError};

/// Errors of a host's part in a run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its input ended or is invalid.
    #[error("this agent's input: {0}")]
    Told(#[from] io::Error),
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The other hosts cannot be reached.
    #[error(transparent)]
    Peers(#[from] PeerError),
    /// It does not receive its files.
    #[error(transparent)]
    Provision(#[from] ProvisionError),
    /// A file for the run has a name that leads elsewhere.
    #[error("the run's file {0:?} would be outside its folder")]
    Name(String),
    /// A file was not sent.
    #[error("the run's {0} was not sent")]
    Missing(String),
    /// The image's manifest is invalid.
    #[error("the image's manifest: {0}")]
    Manifest(#[from] serde_json::Error),
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scenario cannot be carried out here.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The run failed here.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A connected agent with its task and files.
pub struct Agent {
    mesh: Mesh,
    own: u32,
    task: HostTask,
    /// Paths of the files, by name.
    files: BTreeMap<String, PathBuf>,
    /// Paths of the files next to the scenario, by name.
    inputs: BTreeMap<String, PathBuf>,
    early: Early,
    /// The run's folder.
    folder: tempfile::TempDir,
}

impl Agent {
    /// Follows the commands of `input` and reports its port on `output`, until it is connected to all
    /// hosts of the run and has its files.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub fn meet(
        mut input: impl BufRead,
        mut output: impl Write,
        stop: &AtomicBool,
    ) -> Result<Self, AgentError> {
        let introduction: Introduction = read(&mut input)?;
        let (own, key) = (introduction.own, introduction.key()?);
        let listener = Listener::open()?;
        let capacity = own_capacity("");
        let greeting = Greeting::new(template::build(), listener.port()?, &capacity);
        writeln!(output, "{}", greeting.line())?;
        output.flush()?;
        let company: Company = read(&mut input)?;
        let settings = Settings {
            gathering: Duration::from_millis(company.gathering_ms),
            patience: Duration::from_millis(company.patience_ms),
        };
        let addresses = &company.addresses;
        let mesh = Mesh::connect(own, &key, Some(listener), addresses, settings, stop)?;
        let (task, places, early) = take_in(&mesh, stop)?;
        let mut places = places.into_iter();
        let mut named = |files: &[(String, FileOffer)]| {
            let names = files.iter().map(|(name, _)| name.clone());
            names.zip(places.by_ref()).collect()
        };
        let (files, inputs) = (named(&task.files), named(&task.inputs));
        Ok(Self {
            mesh,
            own,
            task,
            files,
            inputs,
            early,
            folder: tempfile::tempdir()?,
        })
    }

    /// True if threads that run guests are confined.
    pub fn is_sandboxed(&self) -> bool {
        self.task.sandboxed
    }

    /// Host threads, if the user set their number.
    pub fn threads(&self) -> Option<usize> {
        self.task.threads
    }

    /// The plan to run.
    ///
    /// # Errors
    /// If it is invalid on this host.
    pub fn plan(&self) -> Result<Plan, AgentError> {
        let folder = self.folder.path();
        for (name, path) in &self.inputs {
            symlink(path, prepared(folder, name)?)?;
        }
        let path = folder.join(SCENARIO_FILE);
        let scenario = Scenario::parse(&path, &self.task.scenario, &[])?;
        let mut plan = Plan::resolve_for(&scenario, &path, self.images()?)?;
        let snapshots = (0..plan.kinds().len()).map(|kind| self.files.get(&snapshot_name(kind)));
        plan.snapshots = snapshots.map_while(|path| path.cloned()).collect();
        Ok(plan)
    }

    fn images(&self) -> Result<Vec<Image>, AgentError> {
        let manifests = self.task.manifests.iter().enumerate();
        let images = manifests.map(|(number, manifest)| {
            let file = |name: &str| {
                let name = numbered(name, number);
                let path = self.files.get(&name).cloned();
                path.ok_or(AgentError::Missing(name))
            };
            let manifest = serde_json::from_str(manifest)?;
            let files = ReceivedFiles {
                kernel: file(KERNEL)?,
                initrd: file(INITRD)?,
                root: file(ROOT)?,
                nfs: file(NFS).ok(),
                infiniband: file(INFINIBAND).ok(),
            };
            Ok(Image::of_files(files, manifest))
        });
        images.collect()
    }

    /// The checkpoint from which the run resumes, if it does.
    fn choice(&self) -> Result<Option<CheckpointChoice>, AgentError> {
        let folder = self.folder.path();
        let mut is_there = false;
        for (name, path) in &self.files {
            if name.starts_with(CHECKPOINT) {
                let link = prepared(folder, name)?;
                symlink(path, link)?;
                is_there = true;
            }
        }
        let choice = is_there.then(|| CheckpointChoice::among(folder));
        Ok(choice.transpose().map_err(RunError::from)?)
    }

    /// Files that this host opens while guests run: at the end it removes its own folder.
    fn reach(&self) -> Reach {
        let folder = self.folder.path();
        let above = folder.parent().unwrap_or(folder);
        Reach::nothing().writing(folder).renaming_in(above)
    }

    /// Runs this host's nodes on `threads` threads until the run ends.
    ///
    /// # Errors
    /// See [`AgentError`]; the error is also sent to host 0.
    pub fn run(
        self,
        plan: &Plan,
        threads: usize,
        sandbox: Option<&Sandbox>,
        stop: &AtomicBool,
    ) -> Result<Ending, AgentError> {
        let choice = self.choice()?;
        let sandbox = sandbox.map(|sandbox| sandbox.clone().reaching(self.reach()));
        let sandbox = sandbox.as_ref();
        let partition = Arc::new(self.task.partition);
        let mut exchange = Exchange::new(self.mesh, partition, self.own);
        for (peer, message) in self.early {
            exchange.hold(peer, message);
        }
        let setup = Setup {
            plan,
            directory: None,
            threads,
            sandbox,
            checkpoints: None,
            exchange: Some(exchange),
        };
        let mut run = match choice {
            Some(mut choice) => Run::resume(setup, &mut choice)?.0,
            None => Run::prepare(setup)?,
        };
        let ending = run.go_in(sandbox, stop, &mut ProgressDisplay::start(Showing::Nothing));
        if let Err(why) = &ending {
            run.tell_failure(&why.to_string());
        }
        run.keep_code();
        Ok(ending?)
    }
}

/// The path of the file called `name` in the run's folder; refuses names that lead elsewhere.
fn prepared(folder: &Path, name: &str) -> Result<PathBuf, AgentError> {
    let outside = |part: &str| part.is_empty() || part == "." || part == "..";
    if name.contains('\0') || name.split('/').any(outside) {
        return Err(AgentError::Name(name.to_owned()));
    }
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_the_runs_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = prepared(folder.path(), "inputs/files/HPL.dat").unwrap();
        assert_eq!(file, folder.path().join("inputs/files/HPL.dat"));
        fs::write(file, b"1").unwrap();
        for name in [
            "",
            "/etc/passwd",
            "../x",
            "inputs/../../x",
            "inputs//x",
            "a/.",
            "x\0",
        ] {
            let error = prepared(folder.path(), name).unwrap_err();
            assert!(matches!(error, AgentError::Name(_)), "{name}: {error}");
        }
    }
}
