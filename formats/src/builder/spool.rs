//! Calls that wait for their position in the trace.
//!
//! Threads come one after the other, while the trace has all calls in the order of their exits. So each thread's calls are written to a temporary file, and
//! read again in pieces of all threads at once. Used by the readers and by the writer of the trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use belljar_trace::{Details, Event, codec};

use crate::builder::{ImportError, failed};

/// Bytes of all pieces in memory together.
const MEMORY: u64 = 64 << 20;
/// Least and most bytes of a piece.
const PIECE: (u64, u64) = (4 << 10, 256 << 10);

/// The range of a thread's calls in the file.
#[derive(Clone, Copy, Debug)]
struct SpoolRange {
    at: u64,
    end: u64,
}

/// A temporary file of calls, thread by thread.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    file: BufWriter<File>,
    length: u64,
    stretches: Vec<SpoolRange>,
    record: Vec<u8>,
}

impl Spool {
    /// Creates an empty one in `folder`, as an unnamed file.
    pub(crate) fn new(folder: &Path) -> Result<Self, ImportError> {
        let file = tempfile::tempfile_in(folder).map_err(failed(folder))?;
        Ok(Self {
            path: folder.join("(temporary file)"),
            file: BufWriter::new(file),
            length: 0,
            stretches: Vec::new(),
            record: Vec::new(),
        })
    }

    /// Begins another thread, to which the following calls belong.
    pub(crate) fn begin_thread(&mut self) {
        let at = self.length;
        self.stretches.push(SpoolRange { at, end: at });
    }

    /// Adds a call of the thread, which is not entered before the previous one.
    pub(crate) fn push(&mut self, event: &Event) -> Result<(), ImportError> {
        self.record.clear();
        let details = event.details.0.as_deref();
        let encoded = codec::encode(&(event, details), &mut self.record);
        encoded.map_err(|error| failed(&self.path)(io::Error::other(error.to_string())))?;
        let length = (self.record.len() as u32).to_le_bytes();
        let written = self.file.write_all(&length);
        let written = written.and_then(|()| self.file.write_all(&self.record));
        written.map_err(failed(&self.path))?;
        self.length += (length.len() + self.record.len()) as u64;
        if let Some(stretch) = self.stretches.last_mut() {
            stretch.end = self.length;
        }
        Ok(())
    }

    /// Passes all calls to `to`, in the order of their exits. Calls without exit are sorted by their entries.
    pub(crate) fn merge<E: From<ImportError>>(
        self,
        mut to: impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = self.path;
        let file = self.file.into_inner();
        let mut file = file.map_err(|error| failed(&path)(error.into_error()))?;
        let threads = self.stretches.len().max(1) as u64;
        let size = (MEMORY / threads).clamp(PIECE.0, PIECE.1);
        let mut pieces: Vec<Piece> = self.stretches.into_iter().map(Piece::of).collect();
        let mut first = BinaryHeap::new();
        let mut fronts: Vec<Option<Event>> = Vec::new();
        for (thread, piece) in pieces.iter_mut().enumerate() {
            let front = piece.next(&mut file, size).map_err(failed(&path))?;
            first.extend(front.as_ref().map(|event| Reverse((place(event), thread))));
            fronts.push(front);
        }
        while let Some(Reverse((_, thread))) = first.pop() {
            let next = pieces[thread].next(&mut file, size);
            let next = next.map_err(failed(&path))?;
            first.extend(next.as_ref().map(|event| Reverse((place(event), thread))));
            if let Some(event) = std::mem::replace(&mut fronts[thread], next) {
                to(event)?;
            }
        }
        Ok(())
    }
}

/// Returns the sort key of a call.
fn place(event: &Event) -> (u64, u32) {
    (event.exit.unwrap_or(event.entry), event.node)
}

/// Data of a thread that was read and not passed on yet.
#[derive(Debug)]
struct Piece {
    stretch: SpoolRange,
    bytes: Vec<u8>,
    used: usize,
}

impl Piece {
    fn of(stretch: SpoolRange) -> Self {
        Self {
            stretch,
            bytes: Vec::new(),
            used: 0,
        }
    }

    fn next(&mut self, file: &mut File, size: u64) -> io::Result<Option<Event>> {
        if !self.has(file, 4, size)? {
            return Ok(None);
        }
        let length: [u8; 4] = std::array::from_fn(|index| self.bytes[self.used + index]);
        let whole = 4 + u32::from_le_bytes(length) as usize;
        if !self.has(file, whole, size)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let record = &self.bytes[self.used + 4..self.used + whole];
        let (mut event, details): (Event, Option<Details>) =
            codec::decode(record).map_err(|error| io::Error::other(error.to_string()))?;
        self.used += whole;
        event.details.0 = details.map(Box::new);
        Ok(Some(event))
    }

    /// Ensures that this many bytes are loaded, if the thread has them.
    fn has(&mut self, file: &mut File, bytes: usize, size: u64) -> io::Result<bool> {
        if self.bytes.len() - self.used >= bytes {
            return Ok(true);
        }
        self.bytes.drain(..self.used);
        self.used = 0;
        let missing = (bytes - self.bytes.len()) as u64;
        let wanted = missing.max(size).min(self.stretch.end - self.stretch.at);
        file.seek(SeekFrom::Start(self.stretch.at))?;
        let read = file.take(wanted).read_to_end(&mut self.bytes)? as u64;
        self.stretch.at += read;
        Ok(self.bytes.len() >= bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::calls::{ImportedThread, blank};

    #[test]
    fn threads_become_one_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = Spool::new(folder.path()).expect("a file");
        for rank in 0..3u32 {
            spool.begin_thread();
            for turn in 0..2000u64 {
                let place = ImportedThread {
                    node: rank,
                    process: 0,
                    thread: 0,
                    rank,
                };
                let entry = turn * 10 + u64::from(rank);
                let mut event = blank(place, 1, entry, Some(entry + 3));
                event.details.0 = Some(Box::new(Details {
                    window: Some(rank),
                    ..Details::default()
                }));
                spool.push(&event).expect("it is written");
            }
        }
        let mut seen = Vec::new();
        let all = spool.merge(|event| {
            let window = event.details.0.and_then(|details| details.window);
            assert_eq!(window, Some(event.rank));
            seen.push((event.exit, event.rank));
            Ok::<(), ImportError>(())
        });
        all.expect("it is read");
        assert_eq!(seen.len(), 6000);
        assert!(seen.is_sorted());
    }
}
