//! Operations from their begin to their completion, by one pass over the events of a trace.
//!
//! A call begins operations at once, or prepares them for a later start; it completes them when it returns, or returns
//! requests that other calls complete. State is kept of open operations alone, as many as processes are apart, and
//! bounded by `MOST_...` constants: an operation beyond a bound is lost, with a fact. A failed call begins nothing.
//! Called by every reader that matches messages, once for each event in trace order.

/// Facts about operations.
pub(crate) mod fact;
/// The time up to which all calls are known.
mod horizon;
/// Collective operations, and other calls that wait for each other.
mod meetings;
/// Messages: begins, matches and completions.
mod messages;
/// Messages in partitions.
mod partitions;
/// Probes, and receives of matched messages.
mod probes;
/// Requests that are not complete.
mod requests;
/// Windows, locks, epochs and accesses.
mod windows;

use std::collections::BTreeSet;
use std::ops::Deref;

use belljar_mpi::{CallKind, Epoch};
use belljar_trace::{Completion, Ending, Event, Phase, TraceHeader};

use crate::communicators::{Communicators, Member, ProcessKey};
use crate::matching::Matcher;
use fact::{Completer, Fact, Operation, OperationId, Origin, WindowId};
use horizon::Horizon;
use meetings::Meetings;
use partitions::Partitions;
use probes::MatchedProbes;
use requests::{MessageSide, OpenOperation, Requests};
use windows::{Accesses, Windows};

/// A call, and the process that makes it.
#[derive(Clone, Copy)]
struct ProcessCall<'e> {
    event: &'e Event,
    process: ProcessKey,
    member: Member,
}

/// The operations that a call begins.
#[derive(Default)]
struct Begun {
    /// Operations that the call also completes.
    done: Vec<OpenOperation>,
    /// Operations of the call's requests; `None` for a transfer without an operation.
    under_way: Vec<Option<OpenOperation>>,
}

impl Begun {
    fn push(&mut self, phase: Phase, open: Option<OpenOperation>) {
        match phase {
            Phase::Begun => self.under_way.push(open),
            _ => self.done.extend(open),
        }
    }
}

/// Follows the operations of a job, event by event.
#[derive(Debug)]
pub struct Operations<C> {
    header: TraceHeader,
    communicators: C,
    next: u64,
    matcher: Matcher,
    requests: Requests,
    meetings: Meetings,
    windows: Windows,
    accesses: Accesses,
    partitions: Partitions,
    matched_probes: MatchedProbes,
    horizon: Horizon,
    /// Processes that called `MPI_Cancel`: a completed receive of theirs without a status may have got nothing.
    cancelling: BTreeSet<ProcessKey>,
}

impl<C: Deref<Target = Communicators>> Operations<C> {
    /// Follows a trace with this header and these communicators, from its first event on.
    pub fn new(header: &TraceHeader, communicators: C) -> Self {
        Self {
            header: header.clone(),
            next: 0,
            matcher: Matcher::default(),
            requests: Requests::default(),
            meetings: Meetings::default(),
            windows: Windows::default(),
            accesses: Accesses::default(),
            partitions: Partitions::default(),
            matched_probes: MatchedProbes::default(),
            horizon: Horizon::new(communicators.process_keys()),
            communicators,
            cancelling: BTreeSet::new(),
        }
    }

    /// Appends the facts of the next event to `facts`. Nested calls have none.
    pub fn observe(&mut self, event: &Event, facts: &mut Vec<Fact>) {
        let first = facts.len();
        self.follow(event, facts);
        self.matched_probes.hold(first, facts);
    }

    fn follow(&mut self, event: &Event, facts: &mut Vec<Fact>) {
        let process = (event.node, event.process);
        if self.horizon.observe(event, self.time(event, event.entry)) {
            self.matcher.settle(self.horizon.value(), false, facts);
        }
        let Some(job) = self.communicators.job(process).filter(|_| event.depth == 0) else {
            return;
        };
        let rank = event.rank;
        let call = ProcessCall {
            event,
            process,
            member: Member { job, rank },
        };
        if event.meaning().kind == CallKind::Cancel {
            self.cancelling.insert(process);
        }
        let mut begun = Begun::default();
        if !event.failed() {
            self.windows.learn(call, &self.communicators);
            self.begin(call, &mut begun, facts);
        }
        self.requests.insert(call, begun.under_way, facts);
        if event.exit.is_none() {
            return;
        }
        for open in begun.done {
            facts.push(completed(open, Ending::Well, Completer::Call));
        }
        for (index, completion) in event.completed.iter().enumerate() {
            self.complete(call, index, completion, facts);
        }
        if event.meaning().epoch().is_some_and(Epoch::ends_accesses) {
            let target = self.target(event);
            for open in self.accesses.ended(call, target) {
                facts.push(completed(open, Ending::Well, Completer::Epoch));
            }
        }
        self.probe(call, facts);
        self.windows.forget(call);
    }

    /// Appends the last facts, after the last event: deduced matches, and losses.
    pub fn end(&mut self, facts: &mut Vec<Fact>) {
        let first = facts.len();
        self.matcher.settle(self.horizon.value(), true, facts);
        self.matched_probes.hold(first, facts);
    }

    /// The number of sends and of receives without a partner; lost operations are not counted.
    pub fn unmatched(&self) -> (u64, u64) {
        self.matcher.alone()
    }

    /// The number of collective operations that some of their processes have not reached.
    pub fn unmet(&self) -> u64 {
        self.meetings.unmet()
    }

    /// The window that a call names. `None` when it names none, or the trace does not describe the window.
    pub fn window(&self, event: &Event) -> Option<WindowId> {
        self.windows.of(event).map(|own| own.window)
    }

    /// Picoseconds of virtual time at a node's cycle.
    fn time(&self, event: &Event, cycles: u64) -> u64 {
        self.header.frequency(event.node).time_of(cycles).as_ps()
    }

    /// All that a call begins, in the order of its transfers, its collective operations and its synchronisations.
    fn begin(&mut self, call: ProcessCall<'_>, begun: &mut Begun, facts: &mut Vec<Fact>) {
        let event = call.event;
        for (index, transfer) in event.transfers.iter().enumerate() {
            if transfer.phase == Phase::Prepared {
                continue;
            }
            if transfer.is_access() {
                self.access(call, index, begun, facts);
                continue;
            }
            let open = self.message(call, index, facts);
            begun.push(transfer.phase, open);
        }
        for (index, collective) in event.collectives.iter().enumerate() {
            if collective.phase == Phase::Prepared {
                continue;
            }
            let open = self.collective(call, index, facts);
            begun.push(collective.phase, open);
        }
        if event.collectives.is_empty()
            && let Some(open) = self.meeting(call, facts)
        {
            begun.push(event.meaning().phase, Some(open));
        }
        self.lock(call, begun, facts);
        self.epoch(call, begun, facts);
        self.partitions.ready(call, facts);
    }

    /// Begins an operation.
    fn open(
        &mut self,
        origin: Origin,
        what: Operation,
        side: MessageSide,
        facts: &mut Vec<Fact>,
    ) -> OpenOperation {
        let operation = OperationId(self.next);
        self.next += 1;
        self.open_as(operation, origin, what, side, facts)
    }

    /// Begins an operation that has this number.
    fn open_as(
        &mut self,
        operation: OperationId,
        origin: Origin,
        what: Operation,
        side: MessageSide,
        facts: &mut Vec<Fact>,
    ) -> OpenOperation {
        facts.push(Fact::Begun {
            operation,
            origin,
            what,
        });
        OpenOperation { operation, side }
    }

    /// Completes a request with its operations.
    fn complete(
        &mut self,
        call: ProcessCall<'_>,
        index: usize,
        completion: &Completion,
        facts: &mut Vec<Fact>,
    ) {
        let cancelled = completion.status.is_some_and(|status| status.cancelled);
        let at = self.time(call.event, call.event.exit.unwrap_or(call.event.entry));
        for open in self.requests.take(call.process, completion.request) {
            match completion.ending {
                Ending::Well if !cancelled => {
                    self.received(call, open, at, completion.status, facts)
                }
                _ => self.withdraw(open, facts),
            }
            facts.push(Fact::Completed {
                operation: open.operation,
                ending: completion.ending,
                cancelled,
                by: Completer::Completion(index),
            });
        }
    }
}

fn completed(open: OpenOperation, ending: Ending, by: Completer) -> Fact {
    Fact::Completed {
        operation: open.operation,
        ending,
        cancelled: false,
        by,
    }
}

#[cfg(test)]
mod tests;
