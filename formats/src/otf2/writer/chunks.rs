//! A file of records in chunks, as OTF2 has it.
//!
//! All chunks except the last have the size declared in the archive's anchor, and begin with the numbers of their first and last
//! event. A record is never split. A file is only open while a piece is written to it, so that there may be as many files as threads;
//! memory of each is `PIECE` plus a record. Used by the writers of definitions and events.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::records::{ExportError, failed};

/// Bytes that are written at once.
const PIECE: usize = 32 << 10;
/// The length of a chunk's head.
const HEAD: u64 = 18;
/// Offset in a chunk of the number of its last event.
const LAST_EVENT: u64 = 10;
/// Fills a chunk.
const END_OF_CHUNK: u8 = 0;
/// Ends a file.
const END_OF_FILE: [u8; 2] = [2, 1];

/// A growing file.
#[derive(Debug)]
pub(super) struct Chunks {
    path: PathBuf,
    /// Bytes of a chunk.
    size: u64,
    /// Bytes not written yet.
    piece: Vec<u8>,
    /// Bytes of the file including the piece.
    length: u64,
    /// The offset of the chunk.
    start: u64,
    /// Number of events so far.
    events: u64,
}

impl Chunks {
    /// Creates a file with chunks of `size` bytes.
    pub(super) fn create(path: &Path, size: u64) -> Result<Self, ExportError> {
        File::create(path).map_err(failed(path))?;
        let mut own = Self {
            path: path.to_owned(),
            size,
            piece: Vec::new(),
            length: 0,
            start: 0,
            events: 0,
        };
        own.head();
        Ok(own)
    }

    /// Returns the number of events so far.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    fn push(&mut self, bytes: &[u8]) {
        self.piece.extend_from_slice(bytes);
        self.length += bytes.len() as u64;
    }

    fn head(&mut self) {
        self.start = self.length;
        let first = (self.events + 1).to_le_bytes();
        self.push(b"\x03B");
        self.push(&first);
        self.push(&[0; 8]);
    }

    /// Begins a new chunk if `bytes` more, which must not be split, do not fit into this one. Returns true if it did.
    pub(super) fn make_room(&mut self, bytes: usize) -> Result<bool, ExportError> {
        // One byte is reserved for the end of the chunk, two for the end of the file.
        let most = self.size - END_OF_FILE.len() as u64 - 1;
        let within = self.length - self.start + bytes as u64;
        if within <= most {
            return Ok(false);
        }
        if HEAD + bytes as u64 > most {
            let path = self.path.clone();
            return Err(ExportError::Long { path, bytes, most });
        }
        let rest = self.size - (self.length - self.start);
        self.end_chunk()?;
        let filling = vec![END_OF_CHUNK; rest as usize];
        self.push(&filling);
        self.head();
        Ok(true)
    }

    /// Appends a record that fits, with this many events.
    pub(super) fn append(&mut self, record: &[u8], events: u64) -> Result<(), ExportError> {
        self.push(record);
        self.events += events;
        match self.piece.len() >= PIECE {
            true => self.write(None),
            false => Ok(()),
        }
    }

    /// Writes the pending bytes, and the chunk's last event.
    fn end_chunk(&mut self) -> Result<(), ExportError> {
        self.write(Some((self.start + LAST_EVENT, self.events)))
    }

    fn write(&mut self, last: Option<(u64, u64)>) -> Result<(), ExportError> {
        let written = OpenOptions::new().write(true).open(&self.path);
        let written = written.and_then(|mut file| {
            file.seek(SeekFrom::End(0))?;
            file.write_all(&self.piece)?;
            if let Some((place, event)) = last {
                file.seek(SeekFrom::Start(place))?;
                file.write_all(&event.to_le_bytes())?;
            }
            Ok(())
        });
        self.piece.clear();
        written.map_err(failed(&self.path))
    }

    /// Ends the file.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        self.push(&END_OF_FILE);
        self.end_chunk()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_and_know_their_events() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("0.evt");
        let mut chunks = Chunks::create(&path, 64).expect("it is made");
        for event in 0..5 {
            chunks.make_room(20).expect("there is room");
            chunks.append(&[event + 40; 20], 1).expect("it is written");
        }
        assert!(chunks.make_room(44).is_err());
        chunks.finish().expect("it ends");
        let bytes = std::fs::read(&path).expect("it is there");
        let heads = [0, 64, 128].map(|at| (bytes[at], bytes[at + 2], bytes[at + 10]));
        assert_eq!(heads, [(3, 1, 2), (3, 3, 4), (3, 5, 5)]);
        assert_eq!(bytes[58..64], [0; 6]);
        assert_eq!(bytes[bytes.len() - 2..], END_OF_FILE);
        assert_eq!(bytes.len(), 128 + 18 + 20 + 2);
    }
}
