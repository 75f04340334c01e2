//! From the events of a trace, in its order, to waiting times.
//!
//! What is kept are operations whose partner did not come yet and calls that wait for them: in a trace of a
//! run these are as many as processes are apart. What a receive got that asked for any message and for no status is deduced; where it
//! cannot be, it is counted, and what comes after it on its communicator may be matched with the message before. Called by
//! `dump`'s [`waiting`](crate::waiting()).

/// Waiting in collective operations.
mod collective;
/// Up to when all calls are known.
mod horizon;
/// Receives that are complete.
mod received;
/// The communicators of windows.
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use belljar_mpi::CallKind;
use belljar_trace::{Completion, Direction, Ending, Event, Peer, Phase, TraceHeader, Transfer};

use super::calls::{Call, Calls, Cause, Entered, LabelSum};
use super::dependency::{Dependency, Needed, Point};
use super::{CallWait, WaitKind, Waiting};
use crate::communicators::{Communicators, Member, ProcessKey};
use crate::matching::{Channel, Matcher, Operation, Sent, Wanted};
use collective::{Gathering, Turns};
use horizon::Horizon;
use windows::Windows;

/// A side of a message, or a process's part in a collective operation.
#[derive(Clone, Copy, Debug)]
struct Part {
    member: Member,
    /// When its call was entered, in picoseconds.
    posted: u64,
    /// The call that completes it, and when that returned.
    completed: Option<(Call, u64)>,
    /// Whether its partners are known, and then who of them came late and whom it depends on.
    outcome: Option<(Option<Cause>, Option<Needed>)>,
    /// For a receive, where from.
    receive: Option<Receive>,
    /// True for a call that others have to come to, and that is no collective operation.
    meets: bool,
}

/// A receive that was posted.
#[derive(Clone, Copy, Debug)]
struct Receive {
    /// Its communicator, by the number that all members have for it.
    communicator: u32,
    /// The same, by the process's own number.
    number: u32,
    /// Whether it is known what it gets, or got.
    known: bool,
}

/// Gathers [`Waiting`] from all events of a trace, in its order.
#[derive(Debug)]
pub struct WaitCollector<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    calls: Calls,
    parts: BTreeMap<Operation, Part>,
    next: Operation,
    matcher: Matcher,
    requests: BTreeMap<(ProcessKey, u64), Vec<Operation>>,
    /// Operations begun, by communicator, kind and process.
    begun: BTreeMap<(u32, Turns, ProcessKey), u64>,
    windows: Windows,
    /// How many meetings there were.
    meetings: u64,
    gatherings: BTreeMap<(u32, Turns, u64), Gathering>,
    messages: u64,
    collectives: u64,
    unresolved: u64,
    horizon: Horizon,
    /// Processes that called `MPI_Cancel`: of theirs a receive may be complete and have got nothing.
    cancelling: BTreeSet<ProcessKey>,
}

impl<'a> WaitCollector<'a> {
    /// Nothing gathered yet from the trace with this header, whose communicators are `communicators`.
    pub fn new(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        Self {
            header,
            communicators,
            calls: Calls::default(),
            parts: BTreeMap::new(),
            next: 0,
            matcher: Matcher::default(),
            requests: BTreeMap::new(),
            begun: BTreeMap::new(),
            windows: Windows::default(),
            meetings: 0,
            gatherings: BTreeMap::new(),
            messages: 0,
            collectives: 0,
            unresolved: 0,
            horizon: Horizon::new(communicators.process_keys()),
            cancelling: BTreeSet::new(),
        }
    }

    /// The same, which tells what depends on whom, for [`dependencies`](Self::dependencies).
    pub(crate) fn telling(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        let mut own = Self::new(header, communicators);
        own.calls.dependencies = Some(Vec::new());
        own
    }

    /// The same, which tells each call that waited, for [`waits`](Self::waits).
    pub fn naming(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        let mut own = Self::new(header, communicators);
        own.calls.waits = Some(Vec::new());
        own
    }

    /// Calls of which it became known since this was asked last that they waited, and for how long. That may be some time after they
    /// returned; whoever asks after every event has few at once.
    pub fn waits(&mut self) -> Vec<CallWait> {
        let own = self.calls.waits.as_mut();
        own.map(std::mem::take).unwrap_or_default()
    }

    /// What depends on whom, as far as it became known since this was asked last, in no order.
    pub(crate) fn dependencies(&mut self) -> Vec<Dependency> {
        let own = self.calls.dependencies.as_mut();
        own.map(std::mem::take).unwrap_or_default()
    }

    /// No more events come: calls that still lack somebody depend on those that are known.
    pub fn end(&mut self) {
        self.settle_untold(true);
        self.calls.end();
    }

    /// Takes an event into account. Its time counts if it `counts`; what it sends and receives is matched in any case.
    pub fn observe(&mut self, event: &Event, counts: bool) {
        self.observe_labelled(event, counts, 0);
    }

    /// The same, of a call that is called by a label.
    pub(crate) fn observe_labelled(&mut self, event: &Event, counts: bool, label: u64) {
        let process = (event.node, event.process);
        if self.horizon.observe(event, self.time(event, event.entry)) {
            self.settle_untold(false);
        }
        let Some(job) = self.communicators.job(process).filter(|_| event.depth == 0) else {
            return;
        };
        if event.meaning().kind == CallKind::Cancel {
            self.cancelling.insert(process);
        }
        let member = Member {
            job,
            rank: event.rank,
        };
        let mut done = Vec::new();
        let mut begun = Vec::new();
        for transfer in &event.transfers {
            let part = self.message(event, member, transfer);
            match transfer.phase {
                Phase::Begun => begun.push(part),
                _ => done.extend(part),
            }
        }
        for collective in &event.collectives {
            let part = self.collective(event, member, collective);
            match collective.phase {
                Phase::Begun => begun.push(part),
                _ => done.extend(part),
            }
        }
        self.windows.learn(event);
        if event.collectives.is_empty()
            && !event.failed()
            && let Some(part) = self.meet(event, member)
        {
            match event.meaning().phase {
                Phase::Begun => begun.push(Some(part)),
                _ => done.push(part),
            }
        }
        self.request(event, begun);
        for completion in &event.completed {
            done.extend(self.complete(event, completion));
        }
        let Some(exit) = event.exit else {
            return;
        };
        let (from, to) = (self.time(event, event.entry), self.time(event, exit));
        let inside = match event.calls() {
            1 => to.saturating_sub(from),
            _ => self.time(event, event.duration().unwrap_or(0)),
        };
        let entered = Entered {
            process,
            member,
            function: event.function,
            entry: from,
            exit: to,
            calls: event.calls(),
            inside,
            counts: counts && event.selected,
            label,
        };
        let call = self.calls.enter(entered, done.len() as u32);
        for operation in done {
            if let Some(part) = self.parts.get_mut(&operation) {
                part.completed = Some((call, entered.exit));
            }
            self.settle(operation);
        }
    }

    fn time(&self, event: &Event, cycles: u64) -> u64 {
        self.header.frequency(event.node).time_of(cycles).as_ps()
    }

    fn part(&mut self, event: &Event, member: Member) -> Operation {
        let part = Part {
            member,
            posted: self.time(event, event.entry),
            completed: None,
            outcome: None,
            receive: None,
            meets: false,
        };
        self.parts.insert(self.next, part);
        self.next += 1;
        self.next - 1
    }

    /// The requests that the call returned stand for these parts.
    fn request(&mut self, event: &Event, begun: Vec<Option<Operation>>) {
        let process = (event.node, event.process);
        match event.started.as_slice() {
            // One request may stand for several, as that of MPI_Isendrecv.
            [request] => {
                let begun = begun.into_iter().flatten().collect();
                self.requests.insert((process, *request), begun);
            }
            requests if requests.len() == begun.len() => {
                for (request, part) in requests.iter().zip(begun) {
                    let part = part.into_iter().collect();
                    self.requests.insert((process, *request), part);
                }
            }
            // The trace does not map requests to operations here, so their completion is unknown.
            _ => {}
        }
    }

    /// A message that a call sends or receives.
    fn message(&mut self, event: &Event, member: Member, transfer: &Transfer) -> Option<Operation> {
        let absent = matches!(transfer.peer, Peer::Null | Peer::Invalid(_));
        if transfer.is_access() || absent || transfer.phase == Phase::Prepared {
            return None;
        }
        let process = (event.node, event.process);
        let Some((number, communicator)) = transfer.communicator.and_then(|number| {
            let identity = self.communicators.identity(process, number)?;
            Some((number, identity))
        }) else {
            self.unresolved += 1;
            return None;
        };
        let peer = self.communicators.peer(process, number, transfer.peer);
        if peer.is_none() && transfer.peer != Peer::Any {
            self.unresolved += 1;
            return None;
        }
        let part = self.part(event, member);
        match (transfer.direction, peer, transfer.tag) {
            (Direction::Send, Some(to), Some(tag)) => {
                let channel = Channel {
                    communicator,
                    from: member,
                    to,
                    tag,
                };
                let sent = Sent {
                    operation: part,
                    at: self.time(event, event.entry),
                    thread: event.thread,
                };
                if let Some(receive) = self.matcher.send(channel, sent) {
                    self.pair(part, receive);
                }
            }
            (Direction::Send, ..) => {
                self.unresolved += 1;
                self.parts.remove(&part);
                return None;
            }
            (Direction::Receive, from, tag) => {
                let wanted = Wanted { from, tag };
                let known = from.is_some() && tag.is_some();
                if let Some(own) = self.parts.get_mut(&part) {
                    own.receive = Some(Receive {
                        communicator,
                        number,
                        known,
                    });
                }
                let mut found = Vec::new();
                let to = (communicator, member);
                self.matcher.receive(to, wanted, part, &mut found);
                self.pair_all(found);
                if let Some(exit) = event.exit.filter(|_| transfer.phase == Phase::Done) {
                    let at = self.time(event, exit);
                    self.received(process, (part, at), event.status);
                }
            }
        }
        Some(part)
    }

    fn pair_all(&mut self, found: Vec<(Operation, Operation)>) {
        for (send, receive) in found {
            self.pair(send, receive);
        }
    }

    /// A send and a receive belong together.
    fn pair(&mut self, send: Operation, receive: Operation) {
        self.messages += 1;
        let (Some(sender), Some(receiver)) = (self.parts.get(&send), self.parts.get(&receive))
        else {
            return;
        };
        let late = |kind, by: &Part| {
            Some(Cause {
                at: by.posted,
                kind,
                by: by.member,
            })
        };
        let needs = |by: &Part| {
            Some(Needed {
                on: Point::process(by.member),
                at: by.posted,
                by: by.member,
            })
        };
        let for_receive = (late(WaitKind::LateSender, sender), needs(sender));
        let for_send = (late(WaitKind::LateReceiver, receiver), needs(receiver));
        self.resolve(receive, for_receive);
        self.resolve(send, for_send);
    }

    /// A part's partners are known, and who of them came late and whom it depends on.
    fn resolve(&mut self, part: Operation, outcome: (Option<Cause>, Option<Needed>)) {
        if let Some(own) = self.parts.get_mut(&part) {
            own.outcome = Some(outcome);
        }
        self.settle(part);
    }

    /// Tells the call that completes a part, once all of it is known.
    fn settle(&mut self, part: Operation) {
        let Some(own) = self.parts.get(&part).copied() else {
            return;
        };
        let (Some((call, exit)), Some((cause, needed))) = (own.completed, own.outcome) else {
            return;
        };
        self.parts.remove(&part);
        // A send that returned before its receive was posted did not wait, nor did a call that returned before the last
        // process of its meeting came: a fence whose assertions need no other process, a communicator freed locally.
        let alone = cause.is_some_and(|cause| {
            (own.meets || cause.kind == WaitKind::LateReceiver) && exit <= cause.at
        });
        match alone {
            true => self.calls.resolve(call, None, None),
            false => self.calls.resolve(call, cause, needed),
        }
    }

    /// Parts that a request stood for, which a call completes.
    fn complete(&mut self, event: &Event, completion: &Completion) -> Vec<Operation> {
        let process = (event.node, event.process);
        let parts = self.requests.remove(&(process, completion.request));
        let parts = parts.unwrap_or_default();
        let cancelled = completion.status.is_some_and(|status| status.cancelled);
        let at = self.time(event, event.exit.unwrap_or(event.entry));
        for part in &parts {
            match completion.ending {
                Ending::Well if !cancelled => {
                    self.received(process, (*part, at), completion.status)
                }
                _ => self.withdraw(*part),
            }
        }
        parts
    }

    /// A part comes to nothing.
    fn withdraw(&mut self, part: Operation) {
        let own = self.parts.get(&part);
        if let Some((receive, member)) = own.and_then(|own| Some((own.receive?, own.member))) {
            let mut found = Vec::new();
            let to = (receive.communicator, member);
            self.matcher.withdraw(to, part, &mut found);
            self.pair_all(found);
        }
        self.resolve(part, (None, None));
    }

    /// The sums over the calls of each label, once all events came.
    pub(crate) fn labelled(&mut self) -> BTreeMap<u64, LabelSum> {
        self.settle_untold(true);
        self.calls.labelled()
    }

    /// The waiting times.
    pub fn finish(mut self) -> Waiting {
        self.settle_untold(true);
        let (lone_sends, lone_receives) = self.matcher.alone();
        Waiting {
            messages: self.messages,
            lone_sends,
            lone_receives,
            collectives: self.collectives,
            lone_collectives: {
                let turns = self.gatherings.keys().map(|(_, turns, _)| turns);
                turns.filter(|turns| **turns == Turns::Operations).count() as u64
            },
            unresolved: self.unresolved,
            ..self.calls.finish()
        }
    }
}
