//! Extraction of a program from a trace.
//!
//! One pass over the events follows operations and adds them to the threads that begin them, with slots that other calls wait for. A
//! wildcard receive gets its channel when the match is known. One with an unknown match gets an unmatched message after the last
//! event, and is counted. State is kept only for open operations. Used by replay.

/// Properties of single calls.
mod calls;
/// Flushes of accesses to windows.
mod flushes;
/// Conversion of operations to the program's.
mod operations;
/// Channels, collective operations and processes, shared by all threads.
mod tables;
/// Calls that never returned.
mod unfinished;
/// Wildcard receives with unknown matches.
mod wildcards;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;

use belljar_archive::TraceReader;
use belljar_collectives::Tables;
use belljar_job::{
    Communicators, Expansion, Fact, Member, OperationId, Operations, ProcessKey, communicators,
    communicators_untimed,
};
use belljar_trace::{
    Ending, Event, Fact as Stated, TraceError, TraceHeader, TraceState, TraceSummary,
};

use crate::program::{Conditions, Operation, Program, Slot};
use crate::thread::{CallSpan, GrowingThread};
pub use calls::{asks_time, found_nothing};
use flushes::Flushes;
use tables::Shared;
use wildcards::Wildcard;

/// The thread of an event.
type ThreadKey = (ProcessKey, u32);

/// An incomplete operation.
#[derive(Clone, Copy, Debug)]
struct OpenOperation {
    thread: ThreadKey,
    slot: Slot,
    /// Its position among the thread's operations.
    at: usize,
    /// For a partitioned send, the message's number.
    message: Option<u32>,
}

/// A call that returned.
#[derive(Clone, Copy)]
struct ReturnedCall<'e> {
    event: &'e Event,
    member: Member,
    key: ThreadKey,
}

/// Creates a program from events.
struct Extractor<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    operations: Operations<&'a Communicators>,
    expansion: Expansion<'a>,
    shared: Shared<'a>,
    threads: BTreeMap<ThreadKey, GrowingThread>,
    open: BTreeMap<OperationId, OpenOperation>,
    flushes: Flushes,
    /// Wildcard receives whose channel is still unknown.
    wildcards: BTreeMap<OperationId, Wildcard>,
    /// Wildcard receives whose channel stays unknown.
    lost: Vec<Wildcard>,
    /// Threads in which a call never returned.
    stopped: BTreeSet<ThreadKey>,
}

/// The algorithms of collective operations.
#[derive(Clone, Copy, Debug)]
pub enum Algorithms<'t> {
    /// The algorithms of the traced library, by its own tables. If they do not determine one, Open MPI's rules are used, and the
    /// operation is counted.
    AsRun(&'t Tables),
    /// The algorithms of these tables, independent of the traced library.
    By(&'t Tables),
}

/// Extracts the program of the trace at `path`, and returns the state of the trace at its end.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn extract(
    path: &Path,
    algorithms: Algorithms<'_>,
) -> Result<(Program, TraceState), TraceError> {
    if let Some(communicators) = communicators_untimed(path)? {
        let (program, state) = extract_by(path, algorithms, &communicators)?;
        // Damaged times end a trace, and with it what is known of communicators.
        if state == TraceState::Complete {
            return Ok((program, state));
        }
    }
    extract_by(path, algorithms, &communicators(path)?)
}

/// The same with the trace's communicators.
fn extract_by(
    path: &Path,
    algorithms: Algorithms<'_>,
    communicators: &Communicators,
) -> Result<(Program, TraceState), TraceError> {
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let open_mpi = Tables::open_mpi();
    let (own, other) = match algorithms {
        Algorithms::AsRun(tables) => (Some(tables), &open_mpi),
        Algorithms::By(tables) => (None, tables),
    };
    let mut extractor = Extractor {
        header: &header,
        communicators,
        operations: Operations::new(&header, communicators),
        expansion: Expansion::new(communicators, own),
        shared: Shared::new(communicators, other),
        threads: BTreeMap::new(),
        open: BTreeMap::new(),
        flushes: Flushes::default(),
        wildcards: BTreeMap::new(),
        lost: Vec::new(),
        stopped: BTreeSet::new(),
    };
    let mut recorded: BTreeMap<u16, u64> = BTreeMap::new();
    let mut facts = Vec::new();
    read_ahead(&mut reader, |event| {
        let count = recorded.entry(event.function).or_default();
        *count = count.saturating_add(event.calls());
        extractor.observe(event, &mut facts);
    });
    let mut program = extractor.finish();
    let entered = reader.summary().map(TraceSummary::calls);
    for (function, entered) in entered.unwrap_or_default() {
        let count = recorded.get(&function).copied().unwrap_or(0);
        let left_out = &mut program.unknown.unrecorded;
        *left_out = left_out.saturating_add(entered.saturating_sub(count));
    }
    Ok((program, reader.state().clone()))
}

/// Most batches of events that wait for their observer.
const AHEAD: usize = 2;

/// Passes all events of a reader to an observer, in order, while another thread decodes the following ones.
fn read_ahead(reader: &mut TraceReader, mut observe: impl FnMut(&Event)) {
    let ahead = thread::scope(|scope| {
        let (end, batches) = sync_channel(AHEAD);
        let ahead = &mut *reader;
        let decode = move || {
            loop {
                let batch = ahead.next_batch();
                if batch.is_empty() || end.send(batch).is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().spawn_scoped(scope, decode).is_ok();
        batches.iter().flatten().for_each(|event| observe(&event));
        started
    });
    // The host may have no more threads.
    if !ahead {
        reader.for_each(|event| observe(&event));
    }
}

impl Extractor<'_> {
    fn observe(&mut self, event: &Event, facts: &mut Vec<Fact>) {
        self.expansion.learn(event);
        self.operations.observe(event, facts);
        let call = self.call(event);
        // Unsuccessful polls begin no operations.
        let returned = call.filter(|_| event.exit.is_some() && !found_nothing(event));
        let mut done = Vec::new();
        if let Some(call) = returned {
            self.flush(call);
        }
        for fact in facts.drain(..) {
            self.learn(fact, returned, &mut done);
        }
        let Some(call) = call else {
            return;
        };
        let rate = self.header.frequency(event.node);
        let Some(exit) = event.exit else {
            self.unfinished(call, rate.time_of(event.entry).as_ps());
            return;
        };
        let [entry, exit] = [event.entry, exit].map(|at| rate.time_of(at).as_ps());
        let times = CallSpan { entry, exit };
        let Some(thread) = self.threads.get_mut(&call.key) else {
            return;
        };
        if found_nothing(event) {
            let calls = u32::try_from(event.calls()).unwrap_or(u32::MAX);
            let outside = rate.time_of(event.outside()).as_ps();
            thread.polled(event.function, times, calls, outside);
            // A thread that polls the clock only waits for the time: later calls cannot begin earlier.
            if asks_time(event) {
                thread.end_polls();
            }
            return;
        }
        for open in done {
            match open.thread == call.key {
                true => thread.wait(open.slot),
                false => self.shared.program.unknown.across += 1,
            }
        }
        thread.called(event.function, times);
        if let Some(Stated::Scheduled(scheduled)) = &event.fact {
            thread.scheduled(Conditions {
                processor: scheduled.processor,
                work: rate.time_of(scheduled.work).as_ps(),
                after: scheduled.after.clone(),
                started: scheduled.started,
                complete: scheduled.complete,
            });
        }
    }

    /// Returns the call of an event; `None` for a call of the library itself, and if the trace has no job of the process.
    fn call<'e>(&mut self, event: &'e Event) -> Option<ReturnedCall<'e>> {
        let process = (event.node, event.process);
        let job = self.communicators.job(process)?;
        if event.depth > 0 {
            return None;
        }
        let rank = event.rank;
        let member = Member { job, rank };
        let number = self.shared.process(member);
        let key = (process, event.thread);
        let thread = self.threads.entry(key);
        thread.or_insert_with(|| GrowingThread::new(number, event.process, event.thread));
        Some(ReturnedCall { event, member, key })
    }

    /// Handles a fact. Operations that the call waits for are added to `done`.
    fn learn(&mut self, fact: Fact, call: Option<ReturnedCall<'_>>, done: &mut Vec<OpenOperation>) {
        match fact {
            Fact::Begun {
                operation,
                origin,
                what,
            } => {
                let open = call.and_then(|call| self.begin(call, operation, origin, what));
                self.open.extend(open.map(|open| (operation, open)));
            }
            Fact::Named { receive, channel } | Fact::Located { receive, channel } => {
                if let Some(wildcard) = self.wildcards.remove(&receive) {
                    self.locate(wildcard, channel);
                }
            }
            Fact::Completed {
                operation,
                ending,
                cancelled,
                ..
            } => {
                let open = self.open.remove(&operation);
                if let Some(open) = open.filter(|_| cancelled || ending != Ending::Well) {
                    self.wildcards.remove(&operation);
                    self.mend(open, Operation::Nothing { slot: open.slot });
                }
                done.extend(open);
            }
            Fact::Met { meeting, .. } => self.shared.met(meeting),
            Fact::Lost { operation, .. } => {
                self.lost.extend(self.wildcards.remove(&operation));
            }
            Fact::Unknown { origin, .. } => self.shared.unknown(origin),
            Fact::Unmapped { requests } => {
                self.shared.program.unknown.messages += u64::from(requests);
            }
            Fact::Ready { .. } | Fact::Arrived { .. } | Fact::Probed { .. } => {
                if let Some(call) = call {
                    self.ask(call, &fact);
                }
            }
            Fact::Matched { .. } => {}
        }
    }

    /// Replaces a provisional operation by the actual one.
    fn mend(&mut self, open: OpenOperation, operation: Operation) {
        if let Some(thread) = self.threads.get_mut(&open.thread) {
            thread.mend(open.at, operation);
        }
    }

    fn finish(mut self) -> Program {
        let mut facts = Vec::new();
        self.operations.end(&mut facts);
        for fact in facts {
            self.learn(fact, None, &mut Vec::new());
        }
        self.guess();
        let mut program = self.shared.program;
        program.threads = self
            .threads
            .into_values()
            .map(GrowingThread::finish)
            .filter(|thread| !thread.calls.is_empty())
            .collect();
        program
    }
}
