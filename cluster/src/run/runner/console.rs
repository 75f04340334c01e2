//! The destination of one output of a node.
//!
//! Up to `MOST_KEPT` bytes are kept, so that no guest fills the disk of the host; a last line in
//! the file marks truncated output. The kept part depends on the node alone, not on the host with
//! the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Kept bytes of each output.
const MOST_KEPT: u64 = 64 << 20;

/// Follows them in a truncated output.
const REST: &str = "\n[more was written than the 64 MiB that are kept]\n";

/// One output of a node.
#[derive(Debug)]
pub struct ConsoleLog {
    place: ConsoleSink,
    /// Bytes in the file, or for it: more than [`MOST_KEPT`] with [`REST`].
    written: u64,
}

#[derive(Debug)]
enum ConsoleSink {
    /// Its file in the run directory.
    File(BufWriter<File>),
    /// Bytes for the host with the run directory that were not taken yet.
    Relayed(Vec<u8>),
}

impl ConsoleLog {
    /// Appends to `file`, which has `written` bytes already.
    pub(crate) fn file(file: BufWriter<File>, written: u64) -> Self {
        let place = ConsoleSink::File(file);
        Self { place, written }
    }

    /// For another host, which has `written` bytes already.
    pub(crate) fn relayed(written: u64) -> Self {
        let place = ConsoleSink::Relayed(Vec::new());
        Self { place, written }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = MOST_KEPT.saturating_sub(self.written);
        let kept = usize::try_from(room).map_or(bytes.len(), |room| bytes.len().min(room));
        self.put(&bytes[..kept])?;
        if kept < bytes.len() && !self.is_full() {
            self.put(REST.as_bytes())?;
        }
        Ok(())
    }

    /// Writes `bytes` without a check of the limit.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        match &mut self.place {
            ConsoleSink::File(file) => write_lines(file, bytes),
            ConsoleSink::Relayed(waiting) => {
                waiting.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// True if the node wrote more than is kept.
    pub(crate) fn is_full(&self) -> bool {
        self.written > MOST_KEPT
    }

    /// Bytes in the file, or for it.
    pub(super) fn position(&self) -> u64 {
        self.written
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.place {
            ConsoleSink::File(file) => file.flush(),
            ConsoleSink::Relayed(_) => Ok(()),
        }
    }

    /// Takes the bytes for another host.
    pub(super) fn take(&mut self) -> Vec<u8> {
        match &mut self.place {
            ConsoleSink::File(_) => Vec::new(),
            ConsoleSink::Relayed(waiting) => std::mem::take(waiting),
        }
    }
}

/// Writes `bytes` so that whole lines reach the file at once, for observers of the running run.
///
/// # Errors
/// If the file cannot be written.
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
        let file = BufWriter::new(File::create(&path).unwrap());
        let mut log = ConsoleLog::file(file, 0);
        log.write(b"login").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        log.write(b": root\n# ").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"login: root\n# ");
    }

    #[test]
    fn an_output_ends_with_what_is_kept_of_it() {
        let mut log = ConsoleLog::relayed(MOST_KEPT - 3);
        log.write(b"abc").unwrap();
        assert!(!log.is_full());
        for more in [&b"def"[..], b"", b"ghi"] {
            log.write(more).unwrap();
        }
        assert!(log.is_full());
        assert_eq!(log.take(), [b"abc", REST.as_bytes()].concat());
        // The state after the run continues from a checkpoint.
        let mut again = ConsoleLog::relayed(log.position());
        again.write(b"jkl").unwrap();
        assert!(again.is_full() && again.take().is_empty());
    }
}
