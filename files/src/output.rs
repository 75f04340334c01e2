//! Atomic output files.
//!
//! An output is written to a temporary file next to it, and renamed when it is complete. A failed or
//! abandoned write removes its temporary file. The rename replaces a link in place of the file, so
//! that files outside the folder are not written.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::folder::{Folder, Unfinished};

/// Folders whose entries are written directly, such as `/dev/stdout`.
const STREAMS: [&str; 2] = ["/dev", "/proc"];

/// A file that is being written. [`finish`](Self::finish) gives it its name.
pub struct OutputFile {
    to: BufWriter<File>,
    /// The temporary file; `None` if the output is a stream.
    own: Option<Unfinished>,
    /// True if it replaces a file.
    replaces: bool,
    path: PathBuf,
}

impl fmt::Debug for OutputFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("OutputFile").field(&self.path).finish()
    }
}

impl OutputFile {
    /// Begins the file at `path`, which will replace an existing one.
    ///
    /// # Errors
    /// When a folder, pipe or socket has that name, or the system call fails. The error names the
    /// file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path).map_err(|error| named(path, &error))
    }

    /// Begins the file called `name` in a folder.
    ///
    /// # Errors
    /// When the system call fails. The error names the file.
    pub fn create_in(folder: &Folder, name: &str) -> io::Result<Self> {
        let path = folder.path().join(name);
        let begun = folder.unfinished(name);
        begun
            .map(|(file, own)| Self::new(file, Some(own), path.clone()))
            .map_err(|error| named(&path, &error))
    }

    fn new(file: File, own: Option<Unfinished>, path: PathBuf) -> Self {
        let to = BufWriter::with_capacity(1 << 16, file);
        let replaces = own.is_some() && fs::symlink_metadata(&path).is_ok();
        Self {
            to,
            own,
            replaces,
            path,
        }
    }

    fn begin(path: &Path) -> io::Result<Self> {
        if STREAMS.iter().any(|folder| path.starts_with(folder)) && !is_plain_or_absent(path) {
            let file = File::options().write(true).open(path)?;
            return Ok(Self::new(file, None, path.to_owned()));
        }
        let name = path.file_name();
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
        let before = fs::symlink_metadata(path).ok();
        if let Some(kind) = before.as_ref().map(fs::Metadata::file_type)
            && !kind.is_file()
            && !kind.is_symlink()
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                match kind.is_fifo() || kind.is_socket() {
                    true => "a pipe or socket has this name; choose another",
                    false => "a folder or device has this name; choose another",
                },
            ));
        }
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let folder = Folder::open(above.unwrap_or(Path::new(".")))?;
        let (file, own) = folder.unfinished_os(name)?;
        if let Some(before) = before.filter(|before| before.file_type().is_file()) {
            let mode = before.permissions().mode() & 0o777;
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(Self::new(file, Some(own), path.to_owned()))
    }

    /// Flushes the buffer and renames the file to its final name.
    ///
    /// # Errors
    /// When the disk is full, or the system call fails: the file is then unchanged. The error names
    /// the file.
    pub fn finish(mut self) -> io::Result<()> {
        let own = self.own.take();
        let mut done = self.to.flush();
        if self.replaces {
            // Without this, a crash of the host may leave neither the old nor the new file.
            done = done.and_then(|()| self.to.get_ref().sync_data());
        }
        if let Some(own) = own {
            done = done.and_then(|()| own.keep());
        }
        done.map_err(|error| named(&self.path, &error))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes);
        written.map_err(|error| named(&self.path, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        flushed.map_err(|error| named(&self.path, &error))
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.to.seek(to)
    }
}

/// Writes the file at `path` atomically.
///
/// # Errors
/// As for [`OutputFile::create`] and [`OutputFile::finish`].
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.finish()
}

/// True if a temporary file can replace the file of this name.
fn is_plain_or_absent(path: &Path) -> bool {
    // Below /proc, and through links from /dev, a regular file is one that a process has open.
    let canonical = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    path.starts_with("/dev/shm") && canonical.starts_with("/dev/shm")
}

/// Adds the file's name to an error; an interruption keeps its kind, so that writers retry.
fn named(path: &Path, error: &io::Error) -> io::Error {
    if matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::BrokenPipe
    ) {
        return error.kind().into();
    }
    let text = error.to_string();
    match text.starts_with("cannot write ") {
        true => io::Error::new(error.kind(), text),
        false => io::Error::new(
            error.kind(),
            format!("cannot write {}: {text}", path.display()),
        ),
    }
}

/// The name of a temporary file for `name`, by number.
pub(crate) fn temporary(name: &OsStr, number: u32) -> OsString {
    let mut temporary = name.to_owned();
    temporary.push(".unfinished");
    if number > 1 {
        temporary.push(format!("-{number}"));
    }
    temporary
}

#[cfg(test)]
mod tests;
