//! Shows the workload's output while the run continues.
//!
//! A thread reads the files `stdout` and `stderr` of the run directory as they grow. The shown
//! output equals the kept one, on any host. Begun by the commands that run a scenario.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::observe::progress::ProgressLine;
use crate::results::stream::Stream;
use belljar_files::open_input;

/// Time between reads.
const INTERVAL: Duration = Duration::from_millis(50);
/// Bytes that are shown at a time.
const PIECE: u64 = 1 << 20;

/// The forwarding of the workload's output.
pub struct OutputFollower {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl OutputFollower {
    /// Shows new output in `directory` on this process's standard output and error, above `line`.
    pub fn start(directory: &Path, line: ProgressLine) -> Self {
        Self::hand(directory, move |stream, bytes| {
            line.above(|| {
                // A closed output is no error of the run.
                let _ = match stream {
                    Stream::Stderr => write_to(io::stderr().lock(), bytes),
                    _ => write_to(io::stdout().lock(), bytes),
                };
            });
        })
    }

    /// Passes the same to `show`.
    fn hand(directory: &Path, mut show: impl FnMut(Stream, &[u8]) + Send + 'static) -> Self {
        let streams = [Stream::Stdout, Stream::Stderr];
        let open = |stream: Stream| {
            let mut file = open_input(directory.join(stream.file(0)?)).ok()?;
            // A resumed run has shown the first part before.
            file.seek(SeekFrom::End(0)).ok()?;
            Some((stream, file))
        };
        let mut files: Vec<(Stream, File)> = streams.into_iter().filter_map(open).collect();
        let ended = Arc::new(AtomicBool::new(false));
        let told = ended.clone();
        let thread = thread::spawn(move || {
            loop {
                // Read before the files, so that all output up to this moment is shown.
                let is_last = told.load(Ordering::Acquire);
                for (stream, file) in &mut files {
                    read_on(file, |bytes| show(*stream, bytes));
                }
                if is_last {
                    return;
                }
                thread::park_timeout(INTERVAL);
            }
        });
        Self { ended, thread }
    }

    /// Shows the rest of the files.
    pub fn finish(self) {
        self.ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // After a panic no more can be shown.
        let _ = self.thread.join();
    }
}

/// Passes the rest of `file` to `show`.
fn read_on(file: &mut File, mut show: impl FnMut(&[u8])) {
    loop {
        let mut bytes = Vec::new();
        let read = Read::by_ref(file).take(PIECE).read_to_end(&mut bytes);
        if read.is_err() || bytes.is_empty() {
            return;
        }
        show(&bytes);
    }
}

fn write_to(mut out: impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn what_is_written_from_then_on_is_shown_to_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout");
        // The file for standard error is missing.
        std::fs::write(&path, "before\n").unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let here = shown.clone();
        let follower = OutputFollower::hand(folder.path(), move |stream, bytes| {
            assert_eq!(stream, Stream::Stdout);
            here.lock().unwrap().extend_from_slice(bytes);
        });
        let mut file = File::options().append(true).open(path).unwrap();
        let line = vec![b'x'; 3 << 20];
        file.write_all(&line).unwrap();
        follower.finish();
        assert!(*shown.lock().unwrap() == line);
    }
}
