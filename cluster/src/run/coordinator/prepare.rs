//! Construction of a run: from the start, or from a checkpoint.
//!
//! All checks precede the first change of the run directory. Both ways give a [`Run`]. Called by `belljar run`,
//! by agents and by `belljar bisect`.

use belljar_fabric::Fabric;
use belljar_lossless::{Lossless, LosslessState};
use belljar_sim::{Seed, Time};
use belljar_tracer::NodeTracer;
use belljar_vmm::{KeptPages, Node, Snapshot};

use super::restored::{Restored, RestoredNode};
use super::{Checkpointer, Checkpoints, Run, RunError};
use crate::host::sandbox::Sandbox;
use crate::hosts::Exchange;
use crate::observe::control::INPUT_FILE;
use crate::plan::Plan;
use crate::plan::nodes::kept_code::KeptCode;
use crate::plan::nodes::parts::SharedParts;
use crate::plan::nodes::template;
use crate::results::capture::Captures;
use crate::results::link_log::LinkLog;
use crate::results::run_directory::RunDirectory;
use crate::results::stream::{PROFILE_FOLDER, Stream};
use crate::run::background::Backgrounds;
use crate::run::checkpoint::{
    CheckpointChoice, CheckpointError, IntactCheckpoint, identity, read_input,
};
use crate::run::ending::Closing;
use crate::run::recorder::{Recorder, selection};
use crate::run::runner::{KeepError, Lengths, Logs, Runner};
use crate::run::stuck::StuckState;

/// Assembly of a run from prepared nodes.
mod assembly;
/// The state of a run between two rounds, in memory.
pub(crate) mod instant;
/// Nodes that take the place of ones that lose power.
mod restarts;

pub(super) use restarts::restarts;

/// Open files of a run besides its nodes' consoles, with a margin.
const SPARE_FILES: u64 = 1024;

/// The parts of a run.
pub struct Setup<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The run directory; `None` if another host has it.
    pub directory: Option<&'a RunDirectory>,
    /// Host threads.
    pub threads: usize,
    /// The sandbox of threads that run guests, except the caller's thread. With it the process can start no
    /// programs and open no connections.
    pub sandbox: Option<&'a Sandbox>,
    /// Settings of checkpoints, if any.
    pub checkpoints: Option<Checkpoints>,
    /// This host's part, if there are several.
    pub exchange: Option<Exchange>,
}

/// The differences between a new run and a resumed one.
struct Begun {
    runners: Vec<Runner>,
    fabric: Fabric,
    infiniband: Option<Lossless>,
    /// Of a resumed run: the state of its watch for stuck ranks.
    stuck: Option<StuckState>,
    backgrounds: Backgrounds,
    captures: Captures,
    links: Option<LinkLog>,
    recorder: Recorder,
    closing: Closing,
    now: Time,
    /// No node acts before this: clones begin at the time of their snapshot.
    first: Time,
    typed: u64,
    input: u64,
    rounds: u64,
    ready: u32,
    /// The nodes' saved pages, if another host stores checkpoints.
    pages: Vec<KeptPages>,
    /// The lengths of all nodes' outputs, in a resumed run.
    lengths: Option<Vec<Lengths>>,
    kept_code: KeptCode,
}

/// Parts of the nodes of a plan that several runs can share: image, disks and translated code.
pub struct NodeParts(SharedParts);

impl NodeParts {
    /// Reads the parts of the nodes of `plan`.
    ///
    /// # Errors
    /// If the image or a file of the workload is unusable.
    pub fn load(plan: &Plan) -> Result<Self, RunError> {
        Ok(Self(SharedParts::load(plan)?))
    }

    /// Writes the translated code for later runs.
    pub fn keep_code(&self) {
        self.0.kept_code().write();
    }
}

impl Run {
    /// Builds all nodes and opens all files.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn prepare(setup: Setup<'_>) -> Result<Self, RunError> {
        let plan = setup.plan;
        let parts = SharedParts::load(plan)?;
        selection(plan, 0).check()?;
        let bases = if plan.boot_each {
            Vec::new()
        } else {
            template::find_all(plan, &parts, setup.sandbox)?
        };
        let begun = setup.begin(&parts, &bases)?;
        let identity = identity(plan, parts.disk_hashes);
        setup.assemble(begun, |checkpoints, folder| {
            Checkpointer::new(
                Default::default(),
                checkpoints,
                folder,
                plan,
                identity,
                bases,
            )
        })
    }

    /// Continues from the newest intact checkpoint of `choice`, and truncates the files of the run directory to
    /// their lengths then. Also returns the checkpoint's description.
    ///
    /// # Errors
    /// See [`RunError`]; errors of compatibility and damage come before any file is changed.
    pub fn resume(
        setup: Setup<'_>,
        choice: &mut CheckpointChoice,
    ) -> Result<(Self, String), RunError> {
        let parts = NodeParts::load(setup.plan)?;
        Self::resume_with(setup, choice, &parts)
    }

    /// As [`resume`](Self::resume), with nodes of `parts`, which are those of the setup's plan or of one that differs in delays and limits alone.
    ///
    /// # Errors
    /// As `resume`.
    pub fn resume_with(
        setup: Setup<'_>,
        choice: &mut CheckpointChoice,
        parts: &NodeParts,
    ) -> Result<(Self, String), RunError> {
        let (plan, NodeParts(parts)) = (setup.plan, parts);
        selection(plan, 0).check()?;
        setup.allow_files();
        let restored = setup.restore(parts, choice)?;
        let (found, kept, begun) = setup.go_on(parts, restored)?;
        let found = &found;
        let mut typed = (Vec::new(), 0);
        if let Some(directory) = setup.directory {
            let input = directory.path().join(INPUT_FILE);
            typed = read_input(&input, found.run.input).map_err(RunError::Input)?;
            if typed.1 > 0 {
                directory.resume_file(INPUT_FILE, typed.1)?;
            }
        }
        let (pieces, end) = typed;
        let mut run = setup.assemble(begun, |checkpoints, folder| {
            Checkpointer::resume(checkpoints, folder, plan, found, kept)
        })?;
        for (at, node, bytes) in pieces {
            if run.workers.holds(node) {
                run.workers.type_in(node, at, bytes);
                run.bounds.set(node, run.workers.next(node));
                run.typed += 1;
            }
        }
        run.input = end;
        Ok((run, found.describe()))
    }
}

/// The network of InfiniBand cards at a saved state, if nodes have them.
pub(super) fn restored_infiniband(
    plan: &Plan,
    state: Option<&LosslessState>,
) -> Result<Option<Lossless>, RunError> {
    let mut network = infiniband_of(plan)?;
    if let (Some(network), Some(state)) = (&mut network, state) {
        let restored = network.restore(state.clone());
        restored.map_err(CheckpointError::from)?;
    }
    Ok(network)
}

/// The network of InfiniBand cards at time zero, if nodes have them.
fn infiniband_of(plan: &Plan) -> Result<Option<Lossless>, RunError> {
    let network = plan.infiniband.as_ref().map(|it| it.network());
    Ok(network.transpose()?)
}

impl Setup<'_> {
    /// The start at virtual time zero.
    fn begin(&self, parts: &SharedParts, bases: &[Snapshot]) -> Result<Begun, RunError> {
        let plan = self.plan;
        let mut fabric = Fabric::with_settings(plan.topology.clone(), &plan.network)?;
        self.allow_files();
        if let (Some(directory), Some(_)) = (self.directory, plan.profile) {
            directory.folder(PROFILE_FOLDER)?;
        }
        let (first, told) = self.beginning(parts, bases)?;
        let own = self.own_nodes().into_iter();
        let runners = own.map(|index| self.begin_node(parts, bases, index, told));
        let runners = runners.collect::<Result<Vec<_>, _>>()?;
        let (captures, links, recorder) = match self.directory {
            Some(directory) => (
                Captures::start(directory, &mut fabric, &plan.pcap)?,
                LinkLog::start(plan.network.statistics, &plan.topology, directory)?,
                Recorder::create(plan, directory)?,
            ),
            None => {
                let relay = Recorder::relay(plan, plan.trace.enabled);
                (Captures::default(), None, relay)
            }
        };
        Ok(Begun {
            backgrounds: Backgrounds::begin(plan, first)?,
            runners,
            captures,
            links,
            recorder,
            closing: Closing::at_limit(plan.limit, plan.has_slices().then_some(plan.slice)),
            infiniband: infiniband_of(plan)?,
            stuck: None,
            fabric,
            now: Time::ZERO,
            first,
            typed: 0,
            input: 0,
            rounds: 0,
            ready: 0,
            pages: Vec::new(),
            lengths: None,
            kept_code: parts.kept_code(),
        })
    }

    /// The time of the first action of any node, and the time at which clones get their identities. The latter
    /// is the end of the longest boot, so that no node waits longer for others than in a run of equal nodes.
    /// Both are the same on every host, also on one without nodes.
    fn beginning(&self, parts: &SharedParts, bases: &[Snapshot]) -> Result<(Time, Time), RunError> {
        if bases.is_empty() {
            return Ok((Time::ZERO, Time::ZERO));
        }
        let kinds = self.plan.kinds().iter();
        let times = kinds.map(|kind| Ok(self.new_node(parts, bases, kind.first)?.now()));
        let times = times.collect::<Result<Vec<Time>, RunError>>()?;
        let (first, last) = (times.iter().min(), times.iter().max());
        Ok((*first.unwrap_or(&Time::ZERO), *last.unwrap_or(&Time::ZERO)))
    }

    fn new_node(
        &self,
        parts: &SharedParts,
        bases: &[Snapshot],
        index: u32,
    ) -> Result<Node, RunError> {
        let node = match bases.get(self.plan.kind_number(index)) {
            Some(snapshot) => parts.clone_of(snapshot, self.plan, index),
            None => parts.node(self.plan, index),
        };
        node.map_err(|source| RunError::Node {
            node: index,
            source,
        })
    }

    fn begin_node(
        &self,
        parts: &SharedParts,
        bases: &[Snapshot],
        index: u32,
        told: Time,
    ) -> Result<Runner, RunError> {
        let plan = self.plan;
        let mut node = self.new_node(parts, bases, index)?;
        if !bases.is_empty() {
            parts.tell_identity(plan, (index, 0), &mut node, told);
        }
        let noise = plan.noise_of(index);
        if !noise.is_empty() {
            node.begin_noise(&noise, Seed(plan.seed), index.into(), told);
        }
        node.be_absent(&plan.absences_of(index, 0));
        node.set_commands(&plan.commands_of(index), told);
        let tracer = || NodeTracer::new(index, &selection(plan, index));
        let tracer = plan.trace.enabled.then(tracer);
        let logs = Logs::begin(index, plan.profile.is_some(), self.directory)?;
        let mut runner = Runner::new(index, node, tracer, logs);
        runner.begin_calls(plan, parts);
        runner.will_restart(restarts(plan, parts, bases, index, 0)?);
        let profile = plan.profile.zip(parts.of_node(plan, index).code.clone());
        if let Some((profile, files)) = profile {
            let bytes = runner.begin_profile(profile, files);
            let written = runner.logs.write(Stream::Profile, &bytes);
            written.map_err(|source| RunError::Console {
                node: index,
                source,
            })?;
        }
        if let Some(snapshot) = bases.get(plan.kind_number(index)) {
            let logged = runner.log(snapshot.boot_log());
            logged.map_err(|source| RunError::Console {
                node: index,
                source,
            })?;
        }
        Ok(runner)
    }

    /// The state at a checkpoint, with the pages of this host's nodes. From here on files of the run directory
    /// are changed.
    fn go_on(
        &self,
        parts: &SharedParts,
        restored: Restored,
    ) -> Result<(IntactCheckpoint, Vec<KeptPages>, Begun), RunError> {
        let (plan, directory) = (self.plan, self.directory);
        let Restored {
            found,
            mut fabric,
            infiniband,
            backgrounds,
            nodes,
            kept,
            lengths,
            restarts,
        } = restored;
        let of = &found.run;
        let own = self.own_nodes().into_iter().zip(nodes);
        let runners = own.map(|(index, restored)| {
            let RestoredNode {
                node,
                tracer,
                state,
            } = restored;
            let profile = plan.profile.zip(parts.of_node(plan, index).code.clone());
            let profile = profile.zip(state.profile());
            let mut runner = Runner::resume(index, node, tracer, directory, state)?;
            if let Some(((profile, files), saved)) = profile {
                runner.resume_profile(profile, files, saved)?;
            }
            Ok(runner)
        });
        let runners = runners.collect::<Result<Vec<_>, KeepError>>();
        let mut runners = runners.map_err(CheckpointError::from)?;
        for (runner, restarts) in runners.iter_mut().zip(restarts) {
            runner.begin_calls(plan, parts);
            runner.will_restart(restarts);
        }
        let (captures, links, recorder) = match directory {
            Some(directory) => (
                Captures::resume(directory, &mut fabric, &plan.pcap, of.captures.clone())?,
                LinkLog::resume(plan.network.statistics, &plan.topology, directory, of.links)?,
                Recorder::resume(plan, directory, &of.recorder)?,
            ),
            None => {
                let relay = Recorder::relay(plan, plan.trace.enabled);
                (Captures::default(), None, relay)
            }
        };
        let ready = runners.iter().filter(|runner| runner.ready.is_some());
        let begun = Begun {
            ready: ready.count() as u32,
            pages: if directory.is_some() {
                Vec::new()
            } else {
                kept.clone()
            },
            lengths: Some(lengths),
            kept_code: parts.kept_code(),
            runners,
            backgrounds,
            captures,
            links,
            recorder,
            closing: of.closing.clone().with_limit(plan.limit),
            fabric,
            infiniband,
            stuck: of.stuck.clone(),
            now: of.now,
            first: of.now,
            typed: of.typed,
            input: of.input,
            rounds: of.rounds,
        };
        Ok((found, kept, begun))
    }
}
