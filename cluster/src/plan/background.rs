//! A scenario's background jobs, resolved: the jobs are read, and their hosts numbered.
//!
//! Hosts of background jobs follow the nodes, job by job in the scenario's order. Prepared jobs are read; traces are not needed
//! here. Called for a network, which needs only the number of hosts, and by `Plan::resolve`.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_files::{open_input, read_input};
use belljar_replay::{MOST_FILE_BYTES, PreparedError, PreparedJob};
use belljar_sim::Span;
use twox_hash::XxHash3_64;

use crate::scenario::{BackgroundTable, Scenario};

/// Maximum number of hosts of all background jobs.
const MOST_HOSTS: u64 = 1 << 20;

/// A job whose traffic shares the network with the nodes.
#[derive(Clone, Debug)]
pub struct BackgroundPlan {
    /// Its name.
    pub name: String,
    /// Its program and calibration.
    pub job: Arc<PreparedJob>,
    /// Hash that identifies the job.
    pub hash: u64,
    /// Its hosts, by their numbers in the network.
    pub hosts: Range<u32>,
    /// Its start, relative to the nodes' start.
    pub start: Span,
    /// Number of repetitions; until the run ends when absent.
    pub times: Option<u64>,
    /// Factor of its processors' work time.
    pub scale: f64,
}

/// Errors of a background job. Messages follow the word "background".
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
    /// Its file is invalid.
    #[error(".run: {path}: {source}")]
    Job {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Box<PreparedError>,
    },
    /// It is not prepared.
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
        /// The number of bytes.
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
        /// The value.
        value: String,
        /// The valid range.
        limits: &'static str,
    },
}

/// The number of hosts of a scenario's background jobs; paths are relative to `folder`.
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

/// The background jobs of a scenario; paths are relative to `folder`.
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
