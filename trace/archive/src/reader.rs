//! Readers of a trace: all of it, call by call, or its structure alone.
//!
//! An [`ArchiveReader`](reader::ArchiveReader) returns the calls in the order of writing, up to the first damage or the end of an unfinished file. Without times, which
//! are not read then, it returns the calls of each thread in order. A [`StructureReader`] returns each chunk's grammar and skips operands and times. Files are untrusted:
//! invalid data is refused, and the error has its place. Used by the reader of all versions and by analyses.

/// Chunks in their order.
mod chunks;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use belljar_trace::{
    Accounts, Event, Folded, MOST_POLLS, Polls, TraceError, TraceHeader, TraceState, TraceSummary,
    UNCOUNTED_VERSION,
};

use crate::calls::signature::restore;
use crate::calls::stream::{Outlook, Stream};
use crate::coding::coder::Decoder;
use crate::header::Contents;
use crate::operands::Operands;
use crate::structure::Structure;
use crate::times::{
    CallTimestamps, Called, Clocks, OrderKey, SectionCoders, TimesModel, merge, put_before_next,
};
use chunks::{ChunkSections, Chunks};

/// A thread, and the positions of its calls in the chunk.
#[derive(Debug)]
struct ChunkThread {
    stream: Stream,
    outlook: Outlook,
    clocks: Clocks,
    sequence: usize,
    next_call: usize,
    operands: Vec<u64>,
    next_operand: usize,
    times: Vec<CallTimestamps>,
    folds: Vec<Polls>,
    next_fold: usize,
}

/// Reads a trace, call by call in the order of writing; an interrupted run's trace up to its end.
#[derive(Debug)]
pub(crate) struct ArchiveReader {
    chunks: Chunks,
    wanted: ChunkSections,
    threads: Vec<ChunkThread>,
    sequences: Vec<Vec<u32>>,
    order: std::vec::IntoIter<u32>,
    operands: Operands,
    times: TimesModel,
    /// The start of the current chunk.
    start: u64,
}

impl ArchiveReader {
    /// Opens a trace file and reads its header.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the file cannot be read, is not a trace, or is of another version.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        Ok(Self::over(Chunks::open(path)?))
    }

    /// Reads a trace from the start of `file`; `path` only names it in errors.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub(crate) fn of(file: Arc<File>, path: &Path) -> Result<Self, TraceError> {
        Ok(Self::over(Chunks::of(file, path)?))
    }

    fn over(chunks: Chunks) -> Self {
        Self {
            chunks,
            wanted: ChunkSections::All,
            threads: Vec::new(),
            sequences: Vec::new(),
            order: Vec::new().into_iter(),
            operands: Operands::new(0),
            times: TimesModel::new(0),
            start: 0,
        }
    }

    /// The same, for calls without times, as for [`TraceReader::open_untimed`](crate::TraceReader::open_untimed).
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub(crate) fn open_untimed(path: &Path) -> Result<Self, TraceError> {
        let wanted = ChunkSections::ButTimes;
        Ok(Self {
            wanted,
            ..Self::open(path)?
        })
    }

    /// Returns the data that precedes the first call.
    pub(crate) fn header(&self) -> &TraceHeader {
        &self.chunks.header.trace
    }

    /// Returns the optional contents of its calls.
    pub(crate) fn contents(&self) -> Contents {
        self.chunks.header.contents
    }

    /// Returns the end state of the trace, once all calls were read.
    pub(crate) fn state(&self) -> &TraceState {
        &self.chunks.state
    }

    /// Returns the end of the trace, once all calls were read, if it is complete.
    pub(crate) fn summary(&self) -> Option<&TraceSummary> {
        self.chunks.summary.as_ref()
    }

    /// Reads the next chunk. Returns true if there was one.
    fn advance(&mut self) -> bool {
        self.start = self.chunks.offset;
        let Some(sections) = self.chunks.next(self.wanted) else {
            return false;
        };
        for stream in &sections.structure.fresh {
            self.threads.push(ChunkThread {
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
        let sound = match self.wanted {
            ChunkSections::All => self
                .read_times(&sections.structure, &sections.times)
                .is_some(),
            _ => {
                self.go_by_threads(&sections.structure);
                true
            }
        };
        if !sound {
            let reason = "a chunk's times are too short".to_owned();
            self.chunks.damaged(self.start, reason);
            return false;
        }
        true
    }

    fn read_operands(&mut self, structure: &Structure, section: &[u8]) {
        let counted = self.chunks.version > UNCOUNTED_VERSION;
        let model = &mut self.operands;
        model.restart(structure.calls);
        let mut coder = Decoder::new(section);
        for (number, sequence) in &structure.threads {
            let thread = &mut self.threads[*number as usize];
            thread.operands.clear();
            thread.folds.clear();
            thread.next_fold = 0;
            (thread.next_call, thread.next_operand) = (0, 0);
            thread.sequence = *sequence as usize;
            for call in &self.sequences[thread.sequence] {
                let signature = &self.chunks.dictionary.signatures()[*call as usize];
                let operands = &mut thread.operands;
                let told = |operand| operands.push(operand);
                model.code(&mut coder, *number, *call, signature, &[], told);
                if signature.folded && counted {
                    let calls = model.code_count(&mut coder, *call, signature, 0);
                    thread.folds.push(Polls {
                        calls,
                        ..Polls::default()
                    });
                }
            }
        }
    }

    fn read_times(&mut self, structure: &Structure, section: &[u8]) -> Option<()> {
        let model = &mut self.times;
        model.restart(structure.calls);
        let mut coders = SectionCoders::of(section)?;
        let mut keys: Vec<Vec<OrderKey>> = vec![Vec::new(); self.threads.len()];
        for (number, _) in &structure.threads {
            let thread = &mut self.threads[*number as usize];
            let keys = &mut keys[*number as usize];
            thread.times.clear();
            let counts = std::mem::take(&mut thread.folds);
            let mut counts = counts.iter();
            let mut folded = Vec::new();
            for call in &self.sequences[thread.sequence] {
                let signature = &self.chunks.dictionary.signatures()[*call as usize];
                let called = Called::of(*call, signature);
                let nothing = CallTimestamps::default();
                let times = model.code(&mut coders, &mut thread.clocks, called, &nothing);
                if called.folded {
                    let told = (times.accounts.is_some(), counts.next().map(|it| it.calls));
                    let (rest, clocks) = (&mut coders.rest, &thread.clocks);
                    let polls = model.code_folded(rest, clocks, &Polls::default(), told.0, told.1);
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

    /// Calls without times are ordered by thread.
    fn go_by_threads(&mut self, structure: &Structure) {
        let mut order = Vec::with_capacity(structure.calls);
        for (number, _) in &structure.threads {
            let thread = &mut self.threads[*number as usize];
            let calls = self.sequences[thread.sequence].len();
            thread.times.clear();
            thread.times.resize(calls, CallTimestamps::default());
            order.extend(std::iter::repeat_n(*number, calls));
        }
        self.order = order.into_iter();
    }

    /// Returns the next call of a thread; `None` if the chunk is invalid.
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
        if signature.folded && (self.wanted == ChunkSections::All || !thread.folds.is_empty()) {
            let polls = thread.folds.get(thread.next_fold)?;
            if polls.calls > MOST_POLLS {
                return None;
            }
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
    /// The same as for [`TraceReader::open`](crate::TraceReader::open).
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let chunks = Chunks::open(path)?;
        let streams = Vec::new();
        Ok(Self { chunks, streams })
    }

    /// Reads the next chunk's structure; `None` at the end.
    pub fn advance(&mut self) -> Option<Structure> {
        let structure = self.chunks.next(ChunkSections::Structure)?.structure;
        self.streams.extend(&structure.fresh);
        Some(structure)
    }

    /// Returns the threads so far, by number.
    pub fn threads(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns a signature of the latest chunk: a call with ranks relative to the caller's and requests counted back from the latest, and without times and pointers.
    pub fn signature(&self, number: u32) -> Option<&Event> {
        let signatures = self.chunks.dictionary.signatures();
        signatures.get(number as usize).map(|it| &it.event)
    }

    /// Returns the end state of the trace, once all of it was read.
    pub fn state(&self) -> &TraceState {
        &self.chunks.state
    }
}
