//! The calls of a trace with records for other formats.
//!
//! The trace is read twice, as the members of communicators depend on all of it. Calls come in trace order, those of a thread
//! in the order of time and without overlap. Operations of unknown members or partners have no record, and are counted in
//! [`LeftOut`]. Used by the formats.

/// Parts in collective operations.
mod collected;
/// Messages.
mod messages;
/// Incomplete operations.
mod pending;
/// Windows, and accesses to them.
mod windows;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, Fact, Member, OperationId, Operations, Origin, communicators};
use belljar_sim::Frequency;
use belljar_trace::{Event, TraceError, TraceHeader, TraceState};

use crate::records::calls::ExportedCall;
use crate::records::left_out::LeftOut;
use crate::records::numbers::MessageNumbers;
use crate::records::places::{ExportedThread, Places};
use pending::PendingOperation;

/// Picoseconds in a second.
const PICOSECONDS: u64 = 1_000_000_000_000;

/// A trace for export.
#[derive(Debug)]
pub struct Source {
    /// `None` if the caller passes the events.
    reader: Option<TraceReader>,
    header: TraceHeader,
    communicators: Arc<Communicators>,
    operations: Operations<Arc<Communicators>>,
    facts: Vec<Fact>,
    /// Incomplete operations with records.
    pending: BTreeMap<OperationId, PendingOperation>,
    /// The number of requests of each process so far.
    requests: BTreeMap<u32, u64>,
    places: Places,
    numbers: MessageNumbers,
    left_out: LeftOut,
    /// The end of each thread's last call, in ticks.
    ended: BTreeMap<ExportedThread, u64>,
    /// The common clock rate of all nodes, if there is one.
    clock: Option<u64>,
}

impl Source {
    /// Opens a trace, and reads its processes.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the file cannot be read as a trace.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let communicators = communicators(path)?;
        let reader = TraceReader::open(path)?;
        let header = reader.header().clone();
        Ok(Self {
            reader: Some(reader),
            ..Self::given(header, communicators)
        })
    }

    /// Creates a source for a trace whose events the caller reads and passes to [`take`](Self::take) one by one. It has this
    /// header and these communicators.
    pub fn given(header: TraceHeader, communicators: Communicators) -> Self {
        let communicators = Arc::new(communicators);
        let rates: Vec<u64> = header.frequencies().iter().map(|it| it.as_hz()).collect();
        let first = rates.first().copied();
        Self {
            reader: None,
            places: Places::new(&communicators),
            operations: Operations::new(&header, Arc::clone(&communicators)),
            communicators,
            facts: Vec::new(),
            pending: BTreeMap::new(),
            requests: BTreeMap::new(),
            numbers: MessageNumbers::default(),
            left_out: LeftOut::default(),
            ended: BTreeMap::new(),
            clock: first.filter(|first| rates.iter().all(|rate| rate == first)),
            header,
        }
    }

    /// Returns the unit of all times: cycles of the nodes' processors if all have one clock rate, otherwise picoseconds.
    pub fn ticks_per_second(&self) -> u64 {
        self.clock.unwrap_or(PICOSECONDS)
    }

    /// Converts a time to picoseconds, rounded down.
    pub fn picoseconds(&self, ticks: u64) -> u64 {
        let rate = self.clock.and_then(Frequency::from_hz);
        rate.map_or(ticks, |rate| rate.time_of(ticks).as_ps())
    }

    /// Returns the data that precedes the first call.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Returns the members of its communicators.
    pub fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    /// Returns the items that calls have named so far.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the end state of the trace, once all calls were read; if the caller reads the events, only the caller knows
    /// it.
    pub fn state(&self) -> &TraceState {
        let reader = self.reader.as_ref();
        reader.map_or(const { &TraceState::Reading }, TraceReader::state)
    }

    /// Returns the counts of calls and operations without records, so far.
    pub fn left_out(&mut self) -> &mut LeftOut {
        &mut self.left_out
    }

    fn ticks(&self, event: &Event, cycles: u64) -> u64 {
        match self.clock {
            Some(_) => cycles,
            None => self.header.frequency(event.node).time_of(cycles).as_ps(),
        }
    }

    /// Returns the next call.
    pub fn next_call(&mut self) -> Option<ExportedCall> {
        loop {
            let event = self.reader.as_mut()?.next()?;
            if let Some(call) = self.take(event) {
                return Some(call);
            }
        }
    }

    /// Returns the call of the next event; `None` if it is not exported.
    pub fn take(&mut self, event: Event) -> Option<ExportedCall> {
        // A call that frees a window still names it.
        let window = self.operations.window(&event);
        let mut facts = std::mem::take(&mut self.facts);
        self.operations.observe(&event, &mut facts);
        let mut call = self.call(event);
        if let Some(call) = &mut call {
            let window = window.or_else(|| self.operations.window(&call.event));
            self.windows(call, window);
        }
        for (index, fact) in facts.iter().enumerate() {
            self.learn(fact, facts.get(index + 1), call.as_mut());
        }
        facts.clear();
        self.facts = facts;
        if let Some(call) = call.as_mut().filter(|call| call.exit.is_none()) {
            call.done.clear();
        }
        call
    }

    /// Returns the call of an event, without its records.
    fn call(&mut self, event: Event) -> Option<ExportedCall> {
        if event.depth > 0 || !event.selected {
            self.left_out.unselected += event.calls();
            return None;
        }
        let job = self.communicators.job((event.node, event.process));
        let rank = event.rank;
        let process = job.and_then(|job| self.places.process(Member { job, rank }));
        let Some(process) = process else {
            self.left_out.processes += event.calls();
            return None;
        };
        let thread = ExportedThread {
            process,
            thread: event.thread,
        };
        self.places.called(thread);
        self.left_out.folded += event.calls() - 1;
        let before = self.ended.get(&thread).copied().unwrap_or(0);
        let entered = self.ticks(&event, event.entry);
        let entry = entered.max(before);
        self.left_out.disorder += u64::from(entered < before);
        let exit = event.exit.map(|exit| self.ticks(&event, exit).max(entry));
        self.left_out.unreturned += u64::from(exit.is_none());
        self.ended.insert(thread, exit.unwrap_or(entry));
        Some(ExportedCall {
            event,
            process,
            entry,
            exit,
            begun: Vec::new(),
            done: Vec::new(),
        })
    }

    /// Handles a fact of the current call, or of one that is not exported.
    fn learn(&mut self, fact: &Fact, next: Option<&Fact>, call: Option<&mut ExportedCall>) {
        match *fact {
            Fact::Begun {
                operation,
                origin,
                what,
            } => {
                let message = self.numbers.begin(operation, &what, next);
                if let Some(call) = call {
                    self.begin(call, operation, message, origin, what);
                }
            }
            Fact::Named { receive, channel } => self.name(receive, channel),
            Fact::Located { receive, channel } => {
                self.name(receive, channel);
                self.numbers.locate(receive, next);
            }
            Fact::Matched { send, receive } => self.numbers.pair(send, receive),
            Fact::Completed {
                operation,
                ending,
                cancelled,
                by,
            } => {
                let nothing = cancelled || ending != belljar_trace::Ending::Well;
                let pending = self.pending.remove(&operation);
                if nothing {
                    self.numbers.forget(operation);
                }
                match (call, pending) {
                    (Some(call), Some(pending)) => {
                        self.complete(call, operation, pending, nothing, by);
                    }
                    _ => self.numbers.forget(operation),
                }
            }
            Fact::Lost { operation, why } => self.lose(operation, why),
            Fact::Unmapped { requests } => self.left_out.unassigned += u64::from(requests),
            Fact::Unknown { origin, .. } => {
                let own = call.is_some() && origin != Origin::Call;
                self.left_out.communicators += u64::from(own);
            }
            Fact::Met { .. } | Fact::Ready { .. } | Fact::Arrived { .. } | Fact::Probed { .. } => {}
        }
    }
}
