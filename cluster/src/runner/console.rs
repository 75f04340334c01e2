//! Where a node's console goes.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

/// What a node wrote to its console.
#[derive(Debug)]
pub enum ConsoleLog {
    /// Into its file in the run directory.
    File(BufWriter<File>),
    /// To the host that has the run directory.
    Relayed {
        /// What was not taken yet.
        waiting: Vec<u8>,
        /// Bytes so far.
        written: u64,
    },
}

impl ConsoleLog {
    /// For another host, which has `written` bytes already.
    pub(crate) fn relayed(written: u64) -> Self {
        Self::Relayed {
            waiting: Vec::new(),
            written,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => write_lines(file, bytes),
            Self::Relayed { waiting, written } => {
                waiting.extend_from_slice(bytes);
                *written += bytes.len() as u64;
                Ok(())
            }
        }
    }

    /// Bytes so far.
    pub(super) fn position(&mut self) -> io::Result<u64> {
        match self {
            Self::File(file) => file.stream_position(),
            Self::Relayed { written, .. } => Ok(*written),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Relayed { .. } => Ok(()),
        }
    }

    /// What is for another host.
    pub(super) fn take(&mut self) -> Vec<u8> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Relayed { waiting, .. } => std::mem::take(waiting),
        }
    }
}

impl From<BufWriter<File>> for ConsoleLog {
    fn from(file: BufWriter<File>) -> Self {
        Self::File(file)
    }
}

/// Writes `bytes` so that whole lines reach the file at once, for those who follow it while
/// the run goes on.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write_lines(file: &mut BufWriter<File>, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    if bytes.contains(&b'\n') {
        file.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_in_the_file_while_the_run_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node0.log");
        let mut log = ConsoleLog::from(BufWriter::new(File::create(&path).unwrap()));
        log.write(b"login").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        log.write(b": root\n# ").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"login: root\n# ");
    }
}
