//! Where a run puts what it found. The directory is named `*.incomplete` until the
//! run is whole.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The scenario as it was run, in a run directory: with all overrides applied, and with
/// copies of the files that it is made of beside it, so that it can be run again.
pub const SCENARIO_FILE: &str = "scenario.toml";

/// How many times, and how long between, one tries to lock a directory.
const LOCK_TRIES: u32 = 20;
const LOCK_NAP: Duration = Duration::from_millis(100);

/// Why results could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum RunDirectoryError {
    /// The directory of an earlier run is in the way.
    #[error("{0} exists already; choose another with --out, or remove it")]
    Exists(PathBuf),
    /// There is no run in it to go on with.
    #[error("{0} is no directory of a run that was broken off; its name would end in .incomplete")]
    NotBroken(PathBuf),
    /// The run goes on already.
    #[error("the run in {0} goes on already; watch it with: belljar watch {0}")]
    InUse(PathBuf),
    /// A file ends before it should.
    #[error("{path} has {is} bytes and had {was} when the checkpoint was made")]
    Shorter {
        /// The file.
        path: PathBuf,
        /// Its length.
        is: u64,
        /// What it had then.
        was: u64,
    },
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
    /// The directory itself, locked as long as this run goes on.
    _lock: File,
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
        Self::locked(final_path, path)
    }

    /// The directory of a run that was broken off; `path` with or without `.incomplete`.
    ///
    /// # Errors
    /// When there is none, or somebody else goes on with it.
    pub fn resume(path: &Path) -> Result<Self, RunDirectoryError> {
        let name = path.file_name().unwrap_or_default();
        let whole = Path::new(name).file_stem().unwrap_or_default();
        let (final_path, path) = if path.extension() == Some(INCOMPLETE.as_ref()) {
            (path.with_file_name(whole), path.to_owned())
        } else {
            (path.to_owned(), incomplete(path))
        };
        if !path.is_dir() {
            return Err(RunDirectoryError::NotBroken(path));
        }
        Self::locked(final_path, path)
    }

    fn locked(final_path: PathBuf, path: PathBuf) -> Result<Self, RunDirectoryError> {
        let failed = |source| RunDirectoryError::Io {
            action: "lock",
            path: path.clone(),
            source,
        };
        let lock = File::open(&path).map_err(failed)?;
        let mut tries = LOCK_TRIES;
        while let Err(error) = lock.try_lock() {
            tries -= 1;
            match error {
                TryLockError::WouldBlock if tries == 0 => {
                    return Err(RunDirectoryError::InUse(path));
                }
                // One that was killed a moment ago has its memory to give back first.
                TryLockError::WouldBlock => thread::sleep(LOCK_NAP),
                TryLockError::Error(source) => return Err(failed(source)),
            }
        }
        Ok(Self {
            final_path,
            path,
            _lock: lock,
        })
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

    /// Opens a file in it to be written on from its first `length` bytes, which it keeps.
    ///
    /// # Errors
    /// When it is shorter, or the host refuses.
    pub fn resume_file(
        &self,
        name: &str,
        length: u64,
    ) -> Result<BufWriter<File>, RunDirectoryError> {
        let path = self.path.join(name);
        let failed = |source| RunDirectoryError::Io {
            action: "go on with",
            path: path.clone(),
            source,
        };
        let mut file = File::options().write(true).open(&path).map_err(failed)?;
        let is = file.metadata().map_err(failed)?.len();
        if is < length {
            return Err(RunDirectoryError::Shorter {
                path,
                is,
                was: length,
            });
        }
        file.set_len(length).map_err(failed)?;
        file.seek(SeekFrom::Start(length)).map_err(failed)?;
        Ok(BufWriter::new(file))
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

    /// Copies a file into it, making the folders that `name` names.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn copy(&self, from: &Path, name: &str) -> Result<(), RunDirectoryError> {
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.folder(folder)?;
        }
        let copied = fs::copy(from, self.path.join(name));
        copied.map(drop).map_err(|source| RunDirectoryError::Io {
            action: "copy",
            path: from.to_owned(),
            source,
        })
    }

    /// Removes a folder in it, if it is there.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn remove_folder(&self, name: &str) -> Result<(), RunDirectoryError> {
        let path = self.path.join(name);
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(RunDirectoryError::Io {
                action: "remove",
                path,
                source,
            }),
            _ => Ok(()),
        }
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

/// What the name of a directory ends in whose run is not whole.
const INCOMPLETE: &str = "incomplete";

fn incomplete(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(INCOMPLETE);
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
