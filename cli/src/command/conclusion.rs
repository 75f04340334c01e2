//! How a run ends for the one who started it: its directory gets its name, or the way to continue is told.
//!
//! Only a run whose workload ended is complete. Called by the commands that carry out a run.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use belljar_cluster::results::run_directory::RunDirectory;
use belljar_cluster::run::checkpoint::{self, Found};
use belljar_cluster::run::coordinator::Ending;
use belljar_cluster::run::summary::{HostSummary, Summary, render};
use belljar_report::Detail;

use super::output::{print, say};
use super::terminal::colour::error_line;
use super::terminal::interrupt::Interrupted;
use super::{exit_code, report, trace};

/// Completes a run that came to its end, and tells how it ended; with a `report` if that is wanted.
///
/// # Errors
/// When the run did not come to an end of its own, or its directory can't be completed.
pub(super) fn conclude(
    directory: RunDirectory,
    summary: &Summary,
    host: &HostSummary,
    ending: &Ending,
    report: bool,
) -> Result<ExitCode> {
    directory.write("summary.json", &serde_json::to_string_pretty(summary)?)?;
    directory.write("host.json", &serde_json::to_string_pretty(host)?)?;
    match ending {
        Ending::Workload(code) => {
            // Nobody continues a run that is whole.
            let path = directory.complete(checkpoint::FOLDER)?;
            trace::print_statistics(&path)?;
            print(render(summary, host, &path))?;
            if report {
                tell_report(&path)?;
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

/// Makes the report of a run. One that cannot be made is no failure of the run.
fn tell_report(directory: &Path) -> Result<()> {
    let path = directory.join(report::REPORT_FILE);
    match report::make(directory, None, Detail::default(), &path) {
        Ok(()) => say(format_args!("report: {}", path.display())),
        Err(error) => {
            warning!("there is no report of this run: {error:#}");
            Ok(())
        }
    }
}

/// A workload that failed is no failure of the run, but nobody should overlook it.
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

/// What is left of a run that was broken off, and how it can be continued.
pub(super) fn what_is_kept(directory: &Path) -> String {
    let kept = format!("what was recorded is kept in {}", directory.display());
    match Found::newest(directory) {
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
        Ending::Limit => {
            format!(
                "{ending} before the workload ended; raise workload.limit, or see the consoles for why it hangs; {kept}"
            )
        }
        Ending::Deadlock => format!("{ending}: the workload hangs; see the consoles; {kept}"),
        _ => format!("{ending}; {kept}"),
    }
}
