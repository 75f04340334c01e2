//! The chunks of a trace in their order, with the new dictionary entries of each.
//!
//! Unwanted chunks are skipped. Used by the readers.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use belljar_files::open_input;
use belljar_trace::{
    EARLIEST_VERSION, LATEST_VERSION, MAGIC, MODELLED_VERSION, TraceError, TraceState,
    TraceSummary, UNEXPLAINED_VERSION, VERSION, codec,
};

use crate::calls::dictionary::Dictionary;
use crate::frame::{self, ChunkKind};
use crate::header::Header;
use crate::observed::Observation;
use crate::structure::{self, Structure};
use crate::{Footer, failed, length};

/// The common part of both readers: chunks in their order, with the new dictionary entries of each.
#[derive(Debug)]
pub(super) struct Chunks {
    file: BufReader<Arc<File>>,
    pub(super) version: u16,
    pub(super) header: Header,
    pub(super) offset: u64,
    pub(super) dictionary: Dictionary,
    threads: usize,
    calls: u64,
    chunks: u64,
    pub(super) state: TraceState,
    pub(super) summary: Option<TraceSummary>,
    /// Reports to an observer, if there is one.
    observation: Option<Observation>,
}

/// The parts of a chunk that are read; the rest is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkSections {
    All,
    ButTimes,
    Structure,
}

impl ChunkSections {
    fn has(self, kind: ChunkKind) -> bool {
        match kind {
            ChunkKind::Operands => self != Self::Structure,
            ChunkKind::Times => self == Self::All,
            _ => true,
        }
    }
}

/// A chunk of calls.
pub(super) struct Sections {
    pub(super) structure: Structure,
    pub(super) operands: Vec<u8>,
    pub(super) times: Vec<u8>,
}

impl Chunks {
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        let file = open_input(path).map_err(|source| failed("read", path, source))?;
        Self::of(Arc::new(file), path)
    }

    /// The chunks of `file`, which is at its start; `path` only names it in errors.
    pub(super) fn of(file: Arc<File>, path: &Path) -> Result<Self, TraceError> {
        let failed = |source| failed("read", path, source);
        let not_a_trace = |reason: &str| TraceError::NotATrace {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let bytes = length(&file).map_err(failed)?;
        let mut file = BufReader::new(file);
        let mut start = Vec::new();
        let length = MAGIC.len() as u64 + 2;
        let read = file.by_ref().take(length).read_to_end(&mut start);
        read.map_err(failed)?;
        let version = start.strip_prefix(&MAGIC).and_then(|it| it.try_into().ok());
        let version = version.ok_or_else(|| not_a_trace("it does not begin like one"))?;
        let version = u16::from_le_bytes(version);
        if !(EARLIEST_VERSION..=LATEST_VERSION).contains(&version) {
            let path = path.to_owned();
            return Err(TraceError::Version { path, version });
        }
        let chunk = frame::take(&mut file, |_| true).map_err(|reason| not_a_trace(&reason))?;
        let chunk = chunk.filter(|chunk| chunk.kind == ChunkKind::Header);
        let chunk = chunk.ok_or_else(|| not_a_trace("its header is missing"))?;
        let header = Header::decode(version, &chunk.payload.unwrap_or_default())
            .map_err(|reason| not_a_trace(&reason))?;
        // Calls are the same.
        let version = match version {
            MODELLED_VERSION => VERSION,
            other => other,
        };
        let dictionary = Dictionary::new(version, header.contents.frames > 0);
        Ok(Self {
            file,
            version,
            header,
            offset: length + chunk.length,
            dictionary,
            threads: 0,
            calls: 0,
            chunks: 0,
            state: TraceState::Reading,
            summary: None,
            observation: Observation::begin(path, bytes),
        })
    }

    /// Reads the next chunk of calls, as far as wanted. Returns `None` at the end, and sets the state.
    pub(super) fn next(&mut self, wanted: ChunkSections) -> Option<Sections> {
        if self.state != TraceState::Reading {
            return None;
        }
        match self.read(wanted) {
            Ok((sections, length)) => {
                self.offset += length;
                if let Some(observation) = &self.observation {
                    observation.report(self.offset);
                }
                sections
            }
            Err(reason) => {
                self.damaged(self.offset, reason);
                None
            }
        }
    }

    pub(super) fn damaged(&mut self, offset: u64, reason: String) {
        self.state = TraceState::Incomplete { offset, reason };
        self.summary = None;
    }

    fn read(&mut self, wanted: ChunkSections) -> Result<(Option<Sections>, u64), String> {
        let broken = "it ends without a footer: the run was broken off";
        let mut length = 0;
        let mut payloads: [Vec<u8>; 4] = Default::default();
        let order = [
            ChunkKind::Dictionary,
            ChunkKind::Structure,
            ChunkKind::Operands,
            ChunkKind::Times,
        ];
        for (kind, payload) in order.into_iter().zip(&mut payloads) {
            let chunk = frame::take(&mut self.file, |kind| wanted.has(kind))?.ok_or(broken)?;
            length += chunk.length;
            match chunk.kind {
                ChunkKind::Footer if kind == ChunkKind::Dictionary => {
                    self.end(&chunk.payload.unwrap_or_default())?;
                    return Ok((None, length));
                }
                it if it == kind => *payload = chunk.payload.unwrap_or_default(),
                it => {
                    return Err(format!(
                        "a chunk of kind {it:?} stands where {kind:?} belongs"
                    ));
                }
            }
        }
        let [dictionary, structure, operands, times] = payloads;
        let known = self.dictionary.add(&dictionary)?;
        let signatures = self.dictionary.signatures().len();
        let structure = structure::decode(&structure, known, signatures, self.threads)
            .ok_or("a chunk's structure makes no sense")?;
        self.threads += structure.fresh.len();
        self.calls += structure.calls as u64;
        self.chunks += 1;
        Ok((
            Some(Sections {
                structure,
                operands,
                times,
            }),
            length,
        ))
    }

    fn end(&mut self, payload: &[u8]) -> Result<(), String> {
        let (length, packed) = payload
            .split_first_chunk()
            .ok_or("its footer is too short")?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > frame::MOST {
            return Err("its footer's length is impossible".to_owned());
        }
        let footer = zstd::bulk::decompress(packed, length).map_err(|error| error.to_string())?;
        let footer: Footer = codec::decode(&footer).map_err(|error| error.to_string())?;
        if (footer.calls, footer.chunks) != (self.calls, self.chunks) {
            let (told, found) = (footer.calls, self.calls);
            return Err(format!(
                "its footer speaks of {told} calls, {found} were found"
            ));
        }
        if !matches!(self.file.read(&mut [0; 1]), Ok(0)) {
            return Err("something follows its footer".to_owned());
        }
        let mut summary = footer.summary;
        if self.version <= UNEXPLAINED_VERSION {
            summary.renumber();
        }
        self.summary = Some(summary);
        self.state = TraceState::Complete;
        Ok(())
    }
}
