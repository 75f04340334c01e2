//! Reading a trace.
//!
//! A file may be anybody's: every chunk is checked before it is decoded, and damage ends the events where
//! it begins, with all before it good. Called by the reader of all versions.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use belljar_trace::{Event, MAGIC, TraceError, TraceHeader, TraceState, TraceSummary, codec};

use super::accounts::AccountedChunk;
use super::timing::EventChunk;
use super::{
    ACCOUNTED, CHUNK_HEAD, Footer, KIND_ACCOUNTED_EVENTS, KIND_EVENTS, KIND_FOOTER, KIND_HEADER,
    MAX_PAYLOAD, PLAIN,
};

/// Reads a trace, event by event in the order of writing; what a run left that
/// was broken off, as far as it goes.
#[derive(Debug)]
pub(crate) struct EarlierReader {
    file: BufReader<File>,
    header: TraceHeader,
    accounted: bool,
    offset: u64,
    events: std::vec::IntoIter<Event>,
    read_events: u64,
    read_chunks: u64,
    state: TraceState,
    summary: Option<TraceSummary>,
}

/// A chunk's kind and decompressed payload.
struct Chunk {
    kind: u8,
    raw: Vec<u8>,
}

impl EarlierReader {
    /// Opens a trace file and reads its header.
    ///
    /// # Errors
    /// [`TraceError`] when the file cannot be read, is not a trace, or of another version.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let not_a_trace = |reason: String| TraceError::NotATrace {
            path: path.to_owned(),
            reason,
        };
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let mut start = [0; MAGIC.len() + 2];
        let got = fill(&mut file, &mut start).map_err(failed)?;
        if got < start.len() || start[..MAGIC.len()] != MAGIC {
            return Err(not_a_trace("it does not begin like one".to_owned()));
        }
        let version = u16::from_le_bytes([start[MAGIC.len()], start[MAGIC.len() + 1]]);
        if version != PLAIN && version != ACCOUNTED {
            return Err(TraceError::Version {
                path: path.to_owned(),
                version,
            });
        }
        let (chunk, length) = read_chunk(&mut file)
            .and_then(|chunk| chunk.ok_or_else(|| "its header is missing".to_owned()))
            .map_err(&not_a_trace)?;
        if chunk.kind != KIND_HEADER {
            return Err(not_a_trace("its first chunk is not a header".to_owned()));
        }
        let header: TraceHeader =
            codec::decode(&chunk.raw).map_err(|error| not_a_trace(error.to_string()))?;
        header
            .check()
            .map_err(|reason| not_a_trace(reason.to_owned()))?;
        Ok(Self {
            file,
            header,
            accounted: version == ACCOUNTED,
            offset: start.len() as u64 + length,
            events: Vec::new().into_iter(),
            read_events: 0,
            read_chunks: 0,
            state: TraceState::Reading,
            summary: None,
        })
    }

    /// What was known before the first event.
    pub(crate) fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Whether its events tell what their nodes' time went into.
    pub(crate) fn is_accounted(&self) -> bool {
        self.accounted
    }

    /// How the trace ended, once all events were taken.
    pub(crate) fn state(&self) -> &TraceState {
        &self.state
    }

    /// The end of the trace, once all events were taken, if it is complete.
    pub(crate) fn summary(&self) -> Option<&TraceSummary> {
        self.summary.as_ref()
    }

    /// Reads the next chunk. Sets the state at the end.
    fn advance(&mut self) {
        let next = match read_chunk(&mut self.file) {
            Ok(Some((chunk, length))) => self.take(chunk).map(|()| length),
            Ok(None) => Err("it ends without a footer: the run was broken off".to_owned()),
            Err(reason) => Err(reason),
        };
        match next {
            Ok(length) => self.offset += length,
            Err(reason) => {
                self.state = TraceState::Incomplete {
                    offset: self.offset,
                    reason,
                };
            }
        }
    }

    fn hand_out(&mut self, events: Option<Vec<Event>>) -> Result<(), String> {
        let events = events.ok_or("a chunk's times do not fit its events")?;
        self.read_chunks += 1;
        self.read_events += events.len() as u64;
        self.events = events.into_iter();
        Ok(())
    }

    fn take(&mut self, chunk: Chunk) -> Result<(), String> {
        match chunk.kind {
            KIND_EVENTS => {
                let chunk: EventChunk =
                    codec::decode(&chunk.raw).map_err(|error| error.to_string())?;
                self.hand_out(chunk.join())
            }
            KIND_ACCOUNTED_EVENTS if self.accounted => {
                let chunk: AccountedChunk =
                    codec::decode(&chunk.raw).map_err(|error| error.to_string())?;
                self.hand_out(chunk.join())
            }
            KIND_FOOTER => {
                let footer: Footer =
                    codec::decode(&chunk.raw).map_err(|error| error.to_string())?;
                if (footer.events, footer.chunks) != (self.read_events, self.read_chunks) {
                    return Err(format!(
                        "its footer speaks of {} events, {} were found",
                        footer.events, self.read_events
                    ));
                }
                if !matches!(self.file.read(&mut [0; 1]), Ok(0)) {
                    return Err("something follows its footer".to_owned());
                }
                self.summary = Some(footer.summary);
                self.state = TraceState::Complete;
                Ok(())
            }
            kind => Err(format!("there is a chunk of unknown kind {kind}")),
        }
    }
}

impl Iterator for EarlierReader {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.next() {
                return Some(event);
            }
            if self.state != TraceState::Reading {
                return None;
            }
            self.advance();
        }
    }
}

/// Reads a chunk and its length in the file; `None` at the end of the file.
fn read_chunk(file: &mut impl Read) -> Result<Option<(Chunk, u64)>, String> {
    let mut head = [0; CHUNK_HEAD];
    match fill(file, &mut head).map_err(|error| error.to_string())? {
        0 => return Ok(None),
        CHUNK_HEAD => {}
        _ => return Err("it breaks off within a chunk".to_owned()),
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (raw_length, stored_length) = (word(1) as usize, word(5) as usize);
    if raw_length > MAX_PAYLOAD || stored_length > MAX_PAYLOAD {
        return Err("a chunk's length is impossible".to_owned());
    }
    // Grows with what is really there: a damaged length costs nothing.
    let mut stored = Vec::new();
    file.take(stored_length as u64)
        .read_to_end(&mut stored)
        .map_err(|error| error.to_string())?;
    if stored.len() < stored_length {
        return Err("it breaks off within a chunk".to_owned());
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[..9]);
    hasher.update(&stored);
    if hasher.finalize() != word(9) {
        return Err("a chunk's checksum is wrong".to_owned());
    }
    let raw = zstd::bulk::decompress(&stored, raw_length)
        .map_err(|error| format!("a chunk cannot be decompressed: {error}"))?;
    if raw.len() != raw_length {
        return Err("a chunk's length is wrong".to_owned());
    }
    let length = (CHUNK_HEAD + stored_length) as u64;
    Ok(Some((Chunk { kind: head[0], raw }, length)))
}

/// Fills `into` as far as the file reaches; returns how far.
fn fill(file: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match file.read(&mut into[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
