//! Stuck ranks and ended processes of a run.
//!
//! The analysis of calls belongs to the command, because the cluster does not depend on analyses. Called while a run is carried out.

use anyhow::Result;
use belljar_cluster::run::coordinator::{Ending, Run};
use belljar_cluster::run::stuck::StuckWatchFiles;
use belljar_trace::LOST_FILE;

use super::RunTask;
use crate::command::results::trace::hang::RankAnalysis;

impl RunTask<'_> {
    /// Looks for stuck ranks during the run, if it can be watched.
    pub(super) fn watch_ranks(&self, run: &mut Run, files: Option<StuckWatchFiles>) -> Result<()> {
        if let Some(files) = files {
            let watch = files.watch(&self.plan, &self.directory, Box::new(RankAnalysis))?;
            run.watch_for_stuck_ranks(watch);
        }
        Ok(())
    }

    /// Writes the processes that have ended before the run did, unless its workload ended; also if an earlier part of the run left such a
    /// file.
    pub(super) fn write_lost(&self, run: &mut Run, ending: &Ending) -> Result<()> {
        let is_over = matches!(ending, Ending::Workload(_));
        if !is_over || self.directory.path().join(LOST_FILE).exists() {
            let lost = serde_json::to_string(&run.lost_processes())?;
            self.directory.write(LOST_FILE, &lost)?;
        }
        Ok(())
    }
}
