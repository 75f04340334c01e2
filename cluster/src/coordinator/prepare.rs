//! A run's making: from the start, or from a checkpoint.

use belljar_fabric::{Distances, Fabric};
use belljar_sim::Time;
use belljar_tracer::NodeTracer;
use belljar_vmm::Snapshot;

use super::{Checkpointer, Checkpoints, Run, RunError};
use crate::capture::Captures;
use crate::checkpoint::{CheckpointError, Found, identity, read_input};
use crate::control::{INPUT_FILE, Viewer};
use crate::crew::Crew;
use crate::ending::Closing;
use crate::horizon::Horizons;
use crate::link_log::LinkLog;
use crate::parts::Parts;
use crate::plan::Plan;
use crate::recorder::{Recorder, selection};
use crate::run_directory::RunDirectory;
use crate::runner::{KeepError, Runner};
use crate::sandbox::Sandbox;
use crate::template;

/// Files that a run opens beside its nodes' consoles, generously.
const SPARE_FILES: u64 = 1024;

/// What a run is made from.
pub struct Setup<'a> {
    /// What runs.
    pub plan: &'a Plan,
    /// Where results go.
    pub directory: &'a RunDirectory,
    /// Host threads.
    pub threads: usize,
    /// What those threads enter that run guests, but for the caller's. With it the process
    /// starts no more programs and makes no more connections.
    pub sandbox: Option<&'a Sandbox>,
    /// How checkpoints are kept, if they are.
    pub checkpoints: Option<Checkpoints>,
}

/// The parts of a run that differ between one that starts and one that goes on.
struct Begun {
    runners: Vec<Runner>,
    fabric: Fabric,
    captures: Captures,
    links: Option<LinkLog>,
    recorder: Recorder,
    closing: Closing,
    now: Time,
    typed: u64,
    input: u64,
    rounds: u64,
}

impl Run {
    /// Builds all nodes and opens all files.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn prepare(setup: Setup<'_>) -> Result<Self, RunError> {
        let plan = setup.plan;
        let parts = Parts::load(plan)?;
        selection(plan).check()?;
        let base = if plan.boot_each {
            None
        } else {
            Some(template::find(plan, &parts, setup.sandbox)?)
        };
        let begun = setup.begin(&parts, base.as_ref())?;
        let identity = identity(plan, parts.run_disk_hash);
        setup.assemble(begun, |checkpoints, folder| {
            Checkpointer::new(
                Default::default(),
                checkpoints,
                folder,
                plan,
                identity,
                base,
            )
        })
    }

    /// Goes on from `found`, with the files of the run directory cut where they were then.
    ///
    /// # Errors
    /// See [`RunError`]; the first that says that something does not fit comes before
    /// any file is changed.
    pub fn resume(setup: Setup<'_>, found: &Found) -> Result<Self, RunError> {
        let plan = setup.plan;
        let parts = Parts::load(plan)?;
        selection(plan).check()?;
        found.check(&identity(plan, parts.run_disk_hash))?;
        let mut kept = Vec::new();
        let begun = setup.go_on(&parts, found, &mut kept)?;
        let input = setup.directory.path().join(INPUT_FILE);
        let (pieces, end) = read_input(&input, found.run.input).map_err(RunError::Input)?;
        if end > 0 {
            setup.directory.resume_file(INPUT_FILE, end)?;
        }
        let mut run = setup.assemble(begun, |checkpoints, folder| {
            Checkpointer::resume(checkpoints, folder, plan, found, kept)
        })?;
        for (at, node, bytes) in pieces {
            if (node as usize) < run.crew.len() {
                run.crew.type_in(node, at, bytes);
                run.horizons.set(node, run.crew.next(node));
                run.typed += 1;
            }
        }
        run.input = end;
        Ok(run)
    }
}

impl Setup<'_> {
    /// Everything at virtual time zero.
    fn begin(&self, parts: &Parts, base: Option<&Snapshot>) -> Result<Begun, RunError> {
        let (plan, directory) = (self.plan, self.directory);
        let mut fabric = Fabric::with_settings(plan.topology.clone(), &plan.network)?;
        self.allow_files();
        let runners = (0..plan.nodes).map(|index| self.begin_node(parts, base, index));
        Ok(Begun {
            runners: runners.collect::<Result<_, _>>()?,
            captures: Captures::start(directory, &mut fabric, &plan.pcap)?,
            links: LinkLog::start(plan, directory)?,
            recorder: Recorder::create(plan, directory)?,
            closing: Closing::at_limit(plan.limit, (plan.vcpus > 1).then_some(plan.slice)),
            fabric,
            now: Time::ZERO,
            typed: 0,
            input: 0,
            rounds: 0,
        })
    }

    fn begin_node(
        &self,
        parts: &Parts,
        base: Option<&Snapshot>,
        index: u32,
    ) -> Result<Runner, RunError> {
        let plan = self.plan;
        let node = match base {
            Some(snapshot) => parts.clone_of(snapshot, plan, index),
            None => parts.node(plan, index),
        };
        let failed = |source| RunError::Node {
            node: index,
            source,
        };
        let tracer = || NodeTracer::new(index, &selection(plan));
        let tracer = plan.trace.enabled.then(tracer);
        let console = self.directory.file(&Runner::console_file(index))?;
        let mut runner = Runner::new(index, node.map_err(failed)?, tracer, console);
        if let Some(snapshot) = base {
            let logged = runner.log(snapshot.boot_log());
            logged.map_err(|source| RunError::Console {
                node: index,
                source,
            })?;
        }
        Ok(runner)
    }

    /// Everything as it was at a checkpoint; the nodes' pages go into `kept`.
    fn go_on(
        &self,
        parts: &Parts,
        found: &Found,
        kept: &mut Vec<belljar_vmm::KeptPages>,
    ) -> Result<Begun, RunError> {
        let (plan, directory) = (self.plan, self.directory);
        let mut fabric = Fabric::with_settings(plan.topology.clone(), &plan.network)?;
        let of = &found.run;
        fabric
            .restore(of.fabric.clone())
            .map_err(CheckpointError::from)?;
        self.allow_files();
        let selection = selection(plan);
        let selection = plan.trace.enabled.then_some(&selection);
        // All that may be damaged first: files are changed when all is well.
        let mut nodes = Vec::new();
        for index in 0..plan.nodes {
            let record = found.node(index)?;
            let ram = found.ram(index, &record, plan.memory)?;
            let node = parts.restored(plan, index, ram, &record.runner.node);
            let failed = |source| RunError::Node {
                node: index,
                source,
            };
            nodes.push((node.map_err(failed)?, record.runner));
            kept.push(record.pages.into_owned());
        }
        let runners = (0..)
            .zip(nodes)
            .map(|(index, (node, state))| Runner::resume(index, node, selection, directory, state));
        let runners = runners.collect::<Result<_, KeepError>>();
        let runners = runners.map_err(CheckpointError::from)?;
        let captures = of.captures.clone();
        Ok(Begun {
            runners,
            captures: Captures::resume(directory, &mut fabric, &plan.pcap, captures)?,
            links: LinkLog::resume(plan, directory, of.links)?,
            recorder: Recorder::resume(plan, directory, &of.recorder)?,
            closing: of.closing.clone().with_limit(plan.limit),
            fabric,
            now: of.now,
            typed: of.typed,
            input: of.input,
            rounds: of.rounds,
        })
    }

    /// A console for each node; where the host allows fewer, opening one says so.
    fn allow_files(&self) {
        let _ = rlimit::increase_nofile_limit(u64::from(self.plan.nodes) + SPARE_FILES);
    }

    fn assemble(
        self,
        begun: Begun,
        checkpointer: impl FnOnce(Checkpoints, &RunDirectory) -> Checkpointer,
    ) -> Result<Run, RunError> {
        let plan = self.plan;
        let checkpointer = self
            .checkpoints
            .map(|checkpoints| checkpointer(checkpoints, self.directory));
        // Before any thread has a filter of its own, which would be in the way.
        self.sandbox.map_or(Ok(()), Sandbox::close_process)?;
        let crew = Crew::new(begun.runners, self.threads, plan.engine, self.sandbox)?;
        let mut horizons = Horizons::new(Distances::new(&plan.topology), plan.nodes);
        for node in 0..plan.nodes {
            horizons.set(node, crew.next(node));
        }
        Ok(Run {
            crew,
            fabric: begun.fabric,
            captures: begun.captures,
            links: begun.links,
            horizons,
            turns: Vec::new(),
            recorder: begun.recorder,
            now: begun.now,
            begun_at: begun.now,
            closing: begun.closing,
            desk: None,
            checkpointer,
            viewer: Viewer::default(),
            typed: begun.typed,
            input: begun.input,
            rounds: begun.rounds,
        })
    }
}
