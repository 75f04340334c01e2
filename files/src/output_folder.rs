//! Atomic output folders.
//!
//! A new folder has a temporary name until it is complete. A failed or abandoned one is removed.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::abandoned::{Registration, Rest};
use crate::folder::{Folder, publish};

/// Limit on temporary names: each name in use belongs to a process that fills the folder.
const MOST_WRITERS: u32 = 100;

/// A folder that is being filled. [`finish`](Self::finish) gives it its name.
#[derive(Debug)]
pub struct OutputFolder {
    /// The folder's temporary path.
    path: PathBuf,
    /// Its final name, if that differs from the current one.
    named: Option<PathBuf>,
    /// The lock that marks it as being filled.
    _lock: Folder,
    registration: Registration,
    finished: bool,
}

impl OutputFolder {
    /// Begins the folder at `path`, and creates its parents. An empty folder may exist there.
    ///
    /// # Errors
    /// `AlreadyExists` when anything else has that name; errors of system calls. The error names
    /// the folder.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path).map_err(|error| {
            let text = format!("cannot make the folder {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        })
    }

    fn begin(path: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            if fs::read_dir(path)?.next().is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            return Ok(Self {
                path: path.to_owned(),
                named: None,
                _lock: Folder::open(path)?,
                registration: Registration::of(Rest::Entries(path.to_owned())),
                finished: false,
            });
        }
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        for number in 1..=MOST_WRITERS {
            let own = unfinished(path, number)?;
            if let Some(lock) = claim(&own)? {
                let registration = Registration::of(Rest::Folder(own.clone()));
                return Ok(Self {
                    path: own,
                    named: Some(path.to_owned()),
                    _lock: lock,
                    registration,
                    finished: false,
                });
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// The folder's temporary path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to its final name.
    ///
    /// # Errors
    /// When the name exists by now, or the system call fails.
    pub fn finish(mut self) -> io::Result<()> {
        self.registration.finish(|| match &self.named {
            Some(named) => publish(&self.path, named),
            None => Ok(()),
        })?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        match self.named {
            Some(_) => Rest::Folder(self.path.clone()).remove(),
            None => Rest::Entries(self.path.clone()).remove(),
        }
    }
}

fn unfinished(path: &Path, number: u32) -> io::Result<PathBuf> {
    let name = path.file_name();
    let mut name: OsString = name
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?
        .to_owned();
    name.push(".unfinished");
    if number > 1 {
        name.push(format!("-{number}"));
    }
    Ok(path.with_file_name(name))
}

/// Creates and locks the folder at `path`, replacing one that a dead process left; `None` if
/// another process fills it.
fn claim(path: &Path) -> io::Result<Option<Folder>> {
    for _ in 0..2 {
        match fs::create_dir(path) {
            Ok(()) => {
                let folder = Folder::open(path)?;
                return Ok(folder.file().try_lock().is_ok().then_some(folder));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(path)?.is_dir() {
                    return Ok(None);
                }
                let there = Folder::open(path)?;
                if there.file().try_lock().is_err() {
                    return Ok(None);
                }
                fs::remove_dir_all(path)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_folder_leaves_nothing() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("deep/out");
        let half = OutputFolder::create(&path).unwrap();
        fs::write(half.path().join("a"), "a").unwrap();
        assert!(!path.exists());
        let second = OutputFolder::create(&path).unwrap();
        assert_ne!(second.path(), half.path());
        drop(half);
        second.finish().unwrap();
        assert_eq!(fs::read_dir(above.path().join("deep")).unwrap().count(), 1);
        // The existing empty folder is filled, and emptied again on failure.
        let again = OutputFolder::create(&path).unwrap();
        fs::write(again.path().join("a"), "a").unwrap();
        drop(again);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        fs::write(path.join("a"), "a").unwrap();
        let error = OutputFolder::create(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_rest_of_an_ended_process_is_replaced() {
        let above = tempfile::tempdir().unwrap();
        let rest = above.path().join("out.unfinished");
        fs::create_dir(&rest).unwrap();
        fs::write(rest.join("old"), "old").unwrap();
        let new = OutputFolder::create(&above.path().join("out")).unwrap();
        assert_eq!(new.path(), rest);
        new.finish().unwrap();
        assert_eq!(fs::read_dir(above.path().join("out")).unwrap().count(), 0);
    }
}
