//! Writes a trace, chunk by chunk, during its run.
//!
//! The bytes depend only on the calls and their order. A chunk of calls is four sections, written at once when there
//! are `CHUNK_CALLS` calls or when they exceed `CHUNK_WEIGHT`. Only the state needed for further chunks is kept. With
//! [`save`](TraceWriter::save) and [`resume`](TraceWriter::resume), the bytes are the same as without interruption.
//! Used by the run's recorder and by conversions.

/// The sections of a chunk: structure, operands and times of the buffered calls.
mod chunk;
/// Copies of a trace in progress.
mod copy;
/// A writer on a separate thread.
pub(crate) mod queue;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use belljar_trace::{
    Event, LATEST_VERSION, MAGIC, StateError, TYPED_VERSION, TraceError, TraceHeader, TraceSummary,
    VERSION, codec,
};
use bincode::{Decode, Encode};

use crate::calls::dictionary::Dictionary;
use crate::calls::signature::{EarlierNumber, Signature, abstract_from};
use crate::calls::stream::{Outlook, Stream};
use crate::frame::{self, ChunkKind};
use crate::header::{Contents, Header};
use crate::operands::Operands;
use crate::saved::{SavedThread, WriterState};
use crate::structure::{self, CHUNK_CALLS};
use crate::times::{CallTimestamps, Clocks, TimesModel};
use crate::{Footer, Sizes, failed, length};

/// Most bytes of new signatures, texts of operands and the like in a chunk.
pub(crate) const CHUNK_WEIGHT: usize = 4 << 20;

/// Writes a trace of the current version.
#[derive(Debug)]
pub struct TraceWriter {
    file: File,
    path: PathBuf,
    length: u64,
    calls: u64,
    chunks: u64,
    /// Threads that are in the file.
    known_threads: usize,
    threads: Vec<SavedThread>,
    numbers: BTreeMap<Stream, u32>,
    /// The thread of each call since the last chunk.
    order: Vec<u32>,
    weight: usize,
    dictionary: Dictionary,
    sizes: Sizes,
    slots: Vec<u8>,
    operands: Vec<u64>,
    operands_model: Operands,
    times_model: TimesModel,
    /// The latest thread in each slot of a cache of threads.
    recent: Vec<u32>,
}

/// Number of threads found without a search.
const RECENT: usize = 256;

impl TraceWriter {
    /// Creates the file (replacing an older one) and writes the header, for calls with accounts of their nodes' time if
    /// `accounted`.
    ///
    /// # Errors
    /// Returns [`TraceError::Io`] if the file cannot be created.
    pub fn create(path: &Path, header: &TraceHeader, accounted: bool) -> Result<Self, TraceError> {
        let file = File::create(path).map_err(|source| failed("create", path, source))?;
        let frames = 0;
        Self::over(file, path, header, Contents { accounted, frames })
    }

    /// As [`create`](Self::create), for `file`, which is empty and at `path`, and calls with `contents`. Sites with
    /// more frames than that can still be read.
    ///
    /// # Errors
    /// The same as for [`create`](Self::create), and an error if there are more nodes than can be read again.
    pub fn over(
        file: File,
        path: &Path,
        header: &TraceHeader,
        contents: Contents,
    ) -> Result<Self, TraceError> {
        let mut writer = Self::at(file, path);
        let (trace, version) = (header.clone(), header.file_version());
        let signatures = match header.has_datatypes() {
            true => TYPED_VERSION,
            false => VERSION,
        };
        writer.dictionary = Dictionary::new(signatures, contents.frames > 0);
        let header = Header { trace, contents }.encode();
        let header = header.map_err(|reason| writer.unencodable(reason))?;
        let mut start = MAGIC.to_vec();
        start.extend_from_slice(&version.to_le_bytes());
        frame::put(&mut start, ChunkKind::Header, &header);
        writer.sizes.other += start.len() as u64;
        writer.write(&start)?;
        Ok(writer)
    }

    fn at(file: File, path: &Path) -> Self {
        Self {
            file,
            path: path.to_owned(),
            length: 0,
            calls: 0,
            chunks: 0,
            known_threads: 0,
            threads: Vec::new(),
            numbers: BTreeMap::new(),
            order: Vec::new(),
            weight: 0,
            dictionary: Dictionary::new(VERSION, false),
            sizes: Sizes::default(),
            slots: Vec::new(),
            operands: Vec::new(),
            operands_model: Operands::new(0),
            times_model: TimesModel::new(0),
            recent: vec![0; RECENT],
        }
    }

    /// Returns its state for [`resume`](Self::resume).
    ///
    /// # Errors
    /// Fails if there is more of it than can be read again.
    pub fn save(&self) -> Result<Vec<u8>, StateError> {
        let state = WriterState {
            length: self.length,
            calls: self.calls,
            chunks: self.chunks,
            known_threads: self.known_threads as u64,
            threads: self.threads.clone(),
            order: self.order.clone(),
            weight: self.weight as u64,
            dictionary: self.dictionary.save(),
            sizes: self.sizes,
        };
        let mut bytes = Vec::new();
        codec::encode(&state, &mut bytes)?;
        codec::check::<WriterState>(&bytes)?;
        Ok(bytes)
    }

    /// Continues the trace in `file`, which is at `path`, where its writer was [saved](Self::save). Bytes of the file
    /// beyond that remain until they are overwritten.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the file is shorter than it was, or if `saved` is not such a state.
    pub fn resume(mut file: File, path: &Path, saved: &[u8]) -> Result<Self, TraceError> {
        let state = |reason: String| TraceError::State {
            path: path.to_owned(),
            reason,
        };
        let failed = |source| failed("continue", path, source);
        let saved: WriterState = codec::decode(saved).map_err(|error| state(error.to_string()))?;
        let there = length(&file).map_err(failed)?;
        if there < saved.length {
            let length = saved.length;
            return Err(state(format!("it has {there} bytes and had {length}")));
        }
        if !saved.is_sound() {
            return Err(state("its parts do not fit together".to_owned()));
        }
        file.seek(SeekFrom::Start(saved.length)).map_err(failed)?;
        let mut writer = Self::at(file, path);
        (writer.length, writer.calls, writer.chunks) = (saved.length, saved.calls, saved.chunks);
        writer.known_threads = saved.known_threads as usize;
        let streams = saved.threads.iter().map(|thread| thread.stream);
        writer.numbers = streams.zip(0..).collect();
        (writer.threads, writer.order) = (saved.threads, saved.order);
        writer.weight = saved.weight as usize;
        writer.dictionary = Dictionary::load(saved.dictionary);
        writer.sizes = saved.sizes;
        Ok(writer)
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
        let saved: WriterState = codec::decode(saved).map_err(|error| state(error.to_string()))?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut start = [0; MAGIC.len() + 2];
        let read = file.read_exact(&mut start);
        read.map_err(|source| failed("read", path, source))?;
        let version = u16::from_le_bytes([start[MAGIC.len()], start[MAGIC.len() + 1]]);
        if start[..MAGIC.len()] != MAGIC || !(VERSION..=LATEST_VERSION).contains(&version) {
            return Err(state(
                "it is damaged: it does not begin like a trace".to_owned(),
            ));
        }
        let whole = frame::verify(&mut file, saved.length);
        whole.map_err(|reason| state(format!("it is damaged: {reason}")))
    }

    /// Adds a call. It reaches the file when a chunk is full, or with [`flush`](Self::flush).
    ///
    /// # Errors
    /// Returns [`TraceError`] if a chunk could not be written; its calls are lost then.
    pub fn push(&mut self, mut event: Event) -> Result<(), TraceError> {
        let times = CallTimestamps {
            vcpu: event.vcpu,
            entry: event.entry,
            exit: event.exit.unwrap_or(event.entry),
            accounts: event.accounts.0,
        };
        let number = self.thread(&event);
        let before = self.dictionary.bytes();
        let site = self.dictionary.site_number(&event.site);
        let details = event.details.0.take();
        let folded = event.folded.0.take().filter(|polls| polls.calls > 1);
        let thread = &mut self.threads[number as usize];
        let (slots, operands) = (&mut self.slots, &mut self.operands);
        abstract_from(&mut event, &mut thread.outlook, slots, operands);
        let signature = Signature {
            event,
            slots: std::mem::take(slots),
            site,
            details,
            folded: folded.is_some(),
            earlier: EarlierNumber::default(),
        };
        let (call, slots) = self.dictionary.number(thread.last, signature);
        self.slots = slots;
        thread.last = call;
        thread.calls.push(call);
        thread.operands.extend_from_slice(operands);
        thread.times.push(times);
        thread.folds.extend(folded.map(|polls| *polls));
        self.order.push(number);
        self.weight += self.dictionary.bytes() - before + 8 * self.operands.len();
        if self.order.len() >= CHUNK_CALLS || self.weight >= CHUNK_WEIGHT {
            self.flush()?;
        }
        Ok(())
    }

    fn thread(&mut self, event: &Event) -> u32 {
        let stream = Stream::of(event);
        let place = event.node.wrapping_mul(5) ^ event.process.wrapping_mul(3) ^ event.thread;
        let place = place as usize % RECENT;
        let recent = self.recent[place];
        let thread = self.threads.get(recent as usize);
        if thread.is_some_and(|thread| thread.stream == stream) {
            return recent;
        }
        let next = self.threads.len() as u32;
        let number = *self.numbers.entry(stream).or_insert(next);
        if number == next {
            self.threads.push(SavedThread {
                stream,
                outlook: Outlook::new(&stream),
                clocks: Clocks::default(),
                last: 0,
                calls: Vec::new(),
                operands: Vec::new(),
                times: Vec::new(),
                folds: Vec::new(),
            });
        }
        self.recent[place] = number;
        number
    }

    /// Writes the pending calls as a chunk, for runs that are interrupted. In a run that must be reproducible, call it
    /// at points of virtual time only.
    ///
    /// # Errors
    /// The same as for [`push`](Self::push).
    pub fn flush(&mut self) -> Result<(), TraceError> {
        if self.order.is_empty() {
            return Ok(());
        }
        let known = self.dictionary.stored();
        let structure = self.structure();
        let dictionary = self
            .dictionary
            .take_new()
            .map_err(|reason| self.unencodable(reason))?;
        let structure = structure::encode(&structure, known);
        let operands = self.operands_section();
        let (times, [gaps, durations, rest]) = self.times_section();
        let mut bytes = Vec::new();
        let sections = [
            (ChunkKind::Dictionary, &dictionary),
            (ChunkKind::Structure, &structure),
            (ChunkKind::Operands, &operands),
            (ChunkKind::Times, &times),
        ];
        for (kind, section) in sections {
            frame::put(&mut bytes, kind, section);
        }
        let sizes = &mut self.sizes;
        sizes.signatures += dictionary.len() as u64;
        sizes.structure += structure.len() as u64;
        sizes.operands += operands.len() as u64;
        sizes.gaps += gaps as u64;
        sizes.durations += durations as u64;
        sizes.rest += rest as u64;
        sizes.other += (4 * frame::HEAD + 8) as u64;
        self.calls += self.order.len() as u64;
        self.chunks += 1;
        self.known_threads = self.threads.len();
        self.order.clear();
        self.weight = 0;
        for thread in &mut self.threads {
            thread.calls.clear();
            thread.operands.clear();
            thread.times.clear();
            thread.folds.clear();
        }
        self.dictionary.keep_small();
        // One write for each chunk: a crash of this process leaves whole chunks.
        self.write(&bytes)
    }

    /// Returns the number of calls added so far.
    pub fn calls(&self) -> u64 {
        self.calls + self.order.len() as u64
    }

    /// Returns the bytes written so far, by section.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Writes the footer and closes the file: the trace is complete. Returns the sizes.
    ///
    /// # Errors
    /// The same as for [`push`](Self::push).
    pub fn finish(mut self, summary: &TraceSummary) -> Result<Sizes, TraceError> {
        self.flush()?;
        let footer = Footer {
            calls: self.calls,
            chunks: self.chunks,
            summary: summary.clone(),
        };
        let footer = self.encoded(&footer)?;
        let packed = zstd::bulk::compress(&footer, 12);
        let packed = packed.map_err(|source| failed("write", &self.path, source))?;
        let mut bytes = Vec::new();
        let mut payload = (footer.len() as u32).to_le_bytes().to_vec();
        payload.extend(packed);
        frame::put(&mut bytes, ChunkKind::Footer, &payload);
        self.sizes.other += bytes.len() as u64;
        self.write(&bytes)?;
        self.cut()?;
        let synced = self.file.sync_all();
        synced.map_err(|source| failed("write", &self.path, source))?;
        Ok(self.sizes)
    }

    /// Truncates the file at the current end, for an interrupted run. The bytes beyond belong to a continuation that
    /// was abandoned.
    ///
    /// # Errors
    /// Fails if the file cannot be truncated.
    pub fn cut(&mut self) -> Result<(), TraceError> {
        let cut = self.file.set_len(self.length);
        cut.map_err(|source| failed("write", &self.path, source))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let written = self.file.write_all(bytes);
        written.map_err(|source| failed("write", &self.path, source))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn encoded<T: Encode + Decode<()>>(&self, record: &T) -> Result<Vec<u8>, TraceError> {
        let mut bytes = Vec::new();
        let encoded = codec::encode(record, &mut bytes).and_then(|_| codec::check::<T>(&bytes));
        encoded.map_err(|error| self.unencodable(error.to_string()))?;
        Ok(bytes)
    }

    fn unencodable(&self, reason: String) -> TraceError {
        TraceError::Encode {
            path: self.path.clone(),
            reason,
        }
    }
}
