//! One reader for traces of all versions.
//!
//! The magic and the version select how a file is decoded. All versions yield the same events and errors; an earlier version's events are completed by `explained`. Used
//! by analyses, commands and conversions.

/// Conversion between versions.
pub(crate) mod convert;

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;

use belljar_files::open_input;
use belljar_trace::{
    EARLIEST_VERSION, Event, LATEST_VERSION, MAGIC, TraceError, TraceHeader, TraceState,
    TraceSummary, UNCOUNTED_VERSION, UNEXPLAINED_VERSION,
};

use crate::explained::Prepared;
use crate::failed;
use crate::header::Contents;
use crate::reader::ArchiveReader;

/// Most events of a batch.
const BATCH_EVENTS: usize = 1024;
/// Number of words in the lists of a batch's events at which the batch is full.
const BATCH_WORDS: usize = 1 << 16;

/// Reads a trace of any version, call by call in the order of writing; an interrupted run's trace up to its end.
#[derive(Debug)]
pub struct TraceReader {
    archive: Box<ArchiveReader>,
    /// Completes the events of versions that lack operations and modes.
    prepared: Option<Prepared>,
}

/// Returns the version of the trace at `path`.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read, is not a trace, or is of a version that this program does not read.
pub fn version(path: &Path) -> Result<u16, TraceError> {
    let failed = |source| failed("read", path, source);
    let file = open_input(path).map_err(failed)?;
    let mut start = Vec::new();
    let length = MAGIC.len() as u64 + 2;
    file.take(length).read_to_end(&mut start).map_err(failed)?;
    let version = start.strip_prefix(&MAGIC).and_then(|it| it.try_into().ok());
    let version = version.ok_or_else(|| TraceError::NotATrace {
        path: path.to_owned(),
        reason: "it does not begin like one".to_owned(),
    })?;
    let version = u16::from_le_bytes(version);
    if !(EARLIEST_VERSION..=LATEST_VERSION).contains(&version) {
        let path = path.to_owned();
        return Err(TraceError::Version { path, version });
    }
    Ok(version)
}

impl TraceReader {
    /// Opens a trace file and reads its header.
    ///
    /// # Errors
    /// The same as for [`version`], and an error if the header is invalid.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let version = version(path)?;
        Ok(Self::of(version, ArchiveReader::open(path)?))
    }

    /// Reads a trace of the current version from `file`; `path` only names it in errors.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub fn of_file(file: &Arc<File>, path: &Path) -> Result<Self, TraceError> {
        let rewound = (&mut &**file).rewind();
        rewound.map_err(|source| failed("read", path, source))?;
        let archive = ArchiveReader::of(file.clone(), path)?;
        Ok(Self::of(LATEST_VERSION, archive))
    }

    fn of(version: u16, archive: ArchiveReader) -> Self {
        Self {
            archive: Box::new(archive),
            prepared: (version <= UNEXPLAINED_VERSION).then(Prepared::default),
        }
    }

    /// Opens a trace without its times. The calls of a thread are in their order, independent of other threads, with entry and exit 0 and without accounts; a record of
    /// several polls has their number. The times of the file are not read, damaged or not. Version 11 has the numbers of polls among the times, so its times are read.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub fn open_untimed(path: &Path) -> Result<Self, TraceError> {
        let version = version(path)?;
        if version <= UNCOUNTED_VERSION {
            return Self::open(path);
        }
        Ok(Self::of(version, ArchiveReader::open_untimed(path)?))
    }

    /// Returns the next calls, and no calls at the end. The batch is bounded, as batches may wait for another thread.
    pub fn next_batch(&mut self) -> Vec<Event> {
        let mut batch = Vec::with_capacity(BATCH_EVENTS);
        let mut words = 0;
        while batch.len() < BATCH_EVENTS && words < BATCH_WORDS {
            let Some(event) = self.next() else { break };
            words += held(&event);
            batch.push(event);
        }
        batch
    }

    /// Returns the data that precedes the first call.
    pub fn header(&self) -> &TraceHeader {
        self.archive.header()
    }

    /// True if its calls have accounts of their nodes' time.
    pub fn is_accounted(&self) -> bool {
        self.contents().accounted
    }

    /// Returns the optional contents of its calls.
    pub fn contents(&self) -> Contents {
        self.archive.contents()
    }

    /// Returns the end state of the trace, once all calls were read.
    pub fn state(&self) -> &TraceState {
        self.archive.state()
    }

    /// Returns the end of the trace, once all calls were read, if it is complete.
    pub fn summary(&self) -> Option<&TraceSummary> {
        self.archive.summary()
    }
}

impl Iterator for TraceReader {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = self.archive.next()?;
        if let Some(prepared) = &mut self.prepared {
            prepared.explain(&mut event);
        }
        Some(event)
    }
}

/// Returns the approximate number of words in the lists of an event.
fn held(event: &Event) -> usize {
    let pieces = event.collectives.iter();
    let pieces = pieces.map(|it| it.sent.pieces.len() + it.received.pieces.len());
    pieces.sum::<usize>()
        + event.arguments.len()
        + 8 * (event.transfers.len() + event.completed.len() + event.collectives.len())
        + event.started.len()
        + 32 * event.texts.len()
}
