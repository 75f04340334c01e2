//! Where a run puts what it found. The directory is named `*.incomplete` until the
//! run is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// The scenario as it was run, in a run directory: with all overrides applied and
/// absolute paths, so that it can be run again from anywhere.
pub const SCENARIO_FILE: &str = "scenario.toml";

/// Why results could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum RunDirectoryError {
    /// The directory of an earlier run is in the way.
    #[error("{0} exists already; choose another with --out, or remove it")]
    Exists(PathBuf),
    /// The host refuses a file or folder.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
}

/// A run's directory while it is being filled.
#[derive(Debug)]
pub struct RunDirectory {
    final_path: PathBuf,
    path: PathBuf,
}

impl RunDirectory {
    /// Makes `wanted.incomplete`; without `wanted`, the first free
    /// `belljar-runs/NAME` or `belljar-runs/NAME-N`.
    ///
    /// # Errors
    /// When `wanted` exists or cannot be made.
    pub fn create(wanted: Option<&Path>, name: &str) -> Result<Self, RunDirectoryError> {
        let final_path = match wanted {
            Some(path) if path.exists() => return Err(RunDirectoryError::Exists(path.to_owned())),
            Some(path) => path.to_owned(),
            None => free_name(name),
        };
        let path = incomplete(&final_path);
        if wanted.is_some() && path.exists() {
            return Err(RunDirectoryError::Exists(path));
        }
        for folder in [path.clone(), path.join("console"), path.join("pcap")] {
            fs::create_dir_all(&folder).map_err(|source| RunDirectoryError::Io {
                action: "make the folder",
                path: folder,
                source,
            })?;
        }
        Ok(Self { final_path, path })
    }

    /// The directory as it is named now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file in it for writing.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn file(&self, name: &str) -> Result<BufWriter<File>, RunDirectoryError> {
        let path = self.path.join(name);
        File::create(&path)
            .map(BufWriter::new)
            .map_err(|source| RunDirectoryError::Io {
                action: "create",
                path,
                source,
            })
    }

    /// Makes a folder in it.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn folder(&self, name: &str) -> Result<(), RunDirectoryError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(|source| RunDirectoryError::Io {
            action: "make the folder",
            path,
            source,
        })
    }

    /// Writes a whole file in it.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn write(&self, name: &str, content: &str) -> Result<(), RunDirectoryError> {
        let path = self.path.join(name);
        fs::write(&path, content).map_err(|source| RunDirectoryError::Io {
            action: "write",
            path,
            source,
        })
    }

    /// Gives it its final name.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn complete(self) -> Result<PathBuf, RunDirectoryError> {
        fs::rename(&self.path, &self.final_path).map_err(|source| RunDirectoryError::Io {
            action: "rename",
            path: self.path,
            source,
        })?;
        Ok(self.final_path)
    }
}

fn incomplete(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".incomplete");
    path.with_file_name(name)
}

fn free_name(name: &str) -> PathBuf {
    let folder = Path::new("belljar-runs");
    let mut number = 1;
    loop {
        let path = if number == 1 {
            folder.join(name)
        } else {
            folder.join(format!("{name}-{number}"))
        };
        if !path.exists() && !incomplete(&path).exists() {
            return path;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_incomplete_until_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("run");
        let directory = RunDirectory::create(Some(&wanted), "name").unwrap();
        directory.write("summary.json", "{}").unwrap();
        assert!(directory.path().ends_with("run.incomplete"));
        assert!(!wanted.exists());
        assert_eq!(directory.complete().unwrap(), wanted);
        assert_eq!(
            fs::read_to_string(wanted.join("summary.json")).unwrap(),
            "{}"
        );
    }

    #[test]
    fn an_earlier_run_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("run");
        let broken = RunDirectory::create(Some(&wanted), "name").unwrap();
        let refused = RunDirectory::create(Some(&wanted), "name").unwrap_err();
        assert!(refused.to_string().contains("run.incomplete"), "{refused}");
        broken.complete().unwrap();
        let refused = RunDirectory::create(Some(&wanted), "name").unwrap_err();
        assert!(refused.to_string().contains("--out"), "{refused}");
    }
}
