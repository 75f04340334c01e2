//! A trace, call by call, with what other formats have records for.
//!
//! The trace is read twice: communicators' members are known only when all of it was seen. Then calls come in the
//! order of the trace, those of a thread in the order of time and without overlap. What a trace does not tell is counted in
//! [`LeftOut`] and has no record. Called by the formats.

/// Parts in collective operations.
mod collected;
/// Messages.
mod messages;
/// Windows, and accesses to them.
mod windows;

use std::collections::BTreeMap;
use std::path::Path;

use belljar_analysis::{Communicators, Member, communicators};
use belljar_archive::TraceReader;
use belljar_sim::Frequency;
use belljar_trace::{Event, Peer, Phase, TraceError, TraceHeader, TraceState};

use crate::calls::Call;
use crate::left_out::LeftOut;
use crate::matched::Matched;
use crate::places::{Places, Thread};
use crate::requests::{Pending, Requests};

/// Picoseconds in a second.
const PICOSECONDS: u64 = 1_000_000_000_000;

/// A trace that is exported.
#[derive(Debug)]
pub struct Source {
    /// `None`: events are given by whoever reads them.
    reader: Option<TraceReader>,
    header: TraceHeader,
    communicators: Communicators,
    places: Places,
    requests: Requests,
    matched: Matched,
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
        let rates: Vec<u64> = header.frequencies().iter().map(|it| it.as_hz()).collect();
        let first = rates.first().copied();
        Self {
            reader: None,
            places: Places::new(&communicators),
            communicators,
            requests: Requests::default(),
            matched: Matched::default(),
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

    /// The call of the next event; `None` where it is no call that is exported.
    pub fn take(&mut self, event: Event) -> Option<Call> {
        if event.depth > 0 || !event.selected {
            self.left_out.unselected += event.calls();
            return None;
        }
        let job = self.communicators.job((event.node, event.process));
        let rank = event.rank;
        let process = job.and_then(|job| self.places.process(Member { job, rank }));
        if process.is_none() {
            self.left_out.processes += event.calls();
        }
        Some(self.call(event, process?))
    }

    fn call(&mut self, event: Event, process: u32) -> Call {
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
        let mut call = Call {
            event,
            process,
            entry,
            exit,
            begun: Vec::new(),
            done: Vec::new(),
        };
        self.windows(&mut call);
        self.begin(&mut call);
        if exit.is_some() {
            self.complete(&mut call);
        } else {
            call.done.clear();
        }
        call
    }

    /// What it sends, receives and begins.
    fn begin(&mut self, call: &mut Call) {
        let mut opened = Vec::new();
        let event = std::mem::take(&mut call.event.transfers);
        for transfer in &event {
            let absent = matches!(transfer.peer, Peer::Null | Peer::Invalid(_));
            match transfer.phase {
                _ if absent => {
                    // Its request is complete at once, and nothing moves.
                    if transfer.phase == Phase::Begun {
                        opened.push(None);
                    }
                }
                Phase::Prepared => {}
                _ if transfer.is_access() => self.access(call, transfer),
                Phase::Done => self.message(call, transfer),
                Phase::Begun => opened.push(self.begin_message(call, transfer)),
            }
        }
        call.event.transfers = event;
        let collectives = std::mem::take(&mut call.event.collectives);
        for collective in &collectives {
            match collective.phase {
                Phase::Prepared => {}
                Phase::Done => self.collective(call, collective),
                Phase::Begun => opened.push(self.begin_collective(call, collective)),
            }
        }
        call.event.collectives = collectives;
        self.open_requests(call, opened);
    }

    /// The requests that the call returned stand for these.
    fn open_requests(&mut self, call: &Call, opened: Vec<Option<(u64, Pending)>>) {
        let process = call.process;
        match call.event.started.as_slice() {
            // One request may stand for several, as that of MPI_Isendrecv.
            [request] => {
                let operations = opened.into_iter().flatten().collect();
                let forgot = self.requests.open(process, *request, operations);
                self.left_out.requests += u64::from(forgot);
            }
            requests if requests.len() == opened.len() => {
                for (request, operation) in requests.iter().zip(opened) {
                    let operations = operation.into_iter().collect();
                    let forgot = self.requests.open(process, *request, operations);
                    self.left_out.requests += u64::from(forgot);
                }
            }
            requests => self.left_out.unassigned += requests.len() as u64,
        }
    }
}
