//! A folder whose files stay in it: run directories and what is in them.
//!
//! Run directories may come from anybody. What stands in one in the place of a file may be a
//! link that leads elsewhere, and a run that continues would cut and write there. So every file
//! in a [`Folder`] is opened beneath it (openat2): no name and no link leads out, a file that
//! is new is created exclusively, and one that is written on is a plain file without a second
//! name. A name may have folders in it, separated by `/`.
//!
//! What must last is synced by whoever gives the folder a name that says so
//! ([`Folder::settle`]), files first, then folders.

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

/// Temporary files of one output at once, at most: each has a process that writes it.
const MOST_WRITERS: u32 = 100;

/// Where a pipe stands in the place of a file, nobody waits for its other end.
const UNWAITING: OFlag = OFlag::O_NONBLOCK;

/// A folder that is open.
#[derive(Debug)]
pub struct Folder {
    file: File,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder at `path`, wherever that leads: it is the user's own word.
    ///
    /// # Errors
    /// When it is none, or the host refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_DIRECTORY;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder itself, such as to lock it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A new file called `name`, in place of what stands there, to be written and read.
    ///
    /// # Errors
    /// When the host refuses, or a link stands in the way to it.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let (folder, name) = self.place(name)?;
        unlink(&folder, name)?;
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        Ok(open_in(&folder, name, flags)?.into())
    }

    /// The file called `name`, to be written on from wherever one likes.
    ///
    /// # Errors
    /// When it is not there, is no plain file of this folder alone, or the host refuses.
    pub fn existing(&self, name: &str) -> io::Result<File> {
        let (folder, name) = self.place(name)?;
        plain(open_in(&folder, name, OFlag::O_WRONLY | UNWAITING)?)
    }

    /// The file called `name`, created if need be, to be written on at its end.
    ///
    /// # Errors
    /// As [`existing`](Self::existing).
    pub fn append(&self, name: &str) -> io::Result<File> {
        let (folder, name) = self.place(name)?;
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | UNWAITING;
        plain(open_in(&folder, name, flags)?)
    }

    /// Makes the file called `name`, in place of what stands there, of all that `fill` writes,
    /// on the disk, or not at all.
    ///
    /// # Errors
    /// What `fill` fails with, or when the host refuses.
    pub fn write_whole<E: From<io::Error>>(
        &self,
        name: &str,
        fill: impl FnOnce(&mut File) -> Result<(), E>,
    ) -> Result<(), E> {
        self.put(name, |file| fill(file).and_then(|()| Ok(file.sync_all()?)))
    }

    /// As [`write_whole`](Self::write_whole), of `bytes`, but that the disk may take its time.
    ///
    /// # Errors
    /// When the host refuses.
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

    /// A temporary file that becomes the one called `name`, and its guard.
    pub(crate) fn unfinished(&self, name: &str) -> io::Result<(File, Unfinished)> {
        let (folder, name) = self.place(name)?;
        Unfinished::begin(folder, name.as_ref())
    }

    /// As [`unfinished`](Self::unfinished), for a name in the folder itself.
    pub(crate) fn unfinished_os(&self, name: &OsStr) -> io::Result<(File, Unfinished)> {
        Unfinished::begin(self.file.as_fd().try_clone_to_owned()?, name)
    }

    /// Opens the file called `name` to be read.
    ///
    /// # Errors
    /// When it is not there, is no regular file, or the host refuses.
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

    /// Makes the folder called `name`, which is not there yet.
    ///
    /// # Errors
    /// When something has that name, or the host refuses.
    pub fn new_folder(&self, name: &str) -> io::Result<Self> {
        mkdirat(&self.file, name, Mode::from_bits_truncate(0o777))?;
        self.folder(name)
    }

    /// The folder called `name`, which is made if need be, with those above it.
    ///
    /// # Errors
    /// When it is something else, or the host refuses.
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

    /// Gives the file `from` the name `to`, in place of what stands there.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (self.place(from)?, self.place(to)?);
        Ok(renameat(&from_folder, from, &to_folder, to)?)
    }

    /// Removes the file called `name`, if it is there.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let (folder, name) = self.place(name)?;
        unlink(&folder, name)
    }

    /// Sees that what was done to the names in it lasts.
    ///
    /// # Errors
    /// When the host fails.
    pub fn sync(&self) -> io::Result<()> {
        match self.file.sync_all() {
            // Some file systems have nothing to sync of folders.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }

    /// Sees everything that is in it onto the disk: files, then the folders that name them.
    /// Links and sockets are passed over.
    ///
    /// # Errors
    /// When the disk does not take it: which file or folder, and why.
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

    /// The folder that holds the file called `name`, and what it is called there.
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

/// Gives the folder or file at `from` the name `to`, which nothing has, and sees that it
/// keeps it.
///
/// # Errors
/// `AlreadyExists` when something has that name; when the host refuses.
pub fn publish(from: &Path, to: &Path) -> io::Result<()> {
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE) {
        // File systems that cannot tell: what is no empty folder is refused all the same.
        Err(Errno::EINVAL) if !to.exists() => fs::rename(from, to)?,
        renamed => renamed?,
    }
    let above = to.parent().filter(|above| !above.as_os_str().is_empty());
    Folder::open(above.unwrap_or(Path::new(".")))?.sync()
}

/// A temporary file beside the one that it becomes; removed unless [kept](Self::keep).
#[derive(Debug)]
pub(crate) struct Unfinished {
    folder: Arc<OwnedFd>,
    name: OsString,
    temporary: OsString,
    /// The open file, whose lock says that it is being written.
    file: Option<File>,
    registration: Registration,
}

impl Unfinished {
    /// Creates a temporary file for `name`, and replaces one that an ended process left.
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

    /// Gives the file its name; a file of this name is replaced.
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
            // A rest would only take room.
            let _ = unlink(&self.folder, &*self.temporary);
        }
    }
}

/// The new file called `name`, locked; `None` where another process is writing it.
fn claim(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<File>> {
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
    for _ in 0..2 {
        match open_in(folder, name, flags) {
            Ok(file) => {
                let file = File::from(file);
                // Another process may have taken it for a rest before the lock.
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

/// Opens what is beneath `folder`, and nothing that a link leads to.
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

/// The file, if it is a plain one that has no second name.
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
