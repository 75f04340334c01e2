//! `belljar runs`: an index of run directories.
//!
//! Reads each directory's summary; a damaged or missing one is named in its line. Called by `main`.
// The host's clock gives the ages; no result depends on them.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use belljar_analysis::{Table, time_words};
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_files::{Folder, open_input};
use belljar_sim::figures::count;
use belljar_trace::TRACE_FILE;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::command::output::{say, show};

/// The default folder of runs.
const RUNS: &str = "belljar-runs";
/// A file that marks completed runs.
const SUMMARY: &str = "summary.json";
/// A file that marks replays.
const REPLAY: &str = "replay.json";
/// A file that marks imported traces.
const IMPORT: &str = "import.json";
/// A file that marks generated runs.
const MODEL: &str = "model.txt";
/// Largest summary that is read, in bytes.
const MOST_BYTES: u64 = 64 << 20;

#[derive(Args)]
#[command(after_help = "Example: belljar runs results/hpl --json")]
pub(crate) struct RunsArguments {
    /// Folders of run directories, or run directories (default `belljar-runs`).
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The part of a summary that the index shows.
#[derive(Default, Deserialize)]
struct Summary {
    #[serde(default)]
    scenario: String,
    #[serde(default)]
    ending: String,
    exit_code: Option<i64>,
    #[serde(default)]
    virtual_time_ps: u64,
    #[serde(default)]
    mpi_calls: u64,
    #[serde(default)]
    warnings: Vec<String>,
}

/// A row of the index.
#[derive(Serialize)]
struct IndexedRun {
    directory: PathBuf,
    /// The scenario's name.
    name: String,
    kind: &'static str,
    outcome: String,
    virtual_time_ps: Option<u64>,
    mpi_calls: Option<u64>,
    warnings: usize,
    /// Seconds since the last write.
    age_s: u64,
}

/// `belljar runs`.
pub(crate) fn runs(arguments: &RunsArguments) -> Result<ExitCode> {
    let usual = [PathBuf::from(RUNS)];
    let folders = match arguments.folders.is_empty() {
        true => &usual[..],
        false => &arguments.folders,
    };
    let mut runs = Vec::new();
    for folder in folders {
        runs.extend(of_folder(folder)?);
    }
    runs.sort_by(|a, b| (a.age_s, &a.directory).cmp(&(b.age_s, &b.directory)));
    if arguments.json {
        say(serde_json::to_string_pretty(&json!(runs))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if runs.is_empty() {
        let names: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
        note!("no run directory in {}", names.join(", "));
        return Ok(ExitCode::SUCCESS);
    }
    let heads = [
        "directory",
        "name",
        "kind",
        "age",
        "virtual time",
        "calls",
        "outcome",
    ];
    let mut table = Table::new(heads);
    for run in &runs {
        let warned = match run.warnings {
            0 => String::new(),
            number => format!(
                ", {}",
                belljar_sim::figures::counted(number as u64, "warning")
            ),
        };
        table.row(vec![
            run.directory.display().to_string(),
            run.name.clone(),
            run.kind.to_owned(),
            age(run.age_s),
            run.virtual_time_ps.map_or_else(String::new, time_words),
            run.mpi_calls.map_or_else(String::new, count),
            format!("{}{warned}", run.outcome),
        ]);
    }
    show(|out| table.write(out))?;
    Ok(ExitCode::SUCCESS)
}

/// The run in a directory, or the runs in its folders.
fn of_folder(folder: &Path) -> Result<Vec<IndexedRun>> {
    if is_run(folder) {
        return Ok(vec![run(folder)]);
    }
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && folder == Path::new(RUNS) => {
            return Ok(Vec::new());
        }
        entries => entries.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths
        .filter(|path| is_run(path))
        .map(|path| run(&path))
        .collect())
}

/// True for directories of a run, a replay or an import.
pub(in crate::command) fn is_run(path: &Path) -> bool {
    path.is_dir()
        && [SUMMARY, SCENARIO_FILE, TRACE_FILE]
            .iter()
            .any(|name| path.join(name).is_file())
}

fn run(path: &Path) -> IndexedRun {
    let has = |name: &str| path.join(name).exists();
    let kind = match () {
        () if has(IMPORT) => "import",
        () if has(REPLAY) => "replay",
        () if has(MODEL) => "model",
        () => "run",
    };
    let summary = summary(path);
    let known = summary.as_ref().ok().and_then(Option::as_ref);
    let outcome = match &summary {
        Err(reason) => format!("{SUMMARY}: {reason}"),
        Ok(Some(summary)) => match summary.exit_code {
            None | Some(0) => summary.ending.clone(),
            Some(code) => format!("{}, exit code {code}", summary.ending),
        },
        Ok(None) if kind == "replay" => "replayed".to_owned(),
        Ok(None) if kind == "model" => "generated".to_owned(),
        Ok(None) if is_under_way(path) => "running".to_owned(),
        Ok(None) if has("checkpoint") => "broken off; belljar resume continues it".to_owned(),
        Ok(None) => "broken off".to_owned(),
    };
    let file = path.file_stem().unwrap_or(path.as_os_str());
    IndexedRun {
        directory: path.to_owned(),
        name: known
            .map(|known| known.scenario.clone())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| file.to_string_lossy().into_owned()),
        kind,
        outcome,
        virtual_time_ps: known.map(|known| known.virtual_time_ps),
        mpi_calls: known.map(|known| known.mpi_calls),
        warnings: known.map_or(0, |known| known.warnings.len()),
        age_s: written(path).as_secs(),
    }
}

/// The summary in a directory, if it exists, or the reason why it cannot be read.
fn summary(path: &Path) -> Result<Option<Summary>, String> {
    let file = match open_input(path.join(SUMMARY)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| error.to_string())?,
    };
    let mut text = String::new();
    let read = file.take(MOST_BYTES).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|_| "it is not a summary of a run".to_owned())
}

/// True if a process holds the directory's lock.
fn is_under_way(path: &Path) -> bool {
    Folder::open(path).is_ok_and(|folder| folder.file().try_lock_shared().is_err())
}

/// The time since the last write to the directory or its summary.
fn written(path: &Path) -> Duration {
    let files = [path.join(SUMMARY), path.join(TRACE_FILE), path.to_owned()];
    let times = files
        .iter()
        .filter_map(|file| fs::metadata(file).ok()?.modified().ok());
    let last = times.max().unwrap_or(SystemTime::UNIX_EPOCH);
    last.elapsed().unwrap_or_default()
}

fn age(seconds: u64) -> String {
    crate::command::setup::cache::age(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_listed_with_their_outcomes() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[(&str, &str)]| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            for (file, text) in files {
                fs::write(path.join(file), text).unwrap();
            }
        };
        let whole = r#"{"scenario": "hpl", "ending": "completed", "exit_code": 3, "virtual_time_ps": 5, "mpi_calls": 7, "warnings": ["w"]}"#;
        make("hpl", &[(SUMMARY, whole)]);
        make("cut.incomplete", &[(SCENARIO_FILE, "name = \"cut\"")]);
        make("damaged", &[(SUMMARY, "{")]);
        make("imported", &[(SUMMARY, "{}"), (IMPORT, "{}")]);
        make("other", &[("notes.txt", "")]);
        let mut runs = of_folder(folder.path()).unwrap();
        runs.sort_by(|a, b| a.directory.cmp(&b.directory));
        let told: Vec<_> = runs
            .iter()
            .map(|run| (&*run.name, run.kind, &*run.outcome))
            .collect();
        assert_eq!(
            told,
            [
                ("cut", "run", "broken off"),
                (
                    "damaged",
                    "run",
                    "summary.json: it is not a summary of a run"
                ),
                ("hpl", "run", "completed, exit code 3"),
                ("imported", "import", ""),
            ]
        );
        let hpl = of_folder(&folder.path().join("hpl")).unwrap();
        assert_eq!((hpl[0].mpi_calls, hpl[0].warnings), (Some(7), 1));
        assert!(of_folder(&folder.path().join("absent")).is_err());
    }
}
