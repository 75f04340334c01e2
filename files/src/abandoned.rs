//! Removal of unfinished outputs if the process ends early.
//!
//! Every output is registered while it is written. A signal handler cannot drop values of other threads, so [`abandon`] removes all
//! registered outputs, and no output of the process can be finished afterwards.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::unistd::{UnlinkatFlags, unlinkat};

/// Attempts to remove a folder.
const TRIES: u32 = 100;

/// An unfinished output.
#[derive(Debug)]
pub(crate) enum Rest {
    /// A file in an open folder.
    File(Arc<OwnedFd>, OsString),
    /// A folder with its entries.
    Folder(PathBuf),
    /// The entries of a folder that is kept.
    Entries(PathBuf),
}

impl Rest {
    /// Removes it; on failure it only uses disk space.
    pub(crate) fn remove(&self) {
        match self {
            Self::File(folder, name) => {
                let _ = unlinkat(folder, &**name, UnlinkatFlags::NoRemoveDir);
            }
            Self::Folder(path) => {
                // Another thread may still write into it.
                let _ = (0..TRIES).find(|_| fs::remove_dir_all(path).is_ok() || !path.exists());
            }
            Self::Entries(path) => {
                for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                    let _ = match is_folder {
                        true => fs::remove_dir_all(entry.path()),
                        false => fs::remove_file(entry.path()),
                    };
                }
            }
        }
    }
}

/// Unfinished outputs of the process, by the numbers of their registrations.
#[derive(Debug)]
struct Unfinished {
    next: u64,
    rests: BTreeMap<u64, Rest>,
}

static UNFINISHED: Mutex<Unfinished> = Mutex::new(Unfinished {
    next: 0,
    rests: BTreeMap::new(),
});

fn unfinished() -> MutexGuard<'static, Unfinished> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The registration of an unfinished output, until it is dropped.
#[derive(Debug)]
pub struct Registration(u64);

impl Registration {
    pub(crate) fn of(rest: Rest) -> Self {
        let mut all = unfinished();
        let number = all.next;
        all.next += 1;
        all.rests.insert(number, rest);
        Self(number)
    }

    /// Registers a folder: [`abandon`] removes it with its entries.
    pub fn of_folder(path: &Path) -> Self {
        Self::of(Rest::Folder(path.to_owned()))
    }

    /// Calls the closure that finishes the output, unless the output was abandoned.
    pub(crate) fn finish<T>(&self, finish: impl FnOnce() -> T) -> T {
        let mut all = unfinished();
        let finished = finish();
        all.rests.remove(&self.0);
        finished
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        unfinished().rests.remove(&self.0);
    }
}

/// Proof that unfinished outputs were removed; while this value lives, threads that finish or begin an output wait.
#[derive(Debug)]
pub struct Abandoned {
    _all: MutexGuard<'static, Unfinished>,
}

/// Removes the unfinished outputs of the process, which should exit while the returned value lives.
pub fn abandon() -> Abandoned {
    let mut all = unfinished();
    for (_, rest) in std::mem::take(&mut all.rests) {
        rest.remove();
    }
    Abandoned { _all: all }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;
    use std::{env, fs};

    use super::*;
    use crate::{OutputFile, OutputFolder, write_file};

    /// Variable with the folder in which this test's child process abandons outputs.
    const FOLDER: &str = "BELLJAR_FILES_ABANDON";

    /// In a child process, so that the outputs of other tests are not removed.
    #[test]
    fn unfinished_outputs_are_removed_and_finished_ones_stay() {
        if let Some(folder) = env::var_os(FOLDER) {
            return abandon_in(Path::new(&folder));
        }
        let above = tempfile::tempdir().unwrap();
        let own = env::current_exe().unwrap();
        let status = Command::new(own)
            .args([
                "--exact",
                "abandoned::tests::unfinished_outputs_are_removed_and_finished_ones_stay",
            ])
            .env(FOLDER, above.path())
            .status();
        assert!(status.unwrap().success());
    }

    fn abandon_in(above: &Path) {
        let names = || {
            let entries = fs::read_dir(above).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        write_file(&above.join("whole"), "1").unwrap();
        fs::create_dir(above.join("empty")).unwrap();
        let mut file = OutputFile::create(&above.join("file")).unwrap();
        file.write_all(b"half").unwrap();
        let folder = OutputFolder::create(&above.join("folder")).unwrap();
        fs::write(folder.path().join("entry"), "half").unwrap();
        let there = OutputFolder::create(&above.join("empty")).unwrap();
        fs::write(there.path().join("entry"), "half").unwrap();
        let scratch = above.join("scratch");
        fs::create_dir(&scratch).unwrap();
        let registration = Registration::of_folder(&scratch);
        assert_eq!(names().len(), 5);
        let abandoned = abandon();
        assert_eq!(names(), ["empty", "whole"]);
        assert_eq!(fs::read_dir(above.join("empty")).unwrap().count(), 0);
        drop(abandoned);
        drop((registration, folder, there));
        // Its temporary file is removed, so it cannot be finished.
        assert!(file.finish().is_err());
        assert_eq!(names(), ["empty", "whole"]);
    }
}
