//! A new run directory that continues a checkpoint of another run, with another scenario.
//!
//! The other run keeps its checkpoints (`checkpoint.keep`). Its files are copied; those of the checkpoint are linked where the file
//! system permits, because a resumed run changes none of them. The scenario may differ in what a checkpoint permits, such as delays
//! that begin later. The directory is resumed as that of any broken run. Called by `belljar explore`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use belljar_archive::TraceWriter;
use belljar_sim::Time;
use belljar_trace::{LOST_FILE, TRACE_FILE};

use super::keeper::numbered;
use super::{CheckpointError, FOLDER, IntactCheckpoint, RECORD};
use crate::results::run_directory::SCENARIO_FILE;

/// Files of a finished run that a continued one writes anew.
const RESULTS: [&str; 11] = [
    LOST_FILE,
    "summary.json",
    "host.json",
    "wire.csv",
    "links-ib.csv",
    "wire-ib.csv",
    "marks-ib.csv",
    "pairs-ib.csv",
    "report.html",
    "files",
    FOLDER,
];

/// Checkpoints of a run, with their times.
#[derive(Clone, Debug)]
pub struct BranchPoints {
    directory: PathBuf,
    /// In order.
    points: Vec<(u32, Time)>,
}

impl BranchPoints {
    /// The intact checkpoints of the run in `directory`.
    pub fn of(directory: &Path) -> Self {
        let folder = directory.join(FOLDER);
        let records = numbered(&folder).into_iter();
        let records = records.filter(|(_, ending, _)| ending == RECORD);
        let points = records.filter_map(|(number, _, _)| {
            let found = IntactCheckpoint::open(&folder, number).ok()?;
            Some((number, found.run.now))
        });
        let mut points: Vec<(u32, Time)> = points.collect();
        points.sort_unstable();
        Self {
            directory: directory.to_owned(),
            points,
        }
    }

    /// Checkpoints at `time` or before, the newest first.
    pub fn before(&self, time: Time) -> impl Iterator<Item = (u32, Time)> + '_ {
        let early = self.points.iter().rev();
        early.copied().filter(move |(_, at)| *at <= time)
    }

    /// Makes the directory `to`, which continues checkpoint `number` with the scenario of this text.
    ///
    /// # Errors
    /// If the checkpoint is damaged, or the host refuses a file.
    pub fn branch(&self, number: u32, to: &Path, scenario: &str) -> Result<(), CheckpointError> {
        let from = &self.directory;
        let found = IntactCheckpoint::open(&from.join(FOLDER), number)
            .map_err(CheckpointError::Unreadable)?;
        copy_folder(from, to, &RESULTS)?;
        fs::create_dir(to.join(FOLDER)).map_err(failed("make", &to.join(FOLDER)))?;
        for (name, path) in found.files(from) {
            let target = to.join(name);
            if fs::hard_link(&path, &target).is_err() {
                fs::copy(&path, &target).map_err(failed("copy", &path))?;
            }
        }
        let path = to.join(SCENARIO_FILE);
        fs::write(&path, scenario).map_err(failed("write", &path))?;
        cut_trace(&found, to)
    }
}

/// Removes the calls after the checkpoint.
fn cut_trace(found: &IntactCheckpoint, to: &Path) -> Result<(), CheckpointError> {
    let Some(state) = found.run.recorder.trace_state() else {
        return Ok(());
    };
    let path = to.join(TRACE_FILE);
    let file = File::options().read(true).write(true).open(&path);
    let file = file.map_err(failed("open", &path))?;
    let writer = TraceWriter::resume(file, &path, state);
    let cut = writer.and_then(|mut writer| writer.cut());
    cut.map_err(|error| CheckpointError::Unreadable(error.to_string()))
}

/// Copies a folder without the entries of these names.
fn copy_folder(from: &Path, to: &Path, without: &[&str]) -> Result<(), CheckpointError> {
    fs::create_dir(to).map_err(failed("make", to))?;
    let entries = fs::read_dir(from).map_err(failed("read", from))?;
    for entry in entries {
        let entry = entry.map_err(failed("read", from))?;
        let name = entry.file_name();
        if without.iter().any(|other| name == *other) {
            continue;
        }
        let (path, target) = (entry.path(), to.join(&name));
        let kind = entry.file_type().map_err(failed("read", &path))?;
        if kind.is_dir() {
            copy_folder(&path, &target, &[])?;
        } else if kind.is_file() {
            fs::copy(&path, &target).map_err(failed("copy", &path))?;
        }
    }
    Ok(())
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError + use<> {
    let path = path.to_owned();
    move |source| CheckpointError::Io {
        action,
        path,
        source,
    }
}
