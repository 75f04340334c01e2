//! Input files, opened without waiting.
//!
//! A run directory may have a pipe or a device in place of a file. Opening or reading it might wait
//! for its other end, or never end.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Folders whose pipes and devices users name on purpose, as shells do for `<(command)`.
const STREAMS: [&str; 2] = ["/dev", "/proc"];

/// Opens the file at `path` for reading. Only paths below `/dev` and `/proc` may be pipes or
/// devices.
/// devices.
///
/// # Errors
/// When it is not a regular file, or the system call fails.
pub fn open_input(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    if STREAMS.iter().any(|folder| path.starts_with(folder)) {
        return File::open(path);
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    match kind.is_file() {
        true => Ok(file),
        false if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a pipe or a device, not a regular file; remove it",
        )),
    }
}

/// Reads the bytes of the file at `path`.
///
/// # Errors
/// As for [`open_input`].
pub fn read_input(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_input(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the text of the file at `path`.
///
/// # Errors
/// As for [`open_input`]; and when it is not UTF-8.
pub fn read_input_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::new();
    open_input(path)?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn pipes_and_devices_in_place_of_files_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        mkfifo(&at("pipe"), Mode::from_bits_truncate(0o600)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zeros")).unwrap();
        for name in ["pipe", "zeros"] {
            let error = open_input(at(name)).unwrap_err();
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
        let error = open_input(folder.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        std::fs::write(at("text"), "text").unwrap();
        assert_eq!(read_input_text(at("text")).unwrap(), "text");
        // Streams are allowed at these paths.
        assert!(open_input(Path::new("/dev/null")).is_ok());
    }
}
