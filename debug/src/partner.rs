//! The other side of a message: the send of a received one, and the receive of a sent one.
//!
//! Messages are matched by [`belljar_job`], as in all analyses of traces. The run is repeated from the start of its ranks, so that
//! all operations before the message are known. Called by movements to [`Place::Partner`](crate::Place::Partner).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use belljar_cluster::observe::timeline::Moved;
use belljar_job::{Collector, Fact, Operation, OperationId, Operations};
use belljar_sim::Time;
use belljar_trace::{Event, TraceHeader};

use crate::place::name_of;
use crate::session::{Session, SessionError};

/// Matching begins anew when the calls have grown by this part.
const GROWTH: usize = 8;

/// A side of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSide {
    /// The call that sends it.
    Send,
    /// The call that posts its receive.
    Receive,
}

impl MessageSide {
    /// The word for it in positions.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Send => Self::Receive,
            Self::Receive => Self::Send,
        }
    }
}

/// A call by its process and the cycle of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CallKey {
    node: u32,
    process: u32,
    thread: u32,
    entry: u64,
}

impl CallKey {
    fn of(event: &Event) -> Self {
        Self {
            node: event.node,
            process: event.process,
            thread: event.thread,
            entry: event.entry,
        }
    }
}

/// The messages of the calls so far, each with its send and its receive.
#[derive(Debug, Default)]
struct MatchedCalls {
    /// The call and the side of each operation.
    begun: BTreeMap<OperationId, (CallKey, MessageSide)>,
    /// Operations that a call completed, besides its own.
    completed: BTreeMap<CallKey, BTreeSet<OperationId>>,
    partners: BTreeMap<OperationId, OperationId>,
}

impl MatchedCalls {
    /// Follows these calls, in the order of a trace. `whole` is true if no others follow.
    fn of(events: &[Event], header: &TraceHeader, whole: bool) -> Self {
        let mut collector = Collector::new();
        for event in events {
            collector.observe(event, header);
        }
        let communicators = collector.resolve();
        let mut operations = Operations::new(header, &communicators);
        let (mut matched, mut facts) = (Self::default(), Vec::new());
        for event in events.iter().filter(|event| event.depth == 0) {
            operations.observe(event, &mut facts);
            matched.take(CallKey::of(event), &facts);
            facts.clear();
        }
        if whole {
            operations.end(&mut facts);
            for fact in &facts {
                matched.pair(fact);
            }
        }
        matched
    }

    fn take(&mut self, call: CallKey, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::Begun {
                    operation, what, ..
                } => {
                    let side = match what {
                        Operation::Send { .. } => MessageSide::Send,
                        Operation::Receive { .. } => MessageSide::Receive,
                        _ => continue,
                    };
                    self.begun.insert(*operation, (call, side));
                }
                Fact::Completed { operation, .. } => {
                    self.completed.entry(call).or_default().insert(*operation);
                }
                fact => self.pair(fact),
            }
        }
    }

    fn pair(&mut self, fact: &Fact) {
        if let Fact::Matched { send, receive } = fact {
            self.partners.insert(*send, *receive);
            self.partners.insert(*receive, *send);
        }
    }

    /// The operations of one side that a call began or completed, in the order of their begins.
    fn operations(&self, call: CallKey, side: MessageSide) -> Vec<OperationId> {
        let own = self.begun.iter().filter(|(_, (by, _))| *by == call);
        let own = own.map(|(operation, _)| *operation);
        let completed = self.completed.get(&call).into_iter().flatten().copied();
        let all: BTreeSet<OperationId> = own.chain(completed).collect();
        let is_side = |it: &OperationId| self.begun.get(it).is_some_and(|(_, of)| *of == side);
        all.into_iter().filter(is_side).collect()
    }

    /// The call of the other side of message `number` of a call, from 1.
    fn partner(&self, call: CallKey, side: MessageSide, number: usize) -> Option<CallKey> {
        let operations = self.operations(call, side);
        let partner = self.partners.get(operations.get(number.checked_sub(1)?)?)?;
        self.begun.get(partner).map(|(call, _)| *call)
    }
}

/// The search for the other side of a message.
struct PartnerSearch {
    header: TraceHeader,
    rank: u32,
    node: u32,
    /// The node's cycle at the rank's position.
    here: u64,
    /// The side at which the rank stands.
    side: MessageSide,
    number: usize,
    events: Vec<Event>,
    /// The number of calls at the next attempt.
    next: usize,
}

impl PartnerSearch {
    /// The call at which the rank stands: the one that it is in; if that has no message, the last one with a message that
    /// returned before. `None` if the one that it is in may still get one.
    fn standing(&self, events: &[Event], matched: &MatchedCalls) -> Option<CallKey> {
        let has = |it: &&Event| !matched.operations(CallKey::of(it), self.side).is_empty();
        let own = events.iter().filter(|it| {
            it.rank == self.rank && it.node == self.node && it.depth == 0 && it.entry <= self.here
        });
        let mut own: Vec<&Event> = own.collect();
        own.sort_by_key(|it| it.entry);
        let is_inside = |it: &&Event| it.exit.is_none_or(|exit| exit > self.here);
        if let Some(inside) = own.iter().rev().find(|it| is_inside(it)) {
            if has(inside) {
                return Some(CallKey::of(inside));
            }
            // A call that waits for requests names them when it returns.
            inside.exit?;
        }
        let last = own.into_iter().rev().find(has)?;
        Some(CallKey::of(last))
    }

    /// Adds returned calls, and looks for the partner now and then: with `open` calls, as the present position is past the
    /// rank's.
    fn attempt(&mut self, open: Vec<Event>, whole: bool) -> Option<Event> {
        if !whole && self.events.len() < self.next {
            return None;
        }
        self.next = self.events.len() + self.events.len() / GROWTH + 1;
        let end = |event: &Event| {
            let exit = event.exit.map(|exit| {
                let clock = self.header.frequency(event.node);
                clock.time_of(exit)
            });
            exit.unwrap_or(Time::MAX)
        };
        let mut events: Vec<Event> = self.events.iter().cloned().chain(open).collect();
        events.sort_by_cached_key(|event| (end(event), event.node));
        let matched = MatchedCalls::of(&events, &self.header, whole);
        let call = self.standing(&events, &matched)?;
        let partner = matched.partner(call, self.side, self.number)?;
        events
            .into_iter()
            .find(|event| CallKey::of(event) == partner)
    }
}

impl Session {
    /// Moves to the call on `side` of a message whose other side is the call at which the shown rank stands; of several
    /// messages, number `number` from 1.
    pub(crate) fn goto_partner(
        &mut self,
        side: MessageSide,
        number: usize,
        stop: &AtomicBool,
    ) -> Result<Moved, SessionError> {
        let lacking = |rank| SessionError::NoPartner {
            rank,
            side: side.word(),
            number,
        };
        let thread = self.current_thread();
        let found = self.find(thread);
        let Some((rank, node)) = found.and_then(|(it, _)| Some((it.rank?, it.node))) else {
            return Err(SessionError::NoRank);
        };
        self.timeline.settle()?;
        let plan = self.timeline.plan();
        let mut search = PartnerSearch {
            header: TraceHeader::new(&plan.name, &plan.clocks()),
            rank,
            node,
            here: self.timeline.runner(node).node().now_cycles(),
            side: side.other(),
            number,
            events: Vec::new(),
            next: 0,
        };
        let goal = self.timeline.position().time;
        let found = self.follow_calls(stop, |session, calls| {
            search.events.extend_from_slice(calls);
            // The calls up to the rank's position are known from then on.
            if session.timeline.position().time < goal {
                return None;
            }
            search.attempt(session.open_calls(), false)
        })?;
        let found = match found {
            Some(call) => Some(call),
            None => search.attempt(self.open_calls(), true),
        };
        let call = found.ok_or_else(|| lacking(rank))?;
        let moved = self.goto_cycle(call.node, call.entry)?;
        self.enter_call(call.node, call.entry)?;
        self.show_rank(call.rank, call.node);
        let said = format!(
            "belljar: rank {} calls {}\n",
            call.rank,
            name_of(call.function)
        );
        self.output.extend(said.bytes());
        Ok(moved)
    }
}
