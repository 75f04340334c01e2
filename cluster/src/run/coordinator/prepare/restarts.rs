//! Nodes that take the place of ones that lose power, made before the run.
//!
//! Threads that run guests can open no files, so the clones of the boot's snapshots exist from the start. They share the snapshot's memory
//! until they execute. Called by all ways to begin or continue a run.

use belljar_sim::{Seed, Time};
use belljar_vmm::Snapshot;

use crate::plan::Plan;
use crate::plan::nodes::parts::SharedParts;
use crate::run::error::RunError;
use crate::run::runner::Restart;

/// The nodes that take the place of node `index` of `plan`, which has restarted `restarted` times so far.
///
/// # Errors
/// If the host refuses memory or files.
pub(in super::super) fn restarts(
    plan: &Plan,
    parts: &SharedParts,
    bases: &[Snapshot],
    index: u32,
    restarted: usize,
) -> Result<Vec<Restart>, RunError> {
    let Some(base) = bases.get(plan.kind_number(index)) else {
        return Ok(Vec::new());
    };
    let ahead = plan.restarts_of(index).into_iter().zip(1..);
    let ahead = ahead.skip(restarted);
    let restarts =
        ahead.map(|(loss, number)| restart(plan, parts, base, index, (number, loss.until)));
    restarts.collect()
}

/// The node of start number `number` of node `index`, from 1, at `at`.
fn restart(
    plan: &Plan,
    parts: &SharedParts,
    base: &Snapshot,
    index: u32,
    (number, at): (u32, Time),
) -> Result<Restart, RunError> {
    let failed = |source| RunError::Node {
        node: index,
        source,
    };
    let mut node = parts.clone_of(base, plan, index).map_err(failed)?;
    // The clone cannot start before the time of its snapshot.
    let at = at.max(node.now());
    parts.tell_identity(plan, (index, number), &mut node, at);
    let noise = plan.noise_of(index);
    if !noise.is_empty() {
        node.begin_noise(&noise, Seed(plan.seed), index.into(), at);
    }
    node.be_absent(&plan.absences_of(index, number as usize));
    node.set_commands(&plan.commands_of(index), at);
    if let Some(probes) = parts
        .of_node(plan, index)
        .probes
        .as_ref()
        .filter(|_| plan.trace.enabled)
    {
        node.set_probes(&probes.probes);
    }
    Ok(Restart {
        at,
        node,
        boot_log: base.boot_log().into(),
    })
}
