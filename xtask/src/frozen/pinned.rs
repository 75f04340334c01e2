//! The pinned traces: run directories under `tests/frozen/runs`, and golden files of the trace format's versions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Versions of the trace format with golden files.
const VERSIONS: [&str; 6] = [
    "version-11",
    "version-11-sites",
    "version-12",
    "version-12-sites",
    "version-13",
    "version-13-sites",
];

/// Runs of one program with more ranks, for fitting a model.
const LARGER: [(&str, &str); 1] = [("any-tag-4", "any-tag-8")];

/// A trace in the tree, with the files of its run.
pub(super) struct PinnedTrace {
    pub(super) name: String,
    /// The files of the run directory, by their names in it.
    pub(super) files: Vec<(String, PathBuf)>,
    /// The run with more ranks, for models.
    pub(super) larger: Option<&'static str>,
}

/// The files of a pinned run in `folder`.
pub(super) fn run_of(folder: &Path, name: &str) -> Result<Vec<(String, PathBuf)>> {
    let run = folder.join("runs").join(name);
    let entries = fs::read_dir(&run).with_context(|| format!("cannot read {}", run.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", run.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push((name, entry.path()));
    }
    files.sort();
    Ok(files)
}

/// All pinned traces, ordered by name.
pub(super) fn all(folder: &Path) -> Result<Vec<PinnedTrace>> {
    let golden = crate::root().join("trace/archive/tests/golden");
    let mut traces = Vec::new();
    for name in VERSIONS {
        let trace = golden.join(format!("{name}.bjt"));
        let scenario = folder.join("golden.toml");
        traces.push(PinnedTrace {
            name: name.to_owned(),
            files: vec![
                ("trace.bjt".to_owned(), trace),
                ("scenario.toml".to_owned(), scenario),
            ],
            larger: None,
        });
    }
    let runs = folder.join("runs");
    let entries = fs::read_dir(&runs).with_context(|| format!("cannot read {}", runs.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", runs.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let larger = LARGER.iter().find(|(of, _)| *of == name);
        traces.push(PinnedTrace {
            files: run_of(folder, &name)?,
            larger: larger.map(|(_, larger)| *larger),
            name,
        });
    }
    traces.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(traces)
}
