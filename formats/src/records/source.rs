//! The calls of a trace with the records that other formats have.
//!
//! The trace is read twice, as the members of communicators follow from all of it. Calls come in trace order, those of a
//! thread in the order of time and without overlap. Operations of unknown members or partners have no record, and are
//! counted in [`LeftOut`]. Called by the formats.

/// Parts in collective operations.
mod collected;
/// Messages.
mod messages;
/// Operations that are not complete.
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

use crate::records::calls::Call;
use crate::records::left_out::LeftOut;
use crate::records::numbers::Numbers;
use crate::records::places::{Places, Thread};
use pending::Pending;

/// Picoseconds in a second.
const PICOSECONDS: u64 = 1_000_000_000_000;

/// A trace that is exported.
#[derive(Debug)]
pub struct Source {
    /// `None`: events are given by whoever reads them.
    reader: Option<TraceReader>,
    header: TraceHeader,
    communicators: Arc<Communicators>,
    operations: Operations<Arc<Communicators>>,
    facts: Vec<Fact>,
    /// Operations that are not complete and have records.
    pending: BTreeMap<OperationId, Pending>,
    /// The number of requests that each process had.
    requests: BTreeMap<u32, u64>,
    places: Places,
    numbers: Numbers,
    left_out: LeftOut,
    /// When each thread's last call ended, in ticks.
    ended: BTreeMap<Thread, u64>,
    /// The clock rate of all nodes, if it is one.
    clock: Option<u64>,
}

impl Source {
    /// Opens a trace, and reads who is in it.
    ///
    /// # Errors
    /// [`TraceError`] when the file cannot be read as a trace.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let communicators = communicators(path)?;
        let reader = TraceReader::open(path)?;
        let header = reader.header().clone();
        Ok(Self {
            reader: Some(reader),
            ..Self::given(header, communicators)
        })
    }

    /// For a trace of which others read the events and [`take`](Self::take) has them one by one. It has this header and these
    /// communicators.
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
            numbers: Numbers::default(),
            left_out: LeftOut::default(),
            ended: BTreeMap::new(),
            clock: first.filter(|first| rates.iter().all(|rate| rate == first)),
            header,
        }
    }

    /// The unit of all times: cycles of the nodes' processors where all have one clock rate, else picoseconds.
    pub fn ticks_per_second(&self) -> u64 {
        self.clock.unwrap_or(PICOSECONDS)
    }

    /// A time in picoseconds, rounded down.
    pub fn picoseconds(&self, ticks: u64) -> u64 {
        let rate = self.clock.and_then(Frequency::from_hz);
        rate.map_or(ticks, |rate| rate.time_of(ticks).as_ps())
    }

    /// What was known before the first call.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Which processes its communicators join.
    pub fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    /// Who and what calls named so far.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// How the trace ended, once all calls were taken; of events that others read they know.
    pub fn state(&self) -> &TraceState {
        let reader = self.reader.as_ref();
        reader.map_or(const { &TraceState::Reading }, TraceReader::state)
    }

    /// What has no record, so far.
    pub fn left_out(&mut self) -> &mut LeftOut {
        &mut self.left_out
    }

    fn ticks(&self, event: &Event, cycles: u64) -> u64 {
        match self.clock {
            Some(_) => cycles,
            None => self.header.frequency(event.node).time_of(cycles).as_ps(),
        }
    }

    /// The next call.
    pub fn next_call(&mut self) -> Option<Call> {
        loop {
            let event = self.reader.as_mut()?.next()?;
            if let Some(call) = self.take(event) {
                return Some(call);
            }
        }
    }

    /// The call of the next event; `None` for one that is not exported.
    pub fn take(&mut self, event: Event) -> Option<Call> {
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

    /// The call of an event, without its records.
    fn call(&mut self, event: Event) -> Option<Call> {
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
        let thread = Thread {
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
        Some(Call {
            event,
            process,
            entry,
            exit,
            begun: Vec::new(),
            done: Vec::new(),
        })
    }

    /// Takes a fact of the present call into account, or of one that is not exported.
    fn learn(&mut self, fact: &Fact, next: Option<&Fact>, call: Option<&mut Call>) {
        match *fact {
            Fact::Begun {
                operation,
                origin,
                what,
            } => {
                let message = self.numbers.begin(operation, &what, next);
                if let Some(call) = call {
                    self.begin(call, (operation, message), origin, what);
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
                        self.complete(call, (operation, pending), nothing, by);
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
