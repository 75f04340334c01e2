//! The file of the records of user's probes: `probes.bjc`, next to a run's trace.
//!
//! It consists of the magic, a version (16 bits, little endian), and chunks in the format of a trace ([`frame`](crate::frame)). The chunks are a
//! header, up to `CHUNK_RECORDS` records each, and at a whole run's end a footer. A chunk of records is its unpacked length (32 bits), and bincode
//! packed with zstd, with a table of the call sites. Written bytes never change. Files are untrusted and are read up to the first damage. Written by
//! the run's recorder, read by analyses.

/// The header of the file.
mod header;

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use belljar_files::open_input;
use belljar_mpi::renumbered;
use belljar_trace::{
    MOST_PROBES, ProbeRecord, ProbesEnd, Recorded, StateError, TraceError, TraceState,
    UNEXPLAINED_VERSION, codec,
};
use bincode::{Decode, Encode};

use crate::failed;
use crate::frame::{self, ChunkKind};
pub use header::ProbesHeader;
use header::{PLAIN_VERSION, VERSION};

/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"BelljarP";

/// The version whose records number functions as traces of version 13 do.
const EARLIER_VERSION: u16 = 2;

/// Bytes of magic and version.
const START: u64 = 10;

/// Most records of a chunk.
const CHUNK_RECORDS: usize = 1 << 13;

/// The compression level of zstd.
const LEVEL: i32 = 3;

#[derive(Encode, Decode)]
struct Footer {
    records: u64,
    end: ProbesEnd,
}

/// The state of a writer of probes.
#[derive(Encode, Decode)]
struct ProbeWriterState {
    length: u64,
    records: u64,
    pending: Recorded,
}

/// Writes a file of probe records.
#[derive(Debug)]
pub struct ProbesWriter {
    file: File,
    path: PathBuf,
    length: u64,
    records: u64,
    pending: Recorded,
}

impl ProbesWriter {
    /// Creates a writer for `file`, which is empty and at `path`.
    ///
    /// # Errors
    /// Returns [`TraceError`] if writing fails, or if the header could not be read again.
    pub fn over(file: File, path: &Path, header: &ProbesHeader) -> Result<Self, TraceError> {
        let mut writer = Self {
            file,
            path: path.to_owned(),
            length: 0,
            records: 0,
            pending: Recorded::default(),
        };
        if let Err(reason) = header.trace.check(belljar_trace::VERSION) {
            return Err(writer.unencodable(reason));
        }
        let mut start = MAGIC.to_vec();
        start.extend_from_slice(&header.version().to_le_bytes());
        let header = writer.encoded(header)?;
        frame::put(&mut start, ChunkKind::Header, &header);
        writer.write(&start)?;
        Ok(writer)
    }

    /// Adds a record. It reaches the file when a chunk is full, or with [`flush`](Self::flush).
    ///
    /// # Errors
    /// Returns [`TraceError`] if a chunk could not be written.
    pub fn push(&mut self, record: ProbeRecord) -> Result<(), TraceError> {
        self.pending.0.push(record);
        match self.pending.0.len() >= CHUNK_RECORDS {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes the pending records.
    ///
    /// # Errors
    /// Returns [`TraceError`] if writing fails.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        if self.pending.0.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.pending);
        let plain = self.encoded(&records)?;
        let mut payload = (plain.len() as u32).to_le_bytes().to_vec();
        let packed = zstd::bulk::compress(&plain, LEVEL);
        payload.extend(packed.map_err(|source| failed("write", &self.path, source))?);
        let mut chunk = Vec::new();
        frame::put(&mut chunk, ChunkKind::Probes, &payload);
        self.write(&chunk)?;
        self.records += records.0.len() as u64;
        Ok(())
    }

    /// Writes the pending records, and the footer of a whole run's file.
    ///
    /// # Errors
    /// The same as for [`flush`](Self::flush).
    pub fn finish(mut self, end: ProbesEnd) -> Result<(), TraceError> {
        self.flush()?;
        let records = self.records;
        let footer = self.encoded(&Footer { records, end })?;
        let mut chunk = Vec::new();
        frame::put(&mut chunk, ChunkKind::Footer, &footer);
        self.write(&chunk)?;
        self.cut()
    }

    /// Truncates the file at the current end, to drop bytes that an earlier attempt wrote beyond it.
    ///
    /// # Errors
    /// The same as for [`flush`](Self::flush).
    pub fn cut(&self) -> Result<(), TraceError> {
        let cut = self.file.set_len(self.length);
        cut.map_err(|source| failed("write", &self.path, source))
    }

    /// Returns its state for [`resume`](Self::resume).
    ///
    /// # Errors
    /// Fails if there is more of it than can be read again.
    pub fn save(&self) -> Result<Vec<u8>, StateError> {
        let mut bytes = Vec::new();
        codec::encode(&self.length, &mut bytes)?;
        codec::encode(&self.records, &mut bytes)?;
        codec::encode(&self.pending, &mut bytes)?;
        codec::check::<ProbeWriterState>(&bytes)?;
        Ok(bytes)
    }

    /// Continues the file at `path` where its writer was [saved](Self::save).
    ///
    /// # Errors
    /// Returns [`TraceError`] if the file is shorter than it was, or if `saved` is not such a state.
    pub fn resume(mut file: File, path: &Path, saved: &[u8]) -> Result<Self, TraceError> {
        let state = |reason: String| TraceError::State {
            path: path.to_owned(),
            reason,
        };
        let failed = |source| failed("continue", path, source);
        let saved: ProbeWriterState =
            codec::decode(saved).map_err(|error| state(error.to_string()))?;
        let there = file.metadata().map_err(failed)?.len();
        if there < saved.length {
            let length = saved.length;
            return Err(state(format!("it has {there} bytes and had {length}")));
        }
        file.seek(SeekFrom::Start(saved.length)).map_err(failed)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            length: saved.length,
            records: saved.records,
            pending: saved.pending,
        })
    }

    /// Checks the part of the file at `path` that existed when `saved` was created, by its checksums. Changes nothing.
    ///
    /// # Errors
    /// Returns [`TraceError`] if it is damaged, or not such a file.
    pub fn verify(file: File, path: &Path, saved: &[u8]) -> Result<(), TraceError> {
        let state = |reason: String| TraceError::State {
            path: path.to_owned(),
            reason,
        };
        let saved: ProbeWriterState =
            codec::decode(saved).map_err(|error| state(error.to_string()))?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut start = [0; START as usize];
        let read = std::io::Read::read_exact(&mut file, &mut start);
        read.map_err(|source| failed("read", path, source))?;
        let version = u16::from_le_bytes([start[8], start[9]]);
        if start[..8] != MAGIC || !(PLAIN_VERSION..=VERSION).contains(&version) {
            return Err(state(
                "it is damaged: it does not begin like one".to_owned(),
            ));
        }
        let whole = frame::verify(&mut file, saved.length);
        whole.map_err(|reason| state(format!("it is damaged: {reason}")))
    }

    fn encoded<T: Encode>(&self, record: &T) -> Result<Vec<u8>, TraceError> {
        let mut bytes = Vec::new();
        let encoded = codec::encode(record, &mut bytes);
        encoded.map_err(|error| self.unencodable(error))?;
        match bytes.len() <= frame::MOST {
            true => Ok(bytes),
            false => Err(self.unencodable("it is larger than can be read again")),
        }
    }

    fn unencodable(&self, reason: impl ToString) -> TraceError {
        TraceError::Encode {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let written = self.file.write_all(bytes);
        written.map_err(|source| failed("write", &self.path, source))?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Reads a file of probe records, record by record.
#[derive(Debug)]
pub struct ProbesReader {
    file: BufReader<File>,
    header: ProbesHeader,
    /// True if records number functions as earlier traces do.
    renumbers: bool,
    offset: u64,
    records: u64,
    chunk: std::vec::IntoIter<ProbeRecord>,
    state: TraceState,
    end: Option<ProbesEnd>,
}

impl ProbesReader {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// Returns [`TraceError`] if it is not such a file.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = open_input(path).map_err(|source| failed("open", path, source))?;
        let mut file = BufReader::new(file);
        let wrong = |reason: String| TraceError::NotATrace {
            path: path.to_owned(),
            reason,
        };
        let mut start = [0; START as usize];
        std::io::Read::read_exact(&mut file, &mut start)
            .map_err(|_| wrong("it ends too early".to_owned()))?;
        if start[..8] != MAGIC {
            return Err(wrong("it is no file of probes".to_owned()));
        }
        let version = u16::from_le_bytes([start[8], start[9]]);
        if !(EARLIER_VERSION..=VERSION).contains(&version) {
            return Err(wrong(format!(
                "its version is {version}, this program reads {EARLIER_VERSION} to {VERSION}"
            )));
        }
        let renumbers = version == EARLIER_VERSION;
        let chunk = frame::take(&mut file, |_| true).map_err(wrong)?;
        let chunk = chunk.filter(|chunk| chunk.kind == ChunkKind::Header);
        let (payload, length) = chunk
            .and_then(|chunk| Some((chunk.payload?, chunk.length)))
            .ok_or_else(|| wrong("it has no header".to_owned()))?;
        let header: ProbesHeader =
            codec::decode(&payload).map_err(|error| wrong(error.to_string()))?;
        let checked = header.trace.check(match renumbers {
            true => UNEXPLAINED_VERSION,
            false => belljar_trace::VERSION,
        });
        checked.map_err(|reason| wrong(reason.to_owned()))?;
        if header.probes.len() > MOST_PROBES {
            return Err(wrong("it has more probes than there can be".to_owned()));
        }
        Ok(Self {
            file,
            header,
            renumbers,
            offset: START + length,
            records: 0,
            chunk: Vec::new().into_iter(),
            state: TraceState::Reading,
            end: None,
        })
    }

    /// Returns the data that precedes the first record.
    pub fn header(&self) -> &ProbesHeader {
        &self.header
    }

    /// Returns the state of reading.
    pub fn state(&self) -> &TraceState {
        &self.state
    }

    /// Returns the counters at the end, if the file is whole.
    pub fn end(&self) -> Option<ProbesEnd> {
        self.end
    }

    /// Reads the next chunk; false at the end.
    fn advance(&mut self) -> Result<bool, String> {
        let chunk = frame::take(&mut self.file, |_| true)?;
        let chunk = chunk.ok_or("it has no end: the run did not come to its own")?;
        let payload = chunk.payload.unwrap_or_default();
        match chunk.kind {
            ChunkKind::Probes => {
                let mut records = unpacked(&payload)?;
                for record in records.iter_mut().filter(|_| self.renumbers) {
                    // An invalid function number is refused below, like any number beyond the table.
                    let within = record.within;
                    record.within = within.map(|it| renumbered(it).unwrap_or(u16::MAX));
                }
                let probes = &self.header.probes;
                let nodes = self.header.trace.nodes();
                let fits = |it: &ProbeRecord| it.fits(probes) && (it.node as usize) < nodes;
                if !records.iter().all(fits) {
                    return Err("a record contradicts the header".to_owned());
                }
                self.records += records.len() as u64;
                self.chunk = records.into_iter();
                self.offset += chunk.length;
                Ok(true)
            }
            ChunkKind::Footer => {
                let decoded = codec::decode(&payload);
                let footer: Footer = decoded.map_err(|error| error.to_string())?;
                if footer.records != self.records {
                    return Err("its end speaks of another number of records".to_owned());
                }
                self.end = Some(footer.end);
                Ok(false)
            }
            _ => Err("a chunk is none of this file's".to_owned()),
        }
    }
}

impl Iterator for ProbesReader {
    type Item = ProbeRecord;

    fn next(&mut self) -> Option<ProbeRecord> {
        loop {
            if let Some(record) = self.chunk.next() {
                return Some(record);
            }
            if self.state != TraceState::Reading {
                return None;
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => self.state = TraceState::Complete,
                Err(reason) => {
                    let offset = self.offset;
                    self.state = TraceState::Incomplete { offset, reason };
                }
            }
        }
    }
}

fn unpacked(payload: &[u8]) -> Result<Vec<ProbeRecord>, String> {
    let (length, packed) = payload
        .split_first_chunk::<4>()
        .ok_or("a chunk is too short")?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > frame::MOST {
        return Err("a chunk's length is impossible".to_owned());
    }
    let plain = zstd::bulk::decompress(packed, length).map_err(|error| error.to_string())?;
    if plain.len() != length {
        return Err("a chunk has another length than it says".to_owned());
    }
    let decoded = codec::decode(&plain);
    let Recorded(records) = decoded.map_err(|error| error.to_string())?;
    Ok(records)
}
