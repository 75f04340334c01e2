//! Writing a trace.
//!
//! Bytes depend on events and their order alone. Called by conversions to what earlier Belljars read.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use belljar_trace::{
    Event, Fact, GroupMembers, MAGIC, Making, TraceError, TraceHeader, TraceSummary, codec,
};

use super::accounts::AccountedChunk;
use super::timing::EventChunk;
use super::{
    ACCOUNTED, Footer, KIND_ACCOUNTED_EVENTS, KIND_EVENTS, KIND_FOOTER, KIND_HEADER, MAX_PAYLOAD,
    PLAIN,
};

/// Events of a chunk, at most: enough for zstd to see the repetition, few enough to
/// lose when the host fails.
const CHUNK_EVENTS: usize = 8192;

/// Weight of a chunk's events, at most, in bytes as [`weight`] estimates.
const CHUNK_WEIGHT: usize = 4 << 20;

/// zstd's level: its default, fast enough to keep up with any number of nodes.
const LEVEL: i32 = 3;

/// Writes a trace file, chunk by chunk. What it writes depends on the events and their
/// order alone, not on how they were handed over.
#[derive(Debug)]
pub struct EarlierWriter {
    file: File,
    path: PathBuf,
    accounted: bool,
    pending: Vec<Event>,
    weight: usize,
    events: u64,
    chunks: u64,
}

impl EarlierWriter {
    /// Creates the file (an older one is replaced) and writes the header.
    ///
    /// # Errors
    /// [`TraceError::Io`] when the host refuses it.
    pub fn create(path: &Path, header: &TraceHeader) -> Result<Self, TraceError> {
        Self::over(create(path)?, path, header, false)
    }

    /// As [`create`](Self::create), for events that tell what their nodes' time went into.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_accounted(path: &Path, header: &TraceHeader) -> Result<Self, TraceError> {
        Self::over(create(path)?, path, header, true)
    }

    /// As [`create`](Self::create), to `file`, which is empty and at `path`.
    pub(crate) fn over(
        file: File,
        path: &Path,
        header: &TraceHeader,
        accounted: bool,
    ) -> Result<Self, TraceError> {
        let mut writer = Self {
            file,
            path: path.to_owned(),
            accounted,
            pending: Vec::new(),
            weight: 0,
            events: 0,
            chunks: 0,
        };
        let sound = header.check();
        sound.map_err(|why| writer.unencodable(why.to_owned()))?;
        let mut start = MAGIC.to_vec();
        let version = if accounted { ACCOUNTED } else { PLAIN };
        start.extend_from_slice(&version.to_le_bytes());
        writer.write(&start)?;
        writer.write_chunk(KIND_HEADER, header)?;
        Ok(writer)
    }

    /// Adds events. They reach the file when a chunk is full, or with [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`TraceError`] when a chunk could not be written; its events are lost then.
    pub fn append(&mut self, events: &[Event]) -> Result<(), TraceError> {
        for event in events {
            self.pending.push(event.clone());
            self.weight = self.weight.saturating_add(weight(event));
            if self.pending.len() >= CHUNK_EVENTS || self.weight >= CHUNK_WEIGHT {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes what was appended as a chunk of its own: for runs that are broken off. In a
    /// run that must be the same each time, call it at points of virtual time only.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn flush(&mut self) -> Result<(), TraceError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let events = std::mem::take(&mut self.pending);
        self.weight = 0;
        self.events += events.len() as u64;
        self.chunks += 1;
        if self.accounted {
            return self.write_chunk(KIND_ACCOUNTED_EVENTS, &AccountedChunk::split(events));
        }
        self.write_chunk(KIND_EVENTS, &EventChunk::split(events))
    }

    /// Events appended so far.
    pub fn events(&self) -> u64 {
        self.events + self.pending.len() as u64
    }

    /// Writes the footer and closes the file: the trace is complete.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn finish(mut self, summary: &TraceSummary) -> Result<(), TraceError> {
        self.flush()?;
        let footer = Footer {
            events: self.events,
            chunks: self.chunks,
            summary: summary.clone(),
        };
        self.write_chunk(KIND_FOOTER, &footer)?;
        self.file.sync_all().map_err(|source| self.failed(source))
    }

    fn write_chunk<T>(&mut self, kind: u8, record: &T) -> Result<(), TraceError>
    where
        T: bincode::Encode + bincode::Decode<()>,
    {
        let mut raw = Vec::new();
        let encoded = codec::encode(record, &mut raw).and_then(|_| codec::check::<T>(&raw));
        encoded.map_err(|error| self.unencodable(error.to_string()))?;
        let stored = zstd::bulk::compress(&raw, LEVEL).map_err(|source| self.failed(source))?;
        if raw.len() > MAX_PAYLOAD || stored.len() > MAX_PAYLOAD {
            return Err(self.unencodable(format!("a chunk of {} bytes is too large", raw.len())));
        }
        let mut chunk = vec![kind];
        chunk.extend_from_slice(&(raw.len() as u32).to_le_bytes());
        chunk.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&chunk);
        hasher.update(&stored);
        chunk.extend_from_slice(&hasher.finalize().to_le_bytes());
        chunk.extend_from_slice(&stored);
        // One write a chunk: a crash of this process leaves whole chunks.
        self.write(&chunk)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.file
            .write_all(bytes)
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> TraceError {
        TraceError::Io {
            action: "write",
            path: self.path.clone(),
            source,
        }
    }

    fn unencodable(&self, reason: String) -> TraceError {
        TraceError::Encode {
            path: self.path.clone(),
            reason,
        }
    }
}

fn create(path: &Path) -> Result<File, TraceError> {
    File::create(path).map_err(|source| TraceError::Io {
        action: "create",
        path: path.to_owned(),
        source,
    })
}

/// Roughly the bytes of an event when encoded; bounds a chunk whose events are large.
pub(crate) fn weight(event: &Event) -> usize {
    let fact = match &event.fact {
        Some(Fact::Group {
            members: GroupMembers::Include(_, ranks) | GroupMembers::Exclude(_, ranks),
            ..
        }) => ranks.len(),
        Some(Fact::Communicator(new)) => match &new.how {
            Making::Cart { dimensions, .. } => 2 * dimensions.len(),
            Making::Graph { degrees } => degrees.len(),
            Making::DistGraph { edges } => 2 * edges.len(),
            Making::CartSub { remain } => remain.len(),
            _ => 0,
        },
        _ => 0,
    };
    let pieces = event.collectives.iter();
    let pieces = pieces.map(|it| it.sent.pieces.len() + it.received.pieces.len());
    let texts: usize = event.texts.iter().map(|text| text.text.len()).sum();
    let details = event.details.0.as_deref();
    let displacements = details.map_or(0, |it| {
        it.send_displacements.len() + it.receive_displacements.len()
    });
    32 + 9 * event.arguments.len()
        + 9 * displacements
        + 40 * event.transfers.len()
        + 30 * event.collectives.len()
        + 9 * event.started.len()
        + 30 * event.completed.len()
        + 5 * fact
        + 9 * pieces.sum::<usize>()
        + texts
}
