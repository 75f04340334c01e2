//! Runs with their residuals, for replays in any setting.
//!
//! Calibrated with the packet model on the run's own network. Called by `simulate`, by models, and by runs with background jobs.

use std::path::Path;

use anyhow::{Result, bail};
use belljar_program::Program;
use belljar_replay::{Calibration, Costs, NetworkModel};
use belljar_sim::Frequency;

use super::{JobArguments, Model, Rescaled};

/// A traced run that is ready for replays in any setting.
pub(in crate::command) struct Calibrated {
    pub(in crate::command) program: Program,
    pub(in crate::command) calibration: Calibration,
    pub(in crate::command) costs: Costs,
    /// By process.
    pub(in crate::command) clocks: Vec<Frequency>,
    /// Its own work on another processor, if it was rescaled: that of the program and the calibration is.
    pub(in crate::command) rescaled: Option<Rescaled>,
    /// True if its messages took InfiniBand cards.
    pub(in crate::command) has_cards: bool,
}

impl Calibrated {
    /// The run in a directory, calibrated with the packet model on its own network.
    pub(in crate::command) fn of_run(directory: &Path) -> Result<Self> {
        Self::on_processor(directory, None)
    }

    /// The same with its own work on another processor, if one is given.
    pub(in crate::command) fn on_processor(
        directory: &Path,
        processor: Option<&str>,
    ) -> Result<Self> {
        let arguments = JobArguments::over(directory, Model::Packet).on_processor(processor);
        let job = arguments.job()?;
        let traced = job.traced()?;
        let rescaled = job.rescaled(&arguments)?;
        let calibration = belljar_replay::calibrate(&job.program, &traced)?;
        let (program, calibration) = match &rescaled {
            Some(found) => (
                job.program.with_work_scaled(found.factor),
                calibration.scaled(found.factor),
            ),
            None => (job.program, calibration),
        };
        Ok(Self {
            program,
            calibration,
            costs: traced.costs,
            clocks: traced.clocks,
            rescaled,
            has_cards: matches!(traced.network, NetworkModel::Infiniband(_)),
        })
    }

    /// Refuses a run without InfiniBand cards, for a machine with cards.
    ///
    /// # Errors
    /// If nodes of the run had no cards.
    pub(in crate::command) fn with_cards(&self, directory: &Path) -> Result<()> {
        if !self.has_cards {
            bail!(
                "{}: its nodes had no InfiniBand cards, and those of the machine have: name a run with [infiniband], or give the machine a [network]",
                directory.display()
            );
        }
        Ok(())
    }

    /// Refuses a run whose messages took InfiniBand cards; `whose` names where frames of Ethernet carry them.
    ///
    /// # Errors
    /// If nodes of the run had cards.
    pub(in crate::command) fn without_cards(&self, directory: &Path, whose: &str) -> Result<()> {
        if self.has_cards {
            bail!(
                "{}: its nodes had InfiniBand cards, and {whose} carry frames of Ethernet only: name a run without [infiniband]",
                directory.display()
            );
        }
        Ok(())
    }
}
