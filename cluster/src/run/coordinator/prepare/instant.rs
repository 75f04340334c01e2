//! The state of a run between two rounds, in memory, from which it can continue any number of times.
//!
//! Pages are in temporary files without names; the rest is as in a checkpoint. Called by the timeline
//! of a debugger.

use std::fs::File;

use super::{restarts, restored_infiniband};
use belljar_fabric::{Fabric, FabricState};
use belljar_lossless::{Lossless, LosslessState};
use belljar_replay::BackgroundState;
use belljar_sim::Time;
use belljar_vmm::{KeptPages, Node, Packs, Snapshot};

use super::super::checkpoint::PageKeeper;
use super::{Begun, Captures, Setup};
use crate::host::sandbox::Sandbox;
use crate::plan::Plan;
use crate::plan::nodes::parts::SharedParts;
use crate::plan::nodes::template;
use crate::run::background::Backgrounds;
use crate::run::checkpoint::CheckpointError;
use crate::run::coordinator::Run;
use crate::run::ending::Closing;
use crate::run::error::RunError;
use crate::run::recorder::{Recorder, selection};
use crate::run::runner::{Runner, RunnerState};

/// A run between two rounds.
pub(crate) struct Instant {
    /// Every node has reached this time, and none has passed it.
    pub(crate) now: Time,
    rounds: u64,
    ready: u32,
    closing: Closing,
    fabric: FabricState,
    infiniband: Option<LosslessState>,
    backgrounds: Vec<BackgroundState>,
    nodes: Vec<(RunnerState, KeptPages)>,
}

/// A plan with everything from which its runs begin, and the pages of their instants.
pub(crate) struct Origin {
    pub(crate) plan: Plan,
    parts: SharedParts,
    bases: Vec<Snapshot>,
    threads: usize,
    sandbox: Option<Sandbox>,
    pages: PageKeeper,
    packs: Packs,
    number: u32,
}

impl Origin {
    /// Reads the parts of the nodes of `plan`, whose runs use `threads` host threads.
    ///
    /// # Errors
    /// If the image or a snapshot is unusable.
    pub(crate) fn load(
        plan: Plan,
        threads: usize,
        sandbox: Option<Sandbox>,
    ) -> Result<Self, RunError> {
        let parts = SharedParts::load(&plan)?;
        selection(&plan, 0).check()?;
        let bases = match plan.boot_each {
            true => Vec::new(),
            false => template::find_all(&plan, &parts, sandbox.as_ref())?,
        };
        let nodes = vec![KeptPages::default(); plan.nodes as usize];
        Ok(Self {
            plan,
            parts,
            bases,
            threads,
            sandbox,
            pages: PageKeeper::new(nodes),
            packs: Packs::default(),
            number: 0,
        })
    }

    fn setup(&self) -> Setup<'_> {
        Setup {
            plan: &self.plan,
            directory: None,
            threads: self.threads,
            sandbox: self.sandbox.as_ref(),
            checkpoints: None,
            exchange: None,
        }
    }

    /// A run at its start.
    ///
    /// # Errors
    /// See [`RunError`].
    pub(crate) fn begin(&mut self) -> Result<Run, RunError> {
        self.pages.nodes.fill(KeptPages::default());
        let mut begun = self.setup().begin(&self.parts, &self.bases)?;
        // Calls stay with the nodes, for the timeline.
        begun.recorder = Recorder::relay(&self.plan, false);
        self.assemble(begun)
    }

    fn assemble(&self, begun: Begun) -> Result<Run, RunError> {
        let unused = |_, _: &_| unreachable!("a run without a directory has no checkpoints");
        self.setup().assemble(begun, unused)
    }

    /// Saves the state of `run`, all of whose nodes have reached `now`.
    ///
    /// # Errors
    /// If pages cannot be written, or the state is too large.
    pub(crate) fn save(&mut self, run: &mut Run, now: Time) -> Result<Instant, RunError> {
        let written = |source| {
            RunError::from(CheckpointError::Io {
                action: "write the pages of",
                path: std::env::temp_dir(),
                source,
            })
        };
        self.number += 1;
        let file = tempfile::tempfile().map_err(written)?;
        let write = self.pages.write(&run.workers, self.number, file);
        let (_, file): (u64, File) = write.map_err(written)?;
        self.packs.add(self.number, file);
        let mut nodes = Vec::new();
        for (mut runner, kept) in run.workers.runners().zip(&self.pages.nodes) {
            let state = runner.save().map_err(CheckpointError::from)?;
            nodes.push((state, kept.clone()));
        }
        Ok(Instant {
            now,
            rounds: run.rounds,
            ready: run.ready,
            closing: run.closing.clone(),
            fabric: run.fabric.save(),
            infiniband: run.infiniband.as_ref().map(Lossless::save),
            backgrounds: run.backgrounds.save(),
            nodes,
        })
    }

    /// A run that continues from `instant`.
    ///
    /// # Errors
    /// If the host refuses memory or files.
    pub(crate) fn restore(&mut self, instant: &Instant) -> Result<Run, RunError> {
        // The next instant is saved relative to this one.
        let kept = instant.nodes.iter().map(|(_, kept)| kept.clone());
        self.pages.nodes = kept.collect();
        let plan = &self.plan;
        let mut fabric = Fabric::with_settings(plan.topology.clone(), &plan.network)?;
        let restored = fabric.restore(instant.fabric.clone());
        restored.map_err(CheckpointError::from)?;
        let mut backgrounds = Backgrounds::begin(plan, Time::ZERO)?;
        let restored = backgrounds.restore(instant.backgrounds.clone());
        restored.map_err(CheckpointError::from)?;
        let nodes = (0..).zip(&instant.nodes);
        let runners = nodes.map(|(index, (state, kept))| self.runner(index, state, kept));
        let begun = Begun {
            runners: runners.collect::<Result<_, _>>()?,
            fabric,
            infiniband: restored_infiniband(plan, instant.infiniband.as_ref())?,
            stuck: None,
            backgrounds,
            captures: Captures::default(),
            links: None,
            recorder: Recorder::relay(plan, false),
            closing: instant.closing.clone(),
            now: instant.now,
            first: instant.now,
            typed: 0,
            input: 0,
            rounds: instant.rounds,
            ready: instant.ready,
            pages: Vec::new(),
            lengths: None,
            kept_code: self.parts.kept_code(),
        };
        self.assemble(begun)
    }

    fn runner(
        &self,
        index: u32,
        state: &RunnerState,
        kept: &KeptPages,
    ) -> Result<Runner, RunError> {
        let plan = &self.plan;
        let failed = |source| RunError::Node {
            node: index,
            source,
        };
        let ram = match self.bases.get(plan.kind_number(index)) {
            Some(base) => base.ram().map_err(|error| failed(error.into()))?,
            None => Node::blank_ram(plan.kind_of(index).memory).map_err(failed)?,
        };
        let put = kept.restore(&ram, &self.packs);
        put.map_err(|source| CheckpointError::Pages {
            node: index,
            source,
        })?;
        let node = self.parts.restored(plan, index, ram, &state.node);
        let selection = plan.trace.enabled.then(|| selection(plan, index));
        let tracer = state.tracer(index, selection.as_ref());
        let tracer = tracer.map_err(CheckpointError::from)?;
        let mut node = node.map_err(failed)?;
        node.be_absent(&plan.absences_of(index, state.restarted()));
        node.set_commands(&plan.commands_of(index), Time::ZERO);
        let runner = Runner::resume(index, node, tracer, None, state.clone());
        let mut runner = runner.map_err(CheckpointError::from)?;
        runner.begin_calls(plan, &self.parts);
        let (bases, restarted) = (&self.bases, state.restarted());
        runner.will_restart(restarts(plan, &self.parts, bases, index, restarted)?);
        Ok(runner)
    }

    /// Deletes the pages of no instant in `kept`.
    pub(crate) fn forget_but<'a>(&mut self, kept: impl Iterator<Item = &'a Instant>) {
        let mut used = self.pages.used();
        for (_, pages) in kept.flat_map(|instant| &instant.nodes) {
            pages.count(&mut used);
        }
        self.packs.retain(&used);
    }
}
