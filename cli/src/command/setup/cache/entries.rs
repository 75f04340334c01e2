//! The entries of the user's cache with their sizes, times and locks.
//!
//! Called by `cache`.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use belljar_images::{Image, user_folder};
use clap::ValueEnum;

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum CacheEntryKind {
    /// A guest image.
    Image,
    /// Folder of an interrupted or running build.
    Unfinished,
    /// The state of a booted node, for clones.
    Snapshot,
    /// A traced run prepared to be played in the background.
    Job,
    /// Packages that were fetched for images.
    Package,
    /// Digests of container images and root file systems.
    Source,
    /// Files that another host sent.
    Received,
    /// Disks of large files of runs.
    File,
    /// Translated code of earlier runs.
    Code,
}

/// Prefix of folders without a finished image.
const UNFINISHED: &str = "building-";

impl CacheEntryKind {
    const ALL: [Self; 9] = [
        Self::Image,
        Self::Unfinished,
        Self::Snapshot,
        Self::Job,
        Self::Package,
        Self::Source,
        Self::Received,
        Self::File,
        Self::Code,
    ];

    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Unfinished => "unfinished",
            Self::Snapshot => "snapshot",
            Self::Job => "job",
            Self::Package => "package",
            Self::Source => "source",
            Self::Received => "received",
            Self::File => "file",
            Self::Code => "code",
        }
    }

    /// The folder of the cache that has such entries.
    fn folder(self) -> &'static str {
        match self {
            Self::Image | Self::Unfinished => "images",
            Self::Snapshot => "snapshots",
            Self::Job => "jobs",
            Self::Package => "packages",
            Self::Source => "sources",
            Self::Received => "received",
            Self::File => "files",
            Self::Code => "code",
        }
    }

    /// True if a file or folder of this name is such an entry.
    fn has(self, name: &str, is_folder: bool) -> bool {
        match self {
            Self::Image => is_folder && !name.starts_with(UNFINISHED),
            Self::Unfinished => is_folder && name.starts_with(UNFINISHED),
            Self::Snapshot => name.ends_with(".snapshot"),
            Self::Job => name.ends_with(".job"),
            Self::Package => name != "lock",
            Self::Code => name.ends_with(".code"),
            Self::Source | Self::Received | Self::File => !name.ends_with(".lock"),
        }
    }
}

/// An entry.
#[derive(Debug)]
pub(super) struct CacheEntry {
    pub(super) kind: CacheEntryKind,
    /// The recipe of an image, otherwise the name of the file.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Bytes on the disk.
    pub(super) bytes: u64,
    pub(super) made: SystemTime,
    pub(super) used: SystemTime,
}

/// The outcome of a removal.
#[derive(Debug)]
pub(super) enum Removed {
    Yes,
    /// It would be removed, but for `--dry-run`.
    Would,
    InUse,
    Failed(io::Error),
}

impl Removed {
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Yes => "removed",
            Self::Would => "would remove",
            Self::InUse => "kept, in use",
            Self::Failed(_) => "failed",
        }
    }
}

/// All entries, by kind and last use.
///
/// # Errors
/// If the environment names no cache, or one of its folders cannot be read.
pub(super) fn all() -> Result<Vec<CacheEntry>> {
    let mut entries = Vec::new();
    for kind in CacheEntryKind::ALL {
        of_folder(kind, &user_folder(kind.folder())?, &mut entries)?;
    }
    entries.sort_by(|a, b| (a.kind, b.used, &a.name).cmp(&(b.kind, a.used, &b.name)));
    Ok(entries)
}

fn of_folder(kind: CacheEntryKind, folder: &Path, entries: &mut Vec<CacheEntry>) -> Result<()> {
    let failed = || format!("cannot read {}", folder.display());
    let found = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.with_context(failed)?,
    };
    for entry in found {
        let entry = entry.with_context(failed)?;
        // A process may have removed it in between.
        let Ok(data) = entry.metadata() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.has(&name, data.is_dir()) {
            entries.push(CacheEntry::of(kind, name, entry.path(), &data));
        }
    }
    Ok(())
}

impl CacheEntry {
    fn of(kind: CacheEntryKind, name: String, path: PathBuf, data: &Metadata) -> Self {
        let modified = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let made = data.created().unwrap_or(modified);
        // Each use writes to the lock, or reads the file.
        let lock = fs::metadata(lock_of(&path)).and_then(|data| data.modified());
        let used = match kind {
            CacheEntryKind::Image | CacheEntryKind::Snapshot => lock.unwrap_or(modified),
            _ => data.accessed().unwrap_or(modified).max(modified),
        };
        let name = match kind {
            CacheEntryKind::Image => recipe_of(&path).unwrap_or(name),
            _ => name,
        };
        Self {
            kind,
            name,
            bytes: bytes_of(&path, data),
            path,
            made,
            used: used.max(made),
        }
    }

    /// True if a process has it open, or is making it.
    pub(super) fn is_in_use(&self) -> bool {
        self.locks().is_ok_and(|locks| locks.is_none())
    }

    /// The locks required for its removal; `None` if a process holds one.
    fn locks(&self) -> io::Result<Option<Vec<File>>> {
        let own = match self.kind {
            CacheEntryKind::Package => self.path.with_file_name("lock"),
            _ => lock_of(&self.path),
        };
        let mut locks = Vec::new();
        for path in [own, self.path.clone()] {
            let file = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            if file.try_lock().is_err() {
                return Ok(None);
            }
            locks.push(file);
        }
        Ok(Some(locks))
    }

    /// Removes it, unless it is in use.
    pub(super) fn remove(&self) -> Removed {
        let _locks = match self.locks() {
            Ok(Some(locks)) => locks,
            Ok(None) => return Removed::InUse,
            Err(error) => return Removed::Failed(error),
        };
        let is_folder = fs::symlink_metadata(&self.path).is_ok_and(|data| data.is_dir());
        let removed = match is_folder {
            true => self.remove_folder(),
            false => fs::remove_file(&self.path),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Removed::Failed(error),
            _ => {
                if matches!(self.kind, CacheEntryKind::Image | CacheEntryKind::Snapshot) {
                    let _ = fs::remove_file(lock_of(&self.path));
                }
                Removed::Yes
            }
        }
    }

    /// Removes a folder. An image disappears at once, as no process may find half of one.
    fn remove_folder(&self) -> io::Result<()> {
        if self.kind != CacheEntryKind::Image {
            return fs::remove_dir_all(&self.path);
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let rest = self.path.with_file_name(format!("{UNFINISHED}{name}"));
        fs::rename(&self.path, &rest)?;
        fs::remove_dir_all(rest)
    }
}

/// The lock held while the entry at `path` is made.
fn lock_of(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

fn recipe_of(image: &Path) -> Option<String> {
    Some(Image::open(image).ok()?.manifest.recipe)
}

/// Bytes on the disk, of a folder with all in it; links are not followed.
fn bytes_of(path: &Path, data: &Metadata) -> u64 {
    let own = data.blocks().saturating_mul(512);
    if !data.is_dir() {
        return own;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some(bytes_of(&entry.path(), &entry.metadata().ok()?)));
    own.saturating_add(sizes.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(kind: CacheEntryKind, folder: &Path) -> Vec<CacheEntry> {
        let mut all = Vec::new();
        of_folder(kind, folder, &mut all).unwrap();
        all
    }

    #[test]
    fn what_is_locked_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0123.snapshot");
        fs::write(&path, vec![1; 10_000]).unwrap();
        fs::write(folder.path().join("0123.lock"), "").unwrap();
        let own = File::open(&path).unwrap();
        own.try_lock_shared().unwrap();
        let [entry] = &entries(CacheEntryKind::Snapshot, folder.path())[..] else {
            panic!("one entry");
        };
        assert!(entry.bytes >= 10_000 && entry.is_in_use());
        assert!(matches!(entry.remove(), Removed::InUse) && path.exists());
        drop(own);
        // A process that makes it anew has the other lock.
        let making = File::open(folder.path().join("0123.lock")).unwrap();
        making.try_lock().unwrap();
        assert!(matches!(entry.remove(), Removed::InUse) && path.exists());
        drop(making);
        assert!(matches!(entry.remove(), Removed::Yes) && !path.exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_of_builds_are_apart_from_images() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["abc", "building-x"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("abc.lock"), "").unwrap();
        let names = |kind| {
            let all = entries(kind, folder.path());
            all.iter()
                .map(|entry| entry.name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(CacheEntryKind::Image), ["abc"]);
        assert_eq!(names(CacheEntryKind::Unfinished), ["building-x"]);
        let all = entries(CacheEntryKind::Image, folder.path());
        assert!(matches!(all[0].remove(), Removed::Yes));
        assert!(!folder.path().join("abc").exists());
        assert!(entries(CacheEntryKind::Job, &folder.path().join("absent")).is_empty());
    }
}
