//! What the command writes, shown while the run continues.
//!
//! Reads the files `stdout` and `stderr` of the run directory as they grow, in a thread of its own.
//! Wherever the nodes run, what is shown is what is kept. Begun by the commands that run a scenario.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::observe::progress::Line;
use crate::results::stream::Stream;
use belljar_files::open_input;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(50);
/// Bytes that are shown at a time.
const PIECE: u64 = 1 << 20;

/// The command's output on its way to this process's.
pub struct Follower {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Follower {
    /// Shows what is added to the outputs in `directory` from now on, on this process's standard
    /// output and error, above `line`.
    pub fn start(directory: &Path, line: Line) -> Self {
        Self::hand(directory, move |stream, bytes| {
            line.above(|| {
                // Nobody who reads is no fault of the run's.
                let _ = match stream {
                    Stream::Stderr => write_to(io::stderr().lock(), bytes),
                    _ => write_to(io::stdout().lock(), bytes),
                };
            });
        })
    }

    /// Hands the same to `show`.
    fn hand(directory: &Path, mut show: impl FnMut(Stream, &[u8]) + Send + 'static) -> Self {
        let streams = [Stream::Stdout, Stream::Stderr];
        let open = |stream: Stream| {
            let mut file = open_input(directory.join(stream.file(0)?)).ok()?;
            // Of a run that continues, the first part was shown before.
            file.seek(SeekFrom::End(0)).ok()?;
            Some((stream, file))
        };
        let mut files: Vec<(Stream, File)> = streams.into_iter().filter_map(open).collect();
        let ended = Arc::new(AtomicBool::new(false));
        let told = ended.clone();
        let thread = thread::spawn(move || {
            loop {
                // Looked at first, so that what was written until then is shown.
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

    /// Shows the rest: everything that is in the files by now.
    pub fn finish(self) {
        self.ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // One that panicked has shown what it could.
        let _ = self.thread.join();
    }
}

/// Hands what `file` has more to `show`.
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
        // There is no file for standard error.
        std::fs::write(&path, "before\n").unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let here = shown.clone();
        let follower = Follower::hand(folder.path(), move |stream, bytes| {
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
