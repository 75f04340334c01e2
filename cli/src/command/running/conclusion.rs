//! The end of a run: completes its directory, or prints how to continue.
//!
//! A run is complete only if its workload ended. Called by the commands that carry out a run.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use belljar_cluster::results::run_directory::RunDirectory;
use belljar_cluster::run::checkpoint::{self, IntactCheckpoint};
use belljar_cluster::run::coordinator::Ending;
use belljar_cluster::run::summary::{HostSummary, Summary, render};

use crate::command::exit_code;
use crate::command::output::print;
use crate::command::results::report::deferred::DeferredReport;
use crate::command::results::trace;
use crate::command::terminal::colour::error_line;
use crate::command::terminal::interrupt::Interrupted;

/// Completes a finished run and prints its outcome; has `report` written, if any.
///
/// # Errors
/// If the run did not finish, or its directory cannot be completed.
pub(in crate::command) fn conclude(
    directory: RunDirectory,
    summary: &Summary,
    host: &HostSummary,
    ending: &Ending,
    report: Option<DeferredReport>,
    keeps_checkpoints: bool,
) -> Result<ExitCode> {
    directory.write("summary.json", &serde_json::to_string_pretty(summary)?)?;
    directory.write("host.json", &serde_json::to_string_pretty(host)?)?;
    match ending {
        Ending::Workload(code) => {
            // A complete run is never continued, so its checkpoints go unless the scenario keeps them.
            let no_more = (!keeps_checkpoints).then_some(checkpoint::FOLDER);
            let path = directory.complete(no_more)?;
            trace::print_statistics(&path)?;
            print(render(summary, host, &path))?;
            if let Some(Err(error)) = report.map(|report| report.write(&path)) {
                warning!("cannot write the report of this run: {error}");
            }
            tell_failure(*code, &summary.warnings);
            Ok(exit_code(*code))
        }
        Ending::Interrupted => {
            print(render(summary, host, directory.path()))?;
            Err(Interrupted(what_is_kept(directory.path())).into())
        }
        other => {
            print(render(summary, host, directory.path()))?;
            bail!("{}", explain(other, directory.path()));
        }
    }
}

/// Warns of a failed workload. It is no failure of the run, but must be visible.
fn tell_failure(code: i32, warnings: &[String]) {
    if code == 0 {
        return;
    }
    let cause = warnings
        .iter()
        .find(|warning| warning.contains("ran out of memory"));
    let cause = cause.map_or_else(String::new, |cause| format!("; {cause}"));
    let reason = format!(
        "the workload ended with exit code {code}, see stderr and console/node0.log{cause}"
    );
    error_line("error", Some(&reason));
}

/// Describes the files kept of an interrupted run, and how to continue it.
pub(in crate::command) fn what_is_kept(directory: &Path) -> String {
    let kept = format!("the records so far are in {}", directory.display());
    match IntactCheckpoint::newest(directory) {
        Ok(found) => format!(
            "{kept}; continue from {} with: belljar resume {}",
            found.describe(),
            directory.display()
        ),
        Err(_) => kept,
    }
}

fn explain(ending: &Ending, directory: &Path) -> String {
    let kept = what_is_kept(directory);
    match ending {
        Ending::NodeEnded { last_words, .. } => {
            format!(
                "{ending}; {kept}; the last lines of its console:\n{}",
                last_words.trim_end()
            )
        }
        Ending::Limit => format!(
            "{ending} before the workload ended{}; {kept}",
            stuck_ranks(
                directory,
                "; raise workload.limit, or see where its ranks are with"
            )
        ),
        Ending::Stuck(_) => format!(
            "{ending}; see all ranks with: belljar trace hang {}; {kept}",
            directory.display()
        ),
        Ending::Deadlock => format!(
            "{ending}: the workload hangs{}; {kept}",
            stuck_ranks(directory, "; see where its ranks are with")
        ),
        _ => format!("{ending}; {kept}"),
    }
}

/// Ranks that cannot go on, or `otherwise`, before the command that shows all ranks.
fn stuck_ranks(directory: &Path, otherwise: &str) -> String {
    let command = format!("belljar trace hang {}", directory.display());
    match trace::hang::verdict(directory) {
        Some(verdict) => format!(": {verdict}; see all ranks with: {command}"),
        None => format!("{otherwise}: {command}"),
    }
}
