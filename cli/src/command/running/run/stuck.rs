//! Stuck ranks and ended processes of a run.
//!
//! The analysis of calls belongs to the command, because the cluster does not depend on analyses. Called while a run is carried out.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result};
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::RunDirectory;
use belljar_cluster::run::coordinator::{Ending, Run};
use belljar_cluster::run::stuck::StuckWatchFiles;
use belljar_trace::LOST_FILE;

use crate::command::results::trace::hang::RankAnalysis;

/// Looks for stuck ranks during the run, if it can be watched.
pub(super) fn watch_ranks(
    plan: &Plan,
    directory: &RunDirectory,
    run: &mut Run,
    files: Option<StuckWatchFiles>,
) -> Result<()> {
    if let Some(files) = files {
        let watch = files.watch(plan, directory, Box::new(RankAnalysis))?;
        run.watch_for_stuck_ranks(watch);
    }
    Ok(())
}

/// Writes the processes that have ended before the run did, unless its workload ended well. Then removes the file of an earlier part
/// of the run.
pub(super) fn write_lost(directory: &RunDirectory, run: &mut Run, ending: &Ending) -> Result<()> {
    if let Ending::Workload(0) = ending {
        let path = directory.path().join(LOST_FILE);
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(()),
        };
    }
    let lost = serde_json::to_string(&run.lost_processes())?;
    Ok(directory.write(LOST_FILE, &lost)?)
}
