//! A run restored from a checkpoint, without changes of its directory.
//!
//! All damage of a checkpoint is detected here: memory is filled from packs, nodes, tracers and
//! network are restored, and the run's files are checked. Only then the run truncates its files and
//! continues; otherwise the previous checkpoint is tried (`CheckpointChoice`).

use super::prepare::{restarts, restored_infiniband};
use belljar_fabric::Fabric;
use belljar_lossless::Lossless;
use belljar_sim::Time;
use belljar_tracer::NodeTracer;
use belljar_vmm::{KeptPages, Node, NodeError};

use super::{RunError, Setup};
use crate::plan::nodes::parts::SharedParts;
use crate::results::capture::Captures;
use crate::run::background::Backgrounds;
use crate::run::checkpoint::{CheckpointChoice, CheckpointError, IntactCheckpoint, identity};
use crate::run::recorder::selection;
use crate::run::runner::{KeepError, Lengths, Restart, RunnerState};

/// The state of a run at a checkpoint.
pub(super) struct Restored {
    pub(super) found: IntactCheckpoint,
    pub(super) fabric: Fabric,
    pub(super) infiniband: Option<Lossless>,
    pub(super) backgrounds: Backgrounds,
    /// The nodes of this host.
    pub(super) nodes: Vec<RestoredNode>,
    /// Their pages.
    pub(super) kept: Vec<KeptPages>,
    /// The lengths of all nodes' outputs.
    pub(super) lengths: Vec<Lengths>,
    /// The nodes that take the place of those of this host.
    pub(super) restarts: Vec<Vec<Restart>>,
}

/// A node restored from a checkpoint, with its tracer and the state of its runner.
pub(super) struct RestoredNode {
    pub(super) node: Node,
    pub(super) tracer: Option<NodeTracer>,
    pub(super) state: RunnerState,
}

impl Setup<'_> {
    /// Restores the newest intact checkpoint of `choice`.
    ///
    /// # Errors
    /// If there is none, if they do not fit the plan, or if the host fails.
    pub(super) fn restore(
        &self,
        parts: &SharedParts,
        choice: &mut CheckpointChoice,
    ) -> Result<Restored, RunError> {
        let identity = identity(self.plan, parts.disk_hashes);
        loop {
            let found = choice.next()?;
            found.check(&identity)?;
            let number = found.run.number;
            if let Some(Err(why)) = self.directory.map(|directory| found.look(directory)) {
                choice.refuse(number, &why);
                continue;
            }
            match self.restore_from(parts, found) {
                Err(why) if is_damage(&why) => choice.refuse(number, &why.to_string()),
                Ok(restored) => {
                    let clocks = restored.nodes.iter().map(|of| of.node.now());
                    let reach = clocks.fold(restored.found.run.now, Time::max);
                    restored.found.check_delays(&identity, reach)?;
                    return Ok(restored);
                }
                Err(why) => return Err(why),
            }
        }
    }

    fn restore_from(
        &self,
        parts: &SharedParts,
        found: IntactCheckpoint,
    ) -> Result<Restored, RunError> {
        let plan = self.plan;
        let mut fabric = Fabric::with_settings(plan.topology.clone(), &plan.network)?;
        fabric
            .restore(found.run.fabric.clone())
            .map_err(CheckpointError::from)?;
        let infiniband = restored_infiniband(plan, found.run.infiniband.as_ref())?;
        let mut backgrounds = Backgrounds::begin(plan, Time::ZERO)?;
        backgrounds
            .restore(found.run.backgrounds.clone())
            .map_err(CheckpointError::from)?;
        if self.directory.is_some() {
            Captures::check(&fabric, &plan.pcap, &found.run.captures)?;
        }
        let own = self.own_nodes();
        let (mut nodes, mut kept, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        let mut all_restarts = Vec::new();
        for index in 0..plan.nodes {
            let record = found.node(index)?;
            lengths.push(record.runner.lengths);
            if own.binary_search(&index).is_err() {
                continue;
            }
            let kind = plan.kind_number(index);
            let bytes = plan.kind_of(index).memory;
            let ram = found.ram(index, kind, &record, bytes)?;
            let node = parts.restored(plan, index, ram, &record.runner.node);
            let restarted = record.runner.restarted();
            let ahead = restarts(plan, parts, &found.bases, index, restarted)?;
            all_restarts.push(ahead);
            let node = node.map(|mut node| {
                node.be_absent(&plan.absences_of(index, restarted));
                node.set_commands(&plan.commands_of(index), Time::ZERO);
                node
            });
            let failed = |source| RunError::Node {
                node: index,
                source,
            };
            let selection = plan.trace.enabled.then(|| selection(plan, index));
            let tracer = record.runner.tracer(index, selection.as_ref());
            nodes.push(RestoredNode {
                node: node.map_err(failed)?,
                tracer: tracer.map_err(CheckpointError::from)?,
                state: record.runner,
            });
            kept.push(record.pages.into_owned());
        }
        Ok(Restored {
            found,
            fabric,
            infiniband,
            backgrounds,
            nodes,
            kept,
            lengths,
            restarts: all_restarts,
        })
    }
}

/// True if the checkpoint is damaged; false for errors of this host.
fn is_damage(error: &RunError) -> bool {
    match error {
        RunError::Node { source, .. } => matches!(source, NodeError::State(_)),
        RunError::Checkpoint(error) => matches!(
            error,
            CheckpointError::Pages { .. }
                | CheckpointError::Network(_)
                | CheckpointError::Background(_)
                | CheckpointError::Codec(_)
                | CheckpointError::Node(KeepError::Tracer { .. })
        ),
        _ => false,
    }
}
