//! Networks without a run: those of replays and simulations.
//!
//! Called by commands that have no use for images.

use std::path::Path;

use belljar_fabric::{Settings, Topology};

use super::{NetworkPlan, describe};
use crate::plan::error::PlanError;
use crate::plan::infiniband::InfinibandPlan;
use crate::plan::{Plan, limits};
use crate::scenario::Scenario;

impl Plan {
    /// The network of `scenario`, which was read from `path`, and its settings.
    ///
    /// # Errors
    /// If it is invalid: see [`PlanError`].
    pub fn network_of(scenario: &Scenario, path: &Path) -> Result<(Topology, Settings), PlanError> {
        limits::check(scenario)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let network = NetworkPlan::resolve(scenario, folder)?;
        Ok((network.topology, network.settings))
    }

    /// The network of the InfiniBand cards of `scenario`, which was read from `path`; `None` without cards.
    ///
    /// # Errors
    /// If it is invalid: see [`PlanError`].
    pub fn infiniband_of(
        scenario: &Scenario,
        path: &Path,
    ) -> Result<Option<InfinibandPlan>, PlanError> {
        limits::check(scenario)?;
        InfinibandPlan::of_network(scenario, path.parent().unwrap_or(Path::new(".")))
    }

    /// The network of a simulated machine, with more nodes than a run may have.
    ///
    /// # Errors
    /// If it is invalid: see [`PlanError`].
    pub fn machine_of(scenario: &Scenario, path: &Path) -> Result<(Topology, Settings), PlanError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let network = NetworkPlan::resolve(scenario, folder)?;
        Ok((network.topology, network.settings))
    }

    /// The lines of a plan about a scenario's network.
    ///
    /// # Errors
    /// If it is invalid: see [`PlanError`].
    pub fn network_text(scenario: &Scenario, path: &Path) -> Result<String, PlanError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let network = NetworkPlan::resolve(scenario, folder)?;
        let warnings = network.warnings()?;
        let mut text = describe(
            &network.words,
            &network.topology,
            &network.settings,
            &warnings,
        );
        if let Some(cards) = InfinibandPlan::of_network(scenario, folder)? {
            text.push_str(&cards.line());
        }
        Ok(text)
    }
}
