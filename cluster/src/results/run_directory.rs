//! The run directory.
//!
//! The directory is named `*.incomplete` until the run is complete and on the disk. It is locked while a
//! process writes to it. Files are opened beneath it, without following links out of it. Made by the
//! commands that run a scenario.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use belljar_files::{Folder, open_input};

/// The scenario of a run, in its directory: with all overrides applied, and next to copies of its files,
/// so that it can be run again.
pub const SCENARIO_FILE: &str = "scenario.toml";

/// Number of attempts to lock a directory, and the time between them.
const LOCK_TRIES: u32 = 20;
const LOCK_NAP: Duration = Duration::from_millis(100);

/// Errors of the run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunDirectoryError {
    /// The directory of an earlier run exists.
    #[error("{0} exists already; choose another with --out, or remove it")]
    Exists(PathBuf),
    /// There is no interrupted run in it.
    #[error("{0} is not the directory of an interrupted run, whose name ends in .incomplete")]
    NotBroken(PathBuf),
    /// The run is already running.
    #[error("the run in {0} is active already; watch it with: belljar watch {0}")]
    InUse(PathBuf),
    /// A file is shorter than recorded.
    #[error("{path} has {is} bytes and had {was} when the checkpoint was made")]
    Shorter {
        /// The file.
        path: PathBuf,
        /// Its length.
        is: u64,
        /// Its recorded length.
        was: u64,
    },
    /// The host refuses a file or folder.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
}

/// A run's directory while it is being filled. Its files are opened beneath it, without following links
/// out of it.
#[derive(Debug)]
pub struct RunDirectory {
    final_path: PathBuf,
    path: PathBuf,
    /// The directory itself, locked while the run lasts.
    folder: Folder,
}

impl RunDirectory {
    /// Makes `wanted.incomplete`; without `wanted`, the first free `belljar-runs/NAME` or
    /// `belljar-runs/NAME-N`. A simultaneous caller gets another one, or an error.
    ///
    /// # Errors
    /// If `wanted` exists or cannot be made.
    pub fn create(wanted: Option<&Path>, name: &str) -> Result<Self, RunDirectoryError> {
        let directory = match wanted {
            Some(wanted) => Self::make_new(wanted)?,
            None => Self::make_first_free(Path::new(RUNS), name)?,
        };
        for folder in ["console", "pcap"] {
            directory.folder(folder)?;
        }
        Ok(directory)
    }

    fn make_first_free(folder: &Path, name: &str) -> Result<Self, RunDirectoryError> {
        let mut number = 1;
        loop {
            let path = match number {
                1 => folder.join(name),
                _ => folder.join(format!("{name}-{number}")),
            };
            match Self::make_new(&path) {
                Err(RunDirectoryError::Exists(_)) => number += 1,
                made => return made,
            }
        }
    }

    /// Makes `final_path.incomplete`, if neither path exists.
    fn make_new(final_path: &Path) -> Result<Self, RunDirectoryError> {
        let exists = |path: &Path| RunDirectoryError::Exists(path.to_owned());
        if is_taken(final_path) {
            return Err(exists(final_path));
        }
        let path = incomplete(final_path);
        let failed = |source| failed("make the folder", &path)(source);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).map_err(failed)?;
        }
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&path)),
            // A run with this name was completed meanwhile.
            Ok(()) if is_taken(final_path) => {
                fs::remove_dir(&path).map_err(failed)?;
                Err(exists(final_path))
            }
            Ok(()) => Self::locked(final_path.to_owned(), path),
            Err(source) => Err(failed(source)),
        }
    }

    /// Opens the directory of an interrupted run; `path` with or without `.incomplete`.
    ///
    /// # Errors
    /// If there is none, or another process has resumed it.
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
        let folder = Folder::open(&path).map_err(failed("open", &path))?;
        let mut tries = LOCK_TRIES;
        while let Err(error) = folder.file().try_lock() {
            tries -= 1;
            match error {
                TryLockError::WouldBlock if tries == 0 => {
                    return Err(RunDirectoryError::InUse(path));
                }
                // A killed process holds the lock until its memory is freed.
                TryLockError::WouldBlock => thread::sleep(LOCK_NAP),
                TryLockError::Error(source) => return Err(failed("lock", &path)(source)),
            }
        }
        Ok(Self {
            final_path,
            path,
            folder,
        })
    }

    /// The directory's current path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a new file in it for writing, and replaces an existing one.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn file(&self, name: &str) -> Result<BufWriter<File>, RunDirectoryError> {
        self.create_file(name).map(BufWriter::new)
    }

    /// As [`file`](Self::file), for a caller with its own buffer.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn create_file(&self, name: &str) -> Result<File, RunDirectoryError> {
        let created = self.folder.create(name);
        created.map_err(failed("create", &self.path.join(name)))
    }

    /// Opens a file in it for overwriting.
    ///
    /// # Errors
    /// If it is no private file of this directory, or the host refuses.
    pub fn existing_file(&self, name: &str) -> Result<File, RunDirectoryError> {
        let opened = self.folder.existing(name);
        opened.map_err(failed("continue", &self.path.join(name)))
    }

    /// Opens a file in it for reading.
    ///
    /// # Errors
    /// If it is no regular file, is a link, or the host refuses.
    pub fn open_file(&self, name: &str) -> Result<File, RunDirectoryError> {
        let opened = self.folder.open_file(name);
        opened.map_err(failed("open", &self.path.join(name)))
    }

    /// Opens a file in it for appending after its first `length` bytes, and truncates it there.
    ///
    /// # Errors
    /// If it is shorter, or as for [`existing_file`](Self::existing_file).
    pub fn resume_file(
        &self,
        name: &str,
        length: u64,
    ) -> Result<BufWriter<File>, RunDirectoryError> {
        let failed = failed("continue", &self.path.join(name));
        let mut file = self.at_least(name, length)?;
        file.set_len(length).map_err(&failed)?;
        file.seek(SeekFrom::Start(length)).map_err(&failed)?;
        Ok(BufWriter::new(file))
    }

    /// Checks that [`resume_file`](Self::resume_file) would open this file, without changing it.
    ///
    /// # Errors
    /// As for [`resume_file`](Self::resume_file).
    pub fn holds(&self, name: &str, length: u64) -> Result<(), RunDirectoryError> {
        self.at_least(name, length).map(drop)
    }

    /// Opens a file with at least `length` bytes.
    fn at_least(&self, name: &str, length: u64) -> Result<File, RunDirectoryError> {
        let path = self.path.join(name);
        let file = self.existing_file(name)?;
        let is = file.metadata().map_err(failed("continue", &path))?.len();
        if is < length {
            return Err(RunDirectoryError::Shorter {
                path,
                is,
                was: length,
            });
        }
        Ok(file)
    }

    /// Makes a folder in it.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn folder(&self, name: &str) -> Result<(), RunDirectoryError> {
        let made = self.folder.folder(name).map(drop);
        made.map_err(failed("make the folder", &self.path.join(name)))
    }

    /// Makes an empty folder in it, and replaces an existing one.
    ///
    /// # Errors
    /// If the host refuses.
    pub(crate) fn new_folder(&self, name: &str) -> Result<Folder, RunDirectoryError> {
        let path = self.path.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|data| data.is_dir()) {
            fs::remove_dir_all(&path).map_err(failed("empty the folder", &path))?;
        }
        let made = self.folder.folder(name);
        made.map_err(failed("make the folder", &path))
    }

    /// Copies a file into it, and makes the folders in `name`.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn copy(&self, from: &Path, name: &str) -> Result<(), RunDirectoryError> {
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.folder(folder)?;
        }
        let mut to = self.create_file(name)?;
        let mut copy = || {
            let mut original = open_input(from)?;
            io::copy(&mut original, &mut to)?;
            to.set_permissions(original.metadata()?.permissions())
        };
        copy().map_err(failed("copy", from))
    }

    /// Writes a whole file in it, and replaces an existing one; it reaches the disk with the whole
    /// directory.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn write(&self, name: &str, content: &str) -> Result<(), RunDirectoryError> {
        let written = self.folder.write(name, content.as_bytes());
        written.map_err(failed("write", &self.path.join(name)))
    }

    /// Syncs the directory and gives it its final name; then removes its folder `no_more`, if a complete run
    /// has no use for it.
    ///
    /// # Errors
    /// If the host refuses. After an error of the disk, the directory keeps the name of an incomplete
    /// one.
    pub fn complete(self, no_more: Option<&str>) -> Result<PathBuf, RunDirectoryError> {
        let settled = self.folder.settle();
        settled.map_err(|(path, source)| failed("write to the disk", &path)(source))?;
        let named = belljar_files::publish(&self.path, &self.final_path);
        named.map_err(failed("rename", &self.path))?;
        let Some(no_more) = no_more else {
            return Ok(self.final_path);
        };
        let path = self.final_path.join(no_more);
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                // Leftovers take space but do no harm.
                tracing::warn!("{} stays: {source}", path.display());
            }
            _ => {}
        }
        Ok(self.final_path)
    }
}

/// Default folder of runs.
const RUNS: &str = "belljar-runs";

/// Extension of the directory of an incomplete run.
const INCOMPLETE: &str = "incomplete";

fn incomplete(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(INCOMPLETE);
    path.with_file_name(name)
}

/// True if the name is in use, even by a dangling link.
fn is_taken(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> RunDirectoryError + use<> {
    let path = path.to_owned();
    move |source| RunDirectoryError::Io {
        action,
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests;
