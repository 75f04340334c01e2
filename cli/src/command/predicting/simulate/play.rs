//! Simulation of one combination from its state to its end.
//!
//! The result does not depend on interruptions. Called by `simulate`.

use anyhow::{Context, Result};
use belljar_cli::mix::TrafficLevel;
use belljar_fabric::{Settings, Topology};
use belljar_networks::LinkLoad;
use belljar_replay::ContentionState;
use belljar_simulate::{AsLong, JobProgress, Machine, Simulated, Simulation, SimulationStep};

use super::PendingCombination;
use super::messages::{self, Messages};
use super::state::{CombinationState, Keeper};
use crate::command::terminal::watch::Watch;

/// The outcome of a combination, and at the level of messages the links' loads.
pub(super) type Outcome = (Simulated, Vec<LinkLoad>);

/// Jobs in progress whose state can be saved.
pub(super) trait Saved: JobProgress {
    /// All changing data that the simulation's own state lacks.
    fn save(&self) -> Option<ContentionState>;

    /// False if it has data that `save` lacks, so that an interrupted combination begins again.
    fn is_kept(&self) -> bool {
        true
    }
}

impl Saved for AsLong<'_> {
    fn save(&self) -> Option<ContentionState> {
        None
    }
}

/// Simulates a combination on its machine; `None` when stopped. `keeper` saves the states.
pub(super) fn play(
    wanted: &PendingCombination,
    topology: &Topology,
    settings: &Settings,
    keeper: Option<&mut Keeper<'_>>,
    watch: &Watch,
) -> Result<Option<Outcome>> {
    let policies = wanted.mix.policies(topology, settings)?;
    let snapshots = wanted.mix.snapshots();
    let machine = Machine {
        topology,
        slots: wanted.mix.ranks_per_host,
        snapshots: &snapshots,
    };
    let jobs = &wanted.jobs;
    let mut simulation = Simulation::new(machine, jobs, policies)?;
    let kept = keeper.as_ref().map(|keeper| keeper.kept()).transpose()?;
    let kept = kept.flatten().unwrap_or_default();
    let refused = || keeper.as_ref().map(|keeper| keeper.refused());
    let refused = refused().unwrap_or_default();
    if let Some(mix) = kept.mix {
        simulation.restore(mix).with_context(|| refused.clone())?;
    }
    match wanted.mix.level {
        TrafficLevel::Matrix => {
            let mut progress = AsLong::of(&simulation);
            let over = through(&mut simulation, &mut progress, keeper, watch)?;
            Ok(over.then(|| (simulation.finish(), Vec::new())))
        }
        TrafficLevel::Message => {
            let joined = messages::joined(jobs, &wanted.played);
            let network = (topology, settings);
            let (cards, model) = (wanted.cards.as_ref(), wanted.mix.model);
            let setting = messages::setting(jobs, &wanted.played, network, cards, model)?;
            let mut messages = Messages::new(&joined, &setting)?;
            if let Some(jobs) = kept.jobs {
                messages.restore(jobs).with_context(|| refused)?;
            }
            let over = through(&mut simulation, &mut messages, keeper, watch)?;
            Ok(over.then(|| (simulation.finish(), messages.links())))
        }
    }
}

/// Takes steps until the simulation ends or is stopped. Returns true if it ended.
fn through(
    simulation: &mut Simulation<'_>,
    progress: &mut dyn Saved,
    mut keeper: Option<&mut Keeper<'_>>,
    watch: &Watch,
) -> Result<bool> {
    loop {
        let stops = !watch.continues();
        if let Some(keeper) = &mut keeper
            && progress.is_kept()
            && (stops || keeper.is_due())
        {
            keeper.keep(&CombinationState {
                mix: Some(simulation.save()),
                jobs: progress.save(),
            })?;
        }
        if stops {
            return Ok(false);
        }
        if simulation.step(progress) == SimulationStep::Over {
            return Ok(true);
        }
    }
}
