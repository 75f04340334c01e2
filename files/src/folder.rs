//! A folder whose accesses stay inside: run directories and their contents.
//!
//! Run directories may come from untrusted sources. A link in place of a file may lead elsewhere,
//! and a resumed run would truncate and write its target. Therefore every file in a [`Folder`] is
//! opened beneath it (openat2): no name and no link leads out, a new file is created exclusively,
//! and a file that is appended to is a regular file without other hard links. A name may have
//! folders in it, separated by `/`.
//!
//! Durability is the caller's responsibility: it syncs files first, then folders
//! ([`Folder::settle`]), before it publishes the folder's name.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{
    AT_FDCWD, OFlag, OpenHow, RenameFlags, ResolveFlag, openat2, renameat, renameat2,
};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::abandoned::{Registration, Rest};
use crate::output::temporary;

/// Limit on temporary files of one output: each belongs to a process that writes it.
const MOST_WRITERS: u32 = 100;

/// Opens a pipe in place of a file without waiting for its other end.
const UNWAITING: OFlag = OFlag::O_NONBLOCK;

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    file: File,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder at `path`, following links, because the user chose the path.
    ///
    /// # Errors
    /// When it is not a folder, or the system call fails.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_DIRECTORY;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Its path when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder's file, for example to lock it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Creates a file called `name`, replacing an existing one, open for writing and reading.
    ///
    /// # Errors
    /// When the system call fails, or the path has a link in it.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let (folder, name) = self.place(name)?;
        unlink(&folder, name)?;
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        Ok(open_in(&folder, name, flags)?.into())
    }

    /// Opens the file called `name` for writing at any position.
    ///
    /// # Errors
    /// When it does not exist, is not a regular file with one name, or the system call fails.
    pub fn existing(&self, name: &str) -> io::Result<File> {
        let (folder, name) = self.place(name)?;
        plain(open_in(&folder, name, OFlag::O_WRONLY | UNWAITING)?)
    }

    /// Opens or creates the file called `name` for writing at its end.
    ///
    /// # Errors
    /// As for [`existing`](Self::existing).
    pub fn append(&self, name: &str) -> io::Result<File> {
        let (folder, name) = self.place(name)?;
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | UNWAITING;
        plain(open_in(&folder, name, flags)?)
    }

    /// Writes the file called `name` atomically with `fill`, and syncs it to the disk. An existing
    /// file is replaced; on error it is kept.
    ///
    /// # Errors
    /// Errors of `fill` and of system calls.
    pub fn write_whole<E: From<io::Error>>(
        &self,
        name: &str,
        fill: impl FnOnce(&mut File) -> Result<(), E>,
    ) -> Result<(), E> {
        self.put(name, |file| fill(file).and_then(|()| Ok(file.sync_all()?)))
    }

    /// Like [`write_whole`](Self::write_whole), with `bytes`, but without syncing.
    ///
    /// # Errors
    /// When a system call fails.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(name, |file| file.write_all(bytes))
    }

    fn put<E: From<io::Error>>(
        &self,
        name: &str,
        fill: impl FnOnce(&mut File) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut file, own) = self.unfinished(name)?;
        fill(&mut file)?;
        Ok(own.keep()?)
    }

    /// Creates a temporary file for the file called `name`, and its guard.
    pub(crate) fn unfinished(&self, name: &str) -> io::Result<(File, Unfinished)> {
        let (folder, name) = self.place(name)?;
        Unfinished::begin(folder, name.as_ref())
    }

    /// Like [`unfinished`](Self::unfinished), for a name directly in the folder.
    pub(crate) fn unfinished_os(&self, name: &OsStr) -> io::Result<(File, Unfinished)> {
        Unfinished::begin(self.file.as_fd().try_clone_to_owned()?, name)
    }

    /// Opens the file called `name` for reading.
    ///
    /// # Errors
    /// When it does not exist, is not a regular file, or the system call fails.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let (folder, name) = self.place(name)?;
        let file = File::from(open_in(&folder, name, OFlag::O_RDONLY | UNWAITING)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is no plain file; remove it",
            )),
        }
    }

    /// Creates the folder called `name`.
    ///
    /// # Errors
    /// When the name exists, or the system call fails.
    pub fn new_folder(&self, name: &str) -> io::Result<Self> {
        mkdirat(&self.file, name, Mode::from_bits_truncate(0o777))?;
        self.folder(name)
    }

    /// Opens the folder called `name`, creating it and its parents if they are missing.
    ///
    /// # Errors
    /// When it is not a folder, or the system call fails.
    pub fn folder(&self, name: &str) -> io::Result<Self> {
        let mut file = self.file.try_clone()?;
        for part in name.split('/') {
            match mkdirat(&file, part, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            file = open_in(&file, part, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?.into();
        }
        let path = self.path.join(name);
        Ok(Self { file, path })
    }

    /// Renames the file `from` to `to`, replacing an existing one.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (self.place(from)?, self.place(to)?);
        Ok(renameat(&from_folder, from, &to_folder, to)?)
    }

    /// Removes the file called `name`, if it exists.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let (folder, name) = self.place(name)?;
        unlink(&folder, name)
    }

    /// Syncs the names in the folder to the disk.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn sync(&self) -> io::Result<()> {
        match self.file.sync_all() {
            // Some file systems do not support syncing folders.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }

    /// Syncs all contents to the disk: files, then the folders that name them. Links and sockets
    /// are skipped.
    ///
    /// # Errors
    /// When syncing fails: the file or folder, and the error.
    pub fn settle(&self) -> Result<(), (PathBuf, io::Error)> {
        let here = |error| (self.path.clone(), error);
        for entry in fs::read_dir(&self.path).map_err(here)? {
            let entry = entry.map_err(here)?;
            let there = |error| (entry.path(), error);
            let (kind, name) = (entry.file_type().map_err(there)?, entry.file_name());
            let open = |flags| Ok(open_in(&self.file, name.as_os_str(), flags)?.into());
            if kind.is_dir() {
                let file: io::Result<File> = open(OFlag::O_RDONLY | OFlag::O_DIRECTORY);
                let below = Self {
                    file: file.map_err(there)?,
                    path: entry.path(),
                };
                below.settle()?;
            } else if kind.is_file() {
                let file: io::Result<File> = open(OFlag::O_RDONLY | UNWAITING);
                file.and_then(|file| file.sync_all()).map_err(there)?;
            }
        }
        self.sync().map_err(here)
    }

    /// Resolves `name`: the folder with the file, and the file's name in it.
    fn place<'a>(&self, name: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        match name.rsplit_once('/') {
            Some((above, name)) => {
                let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
                Ok((open_in(&self.file, above, flags)?, name))
            }
            None => Ok((self.file.as_fd().try_clone_to_owned()?, name)),
        }
    }
}

/// Renames the folder or file at `from` to `to`, which must not exist, and syncs the parent folder.
///
/// # Errors
/// `AlreadyExists` when the name exists; errors of system calls.
pub fn publish(from: &Path, to: &Path) -> io::Result<()> {
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE) {
        // For file systems without this flag: `rename` refuses everything except an empty folder.
        Err(Errno::EINVAL) if !to.exists() => fs::rename(from, to)?,
        renamed => renamed?,
    }
    let above = to.parent().filter(|above| !above.as_os_str().is_empty());
    Folder::open(above.unwrap_or(Path::new(".")))?.sync()
}

/// A temporary file next to its final name; removed unless [kept](Self::keep).
#[derive(Debug)]
pub(crate) struct Unfinished {
    folder: Arc<OwnedFd>,
    name: OsString,
    temporary: OsString,
    /// The open file, whose lock marks it as being written.
    file: Option<File>,
    registration: Registration,
}

impl Unfinished {
    /// Creates a temporary file for `name`, replacing one that a dead process left.
    fn begin(folder: OwnedFd, name: &OsStr) -> io::Result<(File, Self)> {
        for number in 1..=MOST_WRITERS {
            let temporary = temporary(name, number);
            let Some(file) = claim(&folder, &temporary)? else {
                continue;
            };
            let folder = Arc::new(folder);
            let rest = Rest::File(Arc::clone(&folder), temporary.clone());
            let own = Self {
                folder,
                name: name.to_owned(),
                temporary,
                file: Some(file.try_clone()?),
                registration: Registration::of(rest),
            };
            return Ok((file, own));
        }
        Err(io::Error::other(format!(
            "{MOST_WRITERS} processes write it already"
        )))
    }

    /// Renames the file to its final name, replacing an existing file.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        self.registration
            .finish(|| renameat(&self.folder, &*self.temporary, &self.folder, &*self.name))?;
        self.file = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.file.is_some() {
            // On failure it only uses disk space.
            let _ = unlink(&self.folder, &*self.temporary);
        }
    }
}

/// Creates and locks the file called `name`; `None` if another process is writing it.
fn claim(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<File>> {
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
    for _ in 0..2 {
        match open_in(folder, name, flags) {
            Ok(file) => {
                let file = File::from(file);
                // Another process may have removed it as abandoned before it was locked.
                let own = file.try_lock().is_ok() && file.metadata()?.nlink() == 1;
                return Ok(own.then_some(file));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = open_in(folder, name, OFlag::O_WRONLY | UNWAITING);
                if let Ok(there) = there.map(File::from)
                    && there.metadata()?.is_file()
                    && there.try_lock().is_err()
                {
                    return Ok(None);
                }
                unlink(folder, name)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn unlink<P: ?Sized + nix::NixPath>(folder: &impl AsFd, name: &P) -> io::Result<()> {
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a path beneath `folder`, without following links.
fn open_in<P: ?Sized + nix::NixPath>(
    folder: &impl AsFd,
    name: &P,
    flags: OFlag,
) -> io::Result<OwnedFd> {
    let mut how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    if flags.contains(OFlag::O_CREAT) {
        how = how.mode(Mode::from_bits_truncate(0o666));
    }
    openat2(folder, name, how).map_err(|errno| match errno {
        Errno::ELOOP | Errno::EXDEV => io::Error::new(
            io::ErrorKind::InvalidInput,
            "a link to elsewhere stands in its place; remove it",
        ),
        errno => errno.into(),
    })
}

/// Returns the file if it is a regular one with a single hard link.
fn plain(file: OwnedFd) -> io::Result<File> {
    let file = File::from(file);
    let data = file.metadata()?;
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !data.is_file() {
        return refused("it is no plain file; remove it");
    }
    if data.nlink() > 1 {
        return refused("it has a second name (a hard link), perhaps elsewhere; put a copy there");
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
