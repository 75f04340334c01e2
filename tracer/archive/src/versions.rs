//! One reader for traces of all versions.
//!
//! What a file's first bytes say decides which format's reader reads it; what comes out is alike, and so is how
//! damage is told. Called by analyses, commands and conversions.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use belljar_trace::{
    EARLIEST_VERSION, Event, MAGIC, PLAIN_VERSION, TraceError, TraceHeader, TraceState,
    TraceSummary, UNBOUNDED_VERSION, UNCOUNTED_VERSION, VERSION,
};

use crate::earlier::EarlierReader;
use crate::failed;
use crate::header::Contents;
use crate::reader::ArchiveReader;

/// Reads a trace of any version, call by call in the order of writing; what a run left that was broken off,
/// as far as it goes.
#[derive(Debug)]
pub struct TraceReader(Format);

#[derive(Debug)]
enum Format {
    Earlier(Box<EarlierReader>),
    Archive(Box<ArchiveReader>),
}

/// The version of the trace at `path`.
///
/// # Errors
/// [`TraceError`] when the file cannot be read, is not a trace, or of a version that this program does not read.
pub fn version(path: &Path) -> Result<u16, TraceError> {
    let failed = |source| failed("read", path, source);
    let file = File::open(path).map_err(failed)?;
    let mut start = Vec::new();
    let length = MAGIC.len() as u64 + 2;
    file.take(length).read_to_end(&mut start).map_err(failed)?;
    let version = start.strip_prefix(&MAGIC).and_then(|it| it.try_into().ok());
    let version = version.ok_or_else(|| TraceError::NotATrace {
        path: path.to_owned(),
        reason: "it does not begin like one".to_owned(),
    })?;
    let version = u16::from_le_bytes(version);
    if !(EARLIEST_VERSION..=VERSION).contains(&version) {
        let path = path.to_owned();
        return Err(TraceError::Version { path, version });
    }
    Ok(version)
}

impl TraceReader {
    /// Opens a trace file and reads its header.
    ///
    /// # Errors
    /// As for [`version`], and when the header is not sound.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Ok(Self(if version(path)? >= PLAIN_VERSION {
            Format::Archive(Box::new(ArchiveReader::open(path)?))
        } else {
            Format::Earlier(Box::new(EarlierReader::open(path)?))
        }))
    }

    /// Opens a trace of whose calls no times are wanted: those of a thread come in their order, whatever other threads
    /// did meanwhile, entered and left at 0 and without accounts; of several polls that are one record it tells how many they are. What the file has of
    /// times is not read, be it damaged or not. Versions before 7 have all in one, and 10 and 11 have the numbers of polls among the times: they are read as ever.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_untimed(path: &Path) -> Result<Self, TraceError> {
        if matches!(version(path)?, ..PLAIN_VERSION | UNBOUNDED_VERSION..=UNCOUNTED_VERSION) {
            return Self::open(path);
        }
        let reader = ArchiveReader::open_untimed(path)?;
        Ok(Self(Format::Archive(Box::new(reader))))
    }

    /// What was known before the first call.
    pub fn header(&self) -> &TraceHeader {
        match &self.0 {
            Format::Earlier(reader) => reader.header(),
            Format::Archive(reader) => reader.header(),
        }
    }

    /// Whether its calls tell what their nodes' time went into.
    pub fn is_accounted(&self) -> bool {
        self.contents().accounted
    }

    /// What its calls tell besides what all tell.
    pub fn contents(&self) -> Contents {
        match &self.0 {
            Format::Earlier(reader) => Contents {
                accounted: reader.is_accounted(),
                frames: 0,
            },
            Format::Archive(reader) => reader.contents(),
        }
    }

    /// How the trace ended, once all calls were taken.
    pub fn state(&self) -> &TraceState {
        match &self.0 {
            Format::Earlier(reader) => reader.state(),
            Format::Archive(reader) => reader.state(),
        }
    }

    /// The end of the trace, once all calls were taken, if it is complete.
    pub fn summary(&self) -> Option<&TraceSummary> {
        match &self.0 {
            Format::Earlier(reader) => reader.summary(),
            Format::Archive(reader) => reader.summary(),
        }
    }
}

impl Iterator for TraceReader {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        match &mut self.0 {
            Format::Earlier(reader) => reader.next(),
            Format::Archive(reader) => reader.next(),
        }
    }
}
