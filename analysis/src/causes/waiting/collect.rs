//! Waiting times from the operations of a trace.
//!
//! An operation is kept from its begin until it is complete and the operations of its partners are known. In a trace of a
//! run, the number of operations depends on the distance between processes. Operations whose partners stay unknown are
//! counted, and no wait is attributed to them. Used by [`waiting`](crate::waiting()), and by analyses that continue from
//! waits.

/// Waiting in collective operations and other meetings.
mod collective;
/// Meetings in which each process depends on some of the others.
mod partial;

use std::collections::BTreeMap;

use belljar_job::{Communicators, Fact, Member, Operation, OperationId, Operations, Origin, Turns};
use belljar_trace::{Ending, Event, TraceHeader};

use super::calls::{Call, Calls, Cause, LabelSum, WaitCandidate};
use super::delays::{Delays, InLoops, PlaceNames, ThreadKey};
use super::dependency::{Dependency, DependencyNode, Needed};
use super::{CallWait, DelayCosts, WaitKind, Waiting};
use collective::Dependence;

/// A side of a message, or a process's part in a meeting.
#[derive(Clone, Copy, Debug)]
struct TrackedOperation {
    member: Member,
    thread: ThreadKey,
    /// The time at which its partners can continue, in picoseconds: the entry of the call that begins it, or that marks
    /// its last partition ready.
    posted: u64,
    /// The call that completes it, and the return of that call.
    completed: Option<(Call, u64)>,
    /// Once its partners are known, the late one and the one that it depends on.
    outcome: Option<(Option<Cause>, Option<Needed>)>,
    /// The number of its meeting, if each process depends on all, and the time at which the last of them arrived.
    met: Option<(u64, u64)>,
    role: Role,
}

/// The role of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Send,
    /// A send of a message in partitions, with its receive if known.
    SendPartitioned(Option<OperationId>),
    Receive,
    Collective(Dependence),
    /// A part in a meeting that is not a collective operation.
    Meeting(Dependence),
}

/// Collects [`Waiting`] from all events of a trace, in trace order.
#[derive(Debug)]
pub struct WaitCollector<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    calls: Calls,
    operations: Operations<&'a Communicators>,
    /// Facts of the current event.
    facts: Vec<Fact>,
    parts: BTreeMap<OperationId, TrackedOperation>,
    /// The number of meetings in `dependencies`.
    meetings: u64,
    /// The number of meetings in which each process depends on all.
    met: u64,
    messages: u64,
    lost_sends: u64,
    collectives: u64,
    unresolved: u64,
}

impl<'a> WaitCollector<'a> {
    /// Creates a collector for the trace with this header and these communicators.
    pub fn new(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        Self {
            header,
            communicators,
            calls: Calls::default(),
            operations: Operations::new(header, communicators),
            facts: Vec::new(),
            parts: BTreeMap::new(),
            meetings: 0,
            met: 0,
            messages: 0,
            lost_sends: 0,
            collectives: 0,
            unresolved: 0,
        }
    }

    /// Enables the root causes of waits, for [`costs`](Self::costs).
    #[must_use]
    pub fn with_delays(mut self) -> Self {
        self.calls.delays = Some(Delays::default());
        self
    }

    /// Creates a collector that also keeps dependencies, for [`dependencies`](Self::dependencies).
    pub(crate) fn telling(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        let mut own = Self::new(header, communicators);
        own.calls.dependencies = Some(Vec::new());
        own
    }

    /// Creates a collector that also keeps each call that waited, for [`waits`](Self::waits).
    pub fn naming(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        let mut own = Self::new(header, communicators);
        own.calls.waits = Some(Vec::new());
        own
    }

    /// Takes the calls whose waits became known since the last query. That may be some time after their returns; if
    /// queried after every event, there are few at once.
    pub fn waits(&mut self) -> Vec<CallWait> {
        let own = self.calls.waits.as_mut();
        own.map(std::mem::take).unwrap_or_default()
    }

    /// Takes the dependencies that became known since the last query, in no order.
    pub(crate) fn dependencies(&mut self) -> Vec<Dependency> {
        let own = self.calls.dependencies.as_mut();
        own.map(std::mem::take).unwrap_or_default()
    }

    /// Ends the trace: calls that still lack a partner depend on the known ones.
    pub fn end(&mut self) {
        self.last_facts();
        self.calls.end();
    }

    /// Adds an event. Its time counts if it `counts`; its operations are matched in any case.
    pub fn observe(&mut self, event: &Event, counts: bool) {
        self.observe_labelled(event, counts, 0);
    }

    /// Adds an event with a label for the call.
    pub(crate) fn observe_labelled(&mut self, event: &Event, counts: bool, label: u64) {
        self.observe_in(event, counts, label, InLoops::default());
    }

    /// Adds an event of a call in loops.
    pub(crate) fn observe_in(&mut self, event: &Event, counts: bool, label: u64, loops: InLoops) {
        let mut facts = std::mem::take(&mut self.facts);
        self.operations.observe(event, &mut facts);
        let process = (event.node, event.process);
        let job = self.communicators.job(process);
        let mut done = Vec::new();
        for fact in facts.drain(..) {
            self.learn(fact, Some(event), &mut done);
        }
        self.facts = facts;
        let (Some(job), Some(exit)) = (job.filter(|_| event.depth == 0), event.exit) else {
            return;
        };
        let rank = event.rank;
        let (from, to) = (self.time(event, event.entry), self.time(event, exit));
        let inside = match event.calls() {
            1 => to.saturating_sub(from),
            _ => self.time(event, event.duration().unwrap_or(0)),
        };
        let entered = WaitCandidate {
            process,
            member: Member { job, rank },
            thread: event.thread,
            function: event.function,
            entry: from,
            exit: to,
            calls: event.calls(),
            inside,
            counts: counts && event.selected,
            label,
            loops,
        };
        let call = self.calls.enter(entered, done.len() as u32);
        for operation in done {
            if let Some(part) = self.parts.get_mut(&operation) {
                part.completed = Some((call, entered.exit));
            }
            self.settle(operation);
        }
    }

    /// Returns picoseconds of virtual time at a node's cycle.
    fn time(&self, event: &Event, cycles: u64) -> u64 {
        self.header.frequency(event.node).time_of(cycles).as_ps()
    }

    /// Handles a fact. Operations that the event completes are added to `done`.
    fn learn(&mut self, fact: Fact, event: Option<&Event>, done: &mut Vec<OperationId>) {
        match fact {
            Fact::Begun {
                operation,
                origin,
                what,
            } => {
                if let Some(event) = event {
                    self.begin(event, operation, origin, what);
                }
            }
            Fact::Matched { send, receive } => {
                self.messages += 1;
                // Partitions may become ready until the send is complete.
                match self.parts.get_mut(&send) {
                    Some(TrackedOperation {
                        role: Role::SendPartitioned(partner),
                        completed: None,
                        ..
                    }) => *partner = Some(receive),
                    _ => self.pair(send, receive),
                }
            }
            Fact::Ready { send } => self.ready(send, event),
            Fact::Met { turns, parts, .. } => {
                self.collectives += u64::from(turns == Turns::Collectives);
                self.gathered(&parts);
            }
            Fact::Completed {
                operation,
                ending,
                cancelled,
                ..
            } if self.parts.contains_key(&operation) => {
                if cancelled || ending != Ending::Well {
                    self.resolve(operation, (None, None));
                }
                let role = self.parts.get(&operation).map(|part| part.role);
                if let Some(Role::SendPartitioned(Some(receive))) = role {
                    self.pair(operation, receive);
                }
                done.push(operation);
            }
            Fact::Lost { operation, .. } => self.lose(operation),
            Fact::Unknown { origin, .. } => {
                let followed = match origin {
                    Origin::Transfer(index) => {
                        event.is_none_or(|event| !event.transfers[index].is_access())
                    }
                    Origin::Collective(_) => true,
                    Origin::Call => false,
                };
                self.unresolved += u64::from(followed);
            }
            _ => {}
        }
    }

    /// Handles a call that begins an operation. Accesses to windows, locks and notices are not followed.
    fn begin(&mut self, event: &Event, operation: OperationId, origin: Origin, what: Operation) {
        let role = match what {
            Operation::Send {
                partitioned: Some(_),
                ..
            } => Role::SendPartitioned(None),
            Operation::Send { .. } => Role::Send,
            Operation::Receive { .. } => Role::Receive,
            Operation::Collective { .. } => Role::Collective(self.dependence(event, origin)),
            Operation::Meeting { .. } => Role::Meeting(Dependence::of(event.meaning())),
            _ => return,
        };
        let process = (event.node, event.process);
        let job = self.communicators.job(process).unwrap_or(0);
        let rank = event.rank;
        let part = TrackedOperation {
            member: Member { job, rank },
            thread: ThreadKey {
                process,
                number: event.thread,
            },
            posted: self.time(event, event.entry),
            completed: None,
            outcome: None,
            met: None,
            role,
        };
        self.parts.insert(operation, part);
    }

    /// Pairs a send and a receive.
    fn pair(&mut self, send: OperationId, receive: OperationId) {
        let (Some(sender), Some(receiver)) = (self.parts.get(&send), self.parts.get(&receive))
        else {
            return;
        };
        let late = |kind, by: &TrackedOperation| {
            Some(Cause {
                at: by.posted,
                kind,
                by: by.member,
                thread: by.thread,
            })
        };
        let needs = |by: &TrackedOperation| {
            Some(Needed {
                on: DependencyNode::process(by.member),
                at: by.posted,
                by: by.member,
            })
        };
        let for_receive = (late(WaitKind::LateSender, sender), needs(sender));
        let for_send = (late(WaitKind::LateReceiver, receiver), needs(receiver));
        self.resolve(receive, for_receive);
        self.resolve(send, for_send);
    }

    /// Handles a ready partition of a message.
    fn ready(&mut self, send: OperationId, event: Option<&Event>) {
        let at = event.map(|event| self.time(event, event.entry));
        if let (Some(part), Some(at)) = (self.parts.get_mut(&send), at) {
            part.posted = part.posted.max(at);
        }
    }

    /// Handles an operation whose partners stay unknown.
    fn lose(&mut self, operation: OperationId) {
        let role = self.parts.get(&operation).map(|part| part.role);
        match role {
            Some(Role::Send | Role::SendPartitioned(_)) => self.lost_sends += 1,
            Some(_) => self.unresolved += 1,
            None => {}
        }
        self.resolve(operation, (None, None));
    }

    /// Handles a part whose partners are known: the late one, and the one that it depends on.
    fn resolve(&mut self, part: OperationId, outcome: (Option<Cause>, Option<Needed>)) {
        if let Some(own) = self.parts.get_mut(&part) {
            own.outcome = Some(outcome);
        }
        self.settle(part);
    }

    /// Passes a part to the call that completes it, once all of it is known.
    fn settle(&mut self, part: OperationId) {
        let Some(own) = self.parts.get(&part).copied() else {
            return;
        };
        let (Some((call, exit)), Some((cause, needed))) = (own.completed, own.outcome) else {
            return;
        };
        self.parts.remove(&part);
        // A send that returned before its receive was posted did not wait, nor did a call that returned before the last
        // process of its meeting came. Examples are a fence whose assertions need no other process, and a communicator
        // freed locally.
        let meets = matches!(own.role, Role::Meeting(_));
        let alone = cause.is_some_and(|cause| {
            (meets || cause.kind == WaitKind::LateReceiver) && exit <= cause.at
        });
        match alone {
            true => self.calls.resolve(call, None, None, None),
            false => self.calls.resolve(call, cause, needed, own.met),
        }
    }

    /// Handles the facts that follow the last event.
    fn last_facts(&mut self) {
        let mut facts = Vec::new();
        self.operations.end(&mut facts);
        for fact in facts {
            self.learn(fact, None, &mut Vec::new());
        }
    }

    /// Returns the sums over the calls of each label, once all events were added.
    pub(crate) fn labelled(&mut self) -> BTreeMap<u64, LabelSum> {
        self.last_facts();
        self.calls.labelled()
    }

    /// Returns the root causes of waits, once all events were added; `None` if they were not followed.
    pub(crate) fn costs(&mut self, places: &PlaceNames<'_>) -> Option<DelayCosts> {
        self.last_facts();
        self.calls.costs(places)
    }

    /// Returns the waiting times.
    pub fn finish(mut self) -> Waiting {
        let delays = self.costs(&PlaceNames::default());
        self.finish_with(delays)
    }

    /// Returns the waiting times, with these root causes.
    pub(crate) fn finish_with(mut self, delays: Option<DelayCosts>) -> Waiting {
        self.last_facts();
        let (lone_sends, lone_receives) = self.operations.unmatched();
        Waiting {
            messages: self.messages,
            lone_sends: lone_sends + self.lost_sends,
            lone_receives,
            collectives: self.collectives,
            lone_collectives: self.operations.unmet(),
            unresolved: self.unresolved,
            delays,
            ..self.calls.finish()
        }
    }
}
