//! Run directories that scenarios play in the background, prepared.
//!
//! A prepared job is kept in the user's cache under a digest of its inputs, so that later runs of the scenario reuse it. Called
//! by commands that read scenarios.

use std::collections::BTreeMap;
use std::fs::{self};
use std::hash::Hasher;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::{Scenario, Standalone, job_name};
use belljar_files::{open_input, read_input, write_file};
use belljar_images::user_folder;
use belljar_replay::PreparedJob;
use belljar_trace::TRACE_FILE;
use twox_hash::XxHash3_64;

use crate::command::predicting::replay::job::Calibrated;
use crate::command::results::trace::tables::tables_of_run;

/// The folder of the user's cache.
const FOLDER: &str = "jobs";

/// Prepares the background jobs of a scenario; afterwards the scenario and its standalone copy name prepared jobs. Its paths are
/// relative to `folder`.
///
/// # Errors
/// When a run cannot be played, or nothing can be kept.
pub(in crate::command) fn prepare(
    scenario: &mut Scenario,
    own: &mut Standalone,
    folder: &Path,
) -> Result<()> {
    let mut known: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for (number, table) in scenario.background.iter_mut().enumerate() {
        let run = folder.join(&table.run);
        if !run.is_dir() {
            continue;
        }
        table.name = Some(table.name());
        let file = match known.get(&run) {
            Some(file) => file.clone(),
            None => {
                let file = prepared(&run)
                    .with_context(|| format!("background.run: cannot replay {}", run.display()))?;
                known.insert(run, file.clone());
                file
            }
        };
        let name = job_name(number);
        if let Some((from, _)) = own.inputs.iter_mut().find(|(_, own)| *own == name) {
            from.clone_from(&file);
        }
        table.run = file;
    }
    Ok(())
}

/// The prepared job of a run directory, in the user's cache.
fn prepared(run: &Path) -> Result<PathBuf> {
    let trace = run.join(TRACE_FILE);
    if !trace.exists() {
        bail!("it has no trace; name a run directory");
    }
    let name = format!("{:016x}.job", hash(run, &trace)?);
    let folder = user_folder(FOLDER)?;
    let path = folder.join(name);
    if path.exists() {
        let job = read_input(&path).map_err(anyhow::Error::new);
        match job.and_then(|bytes| Ok(PreparedJob::from_bytes(&bytes)?)) {
            Ok(_) => return Ok(path),
            Err(error) => warning!("{}: {error}; it is prepared again", path.display()),
        }
    }
    let calibrated = Calibrated::of_run(run)?;
    calibrated.without_cards(run, "networks of background jobs")?;
    let Calibrated {
        program,
        calibration,
        costs,
        clocks,
        ..
    } = calibrated;
    let job = PreparedJob::new(program, calibration, costs, clocks)?;
    let keep = || -> io::Result<()> {
        fs::create_dir_all(&folder)?;
        write_file(&path, job.to_bytes().map_err(io::Error::other)?)
    };
    keep().with_context(|| format!("cannot keep the prepared job {}", path.display()))?;
    Ok(path)
}

/// Digest of a prepared job's inputs: the trace, its network, the library's tables, and the version of the preparation.
fn hash(run: &Path, trace: &Path) -> Result<u64> {
    let mut hasher = XxHash3_64::new();
    let scenario = run.join(SCENARIO_FILE);
    for path in [trace, &scenario] {
        let mut read = || -> io::Result<()> {
            let mut reader = BufReader::with_capacity(1 << 20, open_input(path)?);
            let mut piece = vec![0; 1 << 20];
            loop {
                match reader.read(&mut piece)? {
                    0 => return Ok(()),
                    length => hasher.write(&piece[..length]),
                }
            }
        };
        read().with_context(|| format!("cannot read {}", path.display()))?;
    }
    let tables = tables_of_run(trace, None);
    hasher.write(format!("{:?}", tables.ok()).as_bytes());
    hasher.write(env!("CARGO_PKG_VERSION").as_bytes());
    Ok(hasher.finish())
}
