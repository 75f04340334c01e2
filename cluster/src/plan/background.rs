//! A scenario's background jobs, resolved: what they do is read, and their hosts are numbered.
//!
//! Hosts of background jobs come after the nodes, job by job in the scenario's order. Jobs are read as they were prepared: traces are not looked at here. Called where
//! a network is built, which only needs their number, and by `Plan::resolve`.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_files::{open_input, read_input};
use belljar_replay::{MOST_FILE_BYTES, PreparedError, PreparedJob};
use belljar_sim::Span;
use twox_hash::XxHash3_64;

use crate::scenario::{BackgroundTable, Scenario};

/// Hosts of all background jobs together, at most.
const MOST_HOSTS: u64 = 1 << 20;

/// A job whose traffic shares the network with the nodes'.
#[derive(Clone, Debug)]
pub struct BackgroundPlan {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub job: Arc<PreparedJob>,
    /// Tells jobs apart.
    pub hash: u64,
    /// Its hosts, by their numbers in the network.
    pub hosts: Range<u32>,
    /// When it begins, after the nodes do.
    pub start: Span,
    /// How often it is played; until the run ends when absent.
    pub times: Option<u64>,
    /// What its processors' own work is multiplied by.
    pub scale: f64,
}

/// Why there cannot be such a background job. What it says follows the word "background".
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    /// Its file cannot be read.
    #[error(".run: cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It is none.
    #[error(".run: {path}: {source}")]
    Job {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<PreparedError>,
    },
    /// It was not prepared.
    #[error(
        ".run: {0} is a folder: run directories are prepared by the commands of belljar that take scenarios; start the run with one of them"
    )]
    Unprepared(PathBuf),
    /// A file is too large.
    #[error(
        ".run: {path} has {bytes} bytes, more than {MOST_FILE_BYTES}; take a shorter run, or fewer ranks"
    )]
    Large {
        /// The file.
        path: PathBuf,
        /// How many.
        bytes: u64,
    },
    /// Too many hosts.
    #[error(": the jobs need {0} hosts together, more than {MOST_HOSTS}")]
    Hosts(u64),
    /// A value out of its range.
    #[error(".{key} is {value}; it must be {limits}")]
    Range {
        /// The key.
        key: &'static str,
        /// What was written.
        value: String,
        /// What may be.
        limits: &'static str,
    },
}

/// How many hosts the background jobs of a scenario need together; its paths are relative to `folder`.
///
/// # Errors
/// See [`BackgroundError`].
pub(super) fn hosts(scenario: &Scenario, folder: &Path) -> Result<u32, BackgroundError> {
    let mut all: u64 = 0;
    for table in &scenario.background {
        check(table)?;
        let path = folder.join(&table.run);
        let file = open(&path)?;
        let (hosts, _) = PreparedJob::size_of(file).map_err(refused(&path))?;
        all += u64::from(hosts) * u64::from(table.copies);
    }
    match u32::try_from(all) {
        Ok(hosts) if all <= MOST_HOSTS => Ok(hosts),
        _ => Err(BackgroundError::Hosts(all)),
    }
}

/// The background jobs of a scenario; its paths are relative to `folder`.
///
/// # Errors
/// See [`BackgroundError`].
pub(super) fn resolve(
    scenario: &Scenario,
    folder: &Path,
) -> Result<Vec<BackgroundPlan>, BackgroundError> {
    let mut first = scenario.nodes.count();
    let mut plans = Vec::new();
    for table in &scenario.background {
        check(table)?;
        let path = folder.join(&table.run);
        let (job, hash) = read(&path)?;
        for copy in 0..table.copies {
            let hosts = first..first.saturating_add(job.hosts());
            first = hosts.end;
            plans.push(BackgroundPlan {
                name: name(table, copy),
                job: Arc::clone(&job),
                hash,
                hosts,
                start: table.start.map_or(Span::ZERO, |start| start.0),
                times: table.times,
                scale: table.compute_scale,
            });
        }
    }
    Ok(plans)
}

fn name(table: &BackgroundTable, copy: u32) -> String {
    match table.copies {
        1 => table.name(),
        _ => format!("{} {}", table.name(), copy + 1),
    }
}

fn check(table: &BackgroundTable) -> Result<(), BackgroundError> {
    let fail = |key, value: String, limits| Err(BackgroundError::Range { key, value, limits });
    if table.copies == 0 {
        return fail("copies", table.copies.to_string(), "1 or more");
    }
    if table.times == Some(0) {
        return fail("times", "0".to_owned(), "1 or more, or left out");
    }
    let scale = table.compute_scale;
    if !(scale > 0.0 && scale <= 1e6) {
        return fail(
            "compute-scale",
            scale.to_string(),
            "above 0, and 1000000 at most",
        );
    }
    Ok(())
}

fn open(path: &Path) -> Result<File, BackgroundError> {
    if path.is_dir() {
        return Err(BackgroundError::Unprepared(path.to_owned()));
    }
    open_input(path).map_err(unreadable(path))
}

fn read(path: &Path) -> Result<(Arc<PreparedJob>, u64), BackgroundError> {
    let bytes = open(path)?.metadata().map_err(unreadable(path))?.len();
    if bytes > MOST_FILE_BYTES {
        let path = path.to_owned();
        return Err(BackgroundError::Large { path, bytes });
    }
    let bytes = read_input(path).map_err(unreadable(path))?;
    let job = PreparedJob::from_bytes(&bytes).map_err(refused(path))?;
    Ok((Arc::new(job), XxHash3_64::oneshot(&bytes)))
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> BackgroundError {
    let path = path.to_owned();
    |source| BackgroundError::Read { path, source }
}

fn refused(path: &Path) -> impl FnOnce(PreparedError) -> BackgroundError {
    let path = path.to_owned();
    |source| BackgroundError::Job {
        path,
        source: Box::new(source),
    }
}
