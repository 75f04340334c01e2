//! Reads a trace: all of it, call by call, or its structure alone.
//!
//! An [`ArchiveReader`](reader::ArchiveReader) gives the calls that were written, in the order of writing, as far as a damaged or
//! unfinished file is whole. A [`StructureReader`] gives each chunk's grammar and goes past operands and times
//! without reading them. What a file holds is anybody's: it is refused where it makes no sense, with the place.
//! Called by the reader of all versions and by analyses.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use belljar_trace::{
    Accounts, Event, Folded, MAGIC, PLAIN_VERSION, Polls, TraceError, TraceHeader, TraceState,
    TraceSummary, VERSION, codec,
};

use crate::calls::dictionary::Dictionary;
use crate::calls::signature::restore;
use crate::calls::stream::{Outlook, Stream};
use crate::coding::coder::Decoder;
use crate::frame::{self, Kind};
use crate::header::{Contents, Header};
use crate::operands::Operands;
use crate::structure::{self, Structure};
use crate::times::{Called, Clocks, OrderKey, Parts, Times, TimesModel, merge, put_before_next};
use crate::{Footer, failed};

/// What both readers do: chunks in their order, with what they add to the dictionary.
#[derive(Debug)]
struct Chunks {
    file: BufReader<File>,
    header: Header,
    offset: u64,
    dictionary: Dictionary,
    threads: usize,
    calls: u64,
    chunks: u64,
    state: TraceState,
    summary: Option<TraceSummary>,
}

/// A chunk of calls.
struct Sections {
    structure: Structure,
    operands: Vec<u8>,
    times: Vec<u8>,
}

impl Chunks {
    fn open(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| failed("read", path, source);
        let not_a_trace = |reason: &str| TraceError::NotATrace {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let mut start = Vec::new();
        let length = MAGIC.len() as u64 + 2;
        let read = file.by_ref().take(length).read_to_end(&mut start);
        read.map_err(failed)?;
        let version = start.strip_prefix(&MAGIC).and_then(|it| it.try_into().ok());
        let version = version.ok_or_else(|| not_a_trace("it does not begin like one"))?;
        let version = u16::from_le_bytes(version);
        if !(PLAIN_VERSION..=VERSION).contains(&version) {
            let path = path.to_owned();
            return Err(TraceError::Version { path, version });
        }
        let chunk = frame::take(&mut file, |_| true).map_err(|reason| not_a_trace(&reason))?;
        let chunk = chunk.filter(|chunk| chunk.kind == Kind::Header);
        let chunk = chunk.ok_or_else(|| not_a_trace("its header is missing"))?;
        let header = Header::decode(version, &chunk.payload.unwrap_or_default())
            .map_err(|reason| not_a_trace(&reason))?;
        let dictionary = Dictionary::new(version, header.contents.frames > 0);
        Ok(Self {
            file,
            header,
            offset: length + chunk.length,
            dictionary,
            threads: 0,
            calls: 0,
            chunks: 0,
            state: TraceState::Reading,
            summary: None,
        })
    }

    /// The next chunk of calls; operands and times only if `all` of it is wanted. `None` at the end,
    /// with the state set.
    fn next(&mut self, all: bool) -> Option<Sections> {
        if self.state != TraceState::Reading {
            return None;
        }
        match self.read(all) {
            Ok((sections, length)) => {
                self.offset += length;
                sections
            }
            Err(reason) => {
                self.damaged(self.offset, reason);
                None
            }
        }
    }

    fn damaged(&mut self, offset: u64, reason: String) {
        self.state = TraceState::Incomplete { offset, reason };
        self.summary = None;
    }

    fn read(&mut self, all: bool) -> Result<(Option<Sections>, u64), String> {
        let broken = "it ends without a footer: the run was broken off";
        let mut length = 0;
        let mut payloads: [Vec<u8>; 4] = Default::default();
        let order = [
            Kind::Dictionary,
            Kind::Structure,
            Kind::Operands,
            Kind::Times,
        ];
        for (kind, payload) in order.into_iter().zip(&mut payloads) {
            let wanted = |kind| all || !matches!(kind, Kind::Operands | Kind::Times);
            let chunk = frame::take(&mut self.file, wanted)?.ok_or(broken)?;
            length += chunk.length;
            match chunk.kind {
                Kind::Footer if kind == Kind::Dictionary => {
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
        self.summary = Some(footer.summary);
        self.state = TraceState::Complete;
        Ok(())
    }
}

/// A thread, and where in the chunk its calls are.
#[derive(Debug)]
struct Thread {
    stream: Stream,
    outlook: Outlook,
    clocks: Clocks,
    sequence: usize,
    next_call: usize,
    operands: Vec<u64>,
    next_operand: usize,
    times: Vec<Times>,
    folds: Vec<Polls>,
    next_fold: usize,
}

/// Reads a trace, call by call in the order of writing; what a run left that was broken off, as far
/// as it goes.
#[derive(Debug)]
pub(crate) struct ArchiveReader {
    chunks: Chunks,
    threads: Vec<Thread>,
    sequences: Vec<Vec<u32>>,
    order: std::vec::IntoIter<u32>,
    operands: Operands,
    times: TimesModel,
    /// Where the chunk starts that is being read.
    start: u64,
}

impl ArchiveReader {
    /// Opens a trace file and reads its header.
    ///
    /// # Errors
    /// [`TraceError`] when the file cannot be read, is not a trace, or of another version.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        Ok(Self {
            chunks: Chunks::open(path)?,
            threads: Vec::new(),
            sequences: Vec::new(),
            order: Vec::new().into_iter(),
            operands: Operands::new(0),
            times: TimesModel::new(0),
            start: 0,
        })
    }

    /// What was known before the first call.
    pub(crate) fn header(&self) -> &TraceHeader {
        &self.chunks.header.trace
    }

    /// What its calls tell besides what all tell.
    pub(crate) fn contents(&self) -> Contents {
        self.chunks.header.contents
    }

    /// How the trace ended, once all calls were taken.
    pub(crate) fn state(&self) -> &TraceState {
        &self.chunks.state
    }

    /// The end of the trace, once all calls were taken, if it is complete.
    pub(crate) fn summary(&self) -> Option<&TraceSummary> {
        self.chunks.summary.as_ref()
    }

    /// Reads the next chunk. Returns whether there was one.
    fn advance(&mut self) -> bool {
        self.start = self.chunks.offset;
        let Some(sections) = self.chunks.next(true) else {
            return false;
        };
        for stream in &sections.structure.fresh {
            self.threads.push(Thread {
                stream: *stream,
                outlook: Outlook::new(stream),
                clocks: Clocks::default(),
                sequence: 0,
                next_call: 0,
                operands: Vec::new(),
                next_operand: 0,
                times: Vec::new(),
                folds: Vec::new(),
                next_fold: 0,
            });
        }
        self.sequences = sections.structure.unfolded();
        self.read_operands(&sections.structure, &sections.operands);
        if self
            .read_times(&sections.structure, &sections.times)
            .is_none()
        {
            let reason = "a chunk's times are too short".to_owned();
            self.chunks.damaged(self.start, reason);
            return false;
        }
        true
    }

    fn read_operands(&mut self, structure: &Structure, section: &[u8]) {
        let model = &mut self.operands;
        model.restart(structure.calls);
        let mut coder = Decoder::new(section);
        for (number, sequence) in &structure.threads {
            let thread = &mut self.threads[*number as usize];
            thread.operands.clear();
            (thread.next_call, thread.next_operand) = (0, 0);
            thread.sequence = *sequence as usize;
            for call in &self.sequences[thread.sequence] {
                let signature = &self.chunks.dictionary.signatures()[*call as usize];
                let operands = &mut thread.operands;
                let told = |operand| operands.push(operand);
                model.code(&mut coder, (*number, *call), signature, &[], told);
            }
        }
    }

    fn read_times(&mut self, structure: &Structure, section: &[u8]) -> Option<()> {
        let model = &mut self.times;
        model.restart(structure.calls);
        let mut coders = Parts::of(section)?;
        let mut keys: Vec<Vec<OrderKey>> = vec![Vec::new(); self.threads.len()];
        for (number, _) in &structure.threads {
            let thread = &mut self.threads[*number as usize];
            let keys = &mut keys[*number as usize];
            thread.times.clear();
            thread.folds.clear();
            thread.next_fold = 0;
            let mut folded = Vec::new();
            for call in &self.sequences[thread.sequence] {
                let signature = &self.chunks.dictionary.signatures()[*call as usize];
                let called = Called::of(*call, signature);
                let nothing = Times::default();
                let times = model.code(&mut coders, &mut thread.clocks, called, &nothing);
                if called.folded {
                    let (clocks, accounted) = (&thread.clocks, times.accounts.is_some());
                    let rest = &mut coders.rest;
                    let polls = model.code_folded(rest, clocks, &Polls::default(), accounted);
                    folded.push(keys.len());
                    thread.folds.push(polls);
                }
                keys.push(times.key(called, thread.stream.node));
                thread.times.push(times);
            }
            put_before_next(keys, &folded);
        }
        let mut order = Vec::with_capacity(structure.calls);
        merge(&mut coders.rest, &keys, &[], |thread| order.push(thread));
        self.order = order.into_iter();
        Some(())
    }

    /// The next call of a thread; `None` where the chunk makes no sense.
    fn call(&mut self, thread: u32) -> Option<Event> {
        let thread = self.threads.get_mut(thread as usize)?;
        let call = *self.sequences.get(thread.sequence)?.get(thread.next_call)?;
        let times = thread.times.get(thread.next_call)?;
        thread.next_call += 1;
        let signature = self.chunks.dictionary.signatures().get(call as usize)?;
        let end = thread.next_operand + signature.slots.len();
        let operands = thread.operands.get(thread.next_operand..end)?;
        thread.next_operand = end;
        let mut event = restore(signature, &thread.stream, &mut thread.outlook, operands)?;
        (event.vcpu, event.entry) = (times.vcpu, times.entry);
        event.exit = event.exit.map(|_| times.exit);
        event.accounts = Accounts(times.accounts);
        event.site = self.chunks.dictionary.site(signature.site);
        if signature.folded {
            let polls = thread.folds.get(thread.next_fold)?;
            thread.next_fold += 1;
            event.folded = Folded(Some(Box::new(*polls)));
        }
        Some(event)
    }
}

impl Iterator for ArchiveReader {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(thread) = self.order.next() {
                let event = self.call(thread);
                if event.is_none() {
                    self.order = Vec::new().into_iter();
                    let reason = "a call's parts do not fit together".to_owned();
                    self.chunks.damaged(self.start, reason);
                }
                return event;
            }
            if !self.advance() {
                return None;
            }
        }
    }
}

/// Reads the structure of a trace, chunk by chunk, without operands and times.
#[derive(Debug)]
pub struct StructureReader {
    chunks: Chunks,
    streams: Vec<Stream>,
}

impl StructureReader {
    /// Opens a trace file and reads its header.
    ///
    /// # Errors
    /// As for [`TraceReader::open`](crate::TraceReader::open).
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let chunks = Chunks::open(path)?;
        let streams = Vec::new();
        Ok(Self { chunks, streams })
    }

    /// The next chunk's structure; `None` at the end.
    pub fn advance(&mut self) -> Option<Structure> {
        let structure = self.chunks.next(false)?.structure;
        self.streams.extend(&structure.fresh);
        Some(structure)
    }

    /// The threads so far, by number.
    pub fn threads(&self) -> &[Stream] {
        &self.streams
    }

    /// A signature of the chunk read last: a call with ranks relative to the caller's, requests by
    /// how many became active since, and without times and pointers.
    pub fn signature(&self, number: u32) -> Option<&Event> {
        let signatures = self.chunks.dictionary.signatures();
        signatures.get(number as usize).map(|it| &it.event)
    }

    /// How the trace ended, once all of it was read.
    pub fn state(&self) -> &TraceState {
        &self.chunks.state
    }
}
