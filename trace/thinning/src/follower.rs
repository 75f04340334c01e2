//! One thread: its position in its program, and the sums of its dropped calls.
//!
//! Used by the collector, call by call.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::{Direction, Event, Peer, Phase, Transfer};
use bincode::{Decode, Encode};

use crate::graph::{Graph, Loop};
use crate::measure::{Both, Dropped, Measure};
use crate::moved::Operations;
use crate::signature::{Signature, is_last, is_of_all, may_go};

/// Number of calls without growth after which a loop is first searched for; the number doubles each time.
const FIRST_LOOK: u64 = 4;

/// Most open requests of kept calls; further ones are forgotten, and their completions dropped.
const MOST_OPEN: usize = 1 << 16;

/// The state of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) enum State {
    /// Its main loop is not known.
    #[default]
    Searching,
    /// It is in its main loop, and enough iterations are kept.
    Ready(Loop),
    /// The same, and it will drop iterations from an agreed iteration on.
    Armed(Loop),
    /// It drops iterations.
    Dropping(Loop),
    /// It makes no more calls.
    Ended,
}

/// The state of following a thread.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub(crate) struct ThreadFollower {
    pub(crate) rank: u32,
    graph: Graph,
    pub(crate) state: State,
    next_look: u64,
    looked: u64,
    /// The number of its collective operations of all processes.
    of_all: u64,
    /// The exits of the last call, and of the last kept call.
    left: Option<u64>,
    kept_left: Option<u64>,
    /// True if the last call was dropped.
    in_gap: bool,
    open: BTreeSet<u64>,
    pub(crate) iterations: u64,
    pub(crate) dropped_iterations: u64,
    pub(crate) functions: BTreeMap<u16, Dropped>,
    /// The data moved by collective operations of dropped calls.
    pub(crate) operations: Operations,
    /// Messages that dropped calls began to send and to receive.
    pub(crate) messages: [u64; 2],
    /// Time between calls, by the functions of both calls.
    pub(crate) transitions: BTreeMap<(u16, u16), Both>,
    /// Time between two calls, at least one of them dropped.
    pub(crate) intervals: Measure,
    /// The same in the trace: from the last kept call before the dropped calls to the first one after them.
    pub(crate) gaps: Measure,
    before: Option<u16>,
}

impl ThreadFollower {
    /// Takes a call. Returns true if it is kept whole.
    pub(crate) fn take(&mut self, event: &Event, wanted: u64, start: Option<[u64; 2]>) -> bool {
        self.rank = event.rank;
        if event.depth == 0 {
            self.follow(event, wanted, start);
        }
        let dropping = matches!(self.state, State::Dropping(_));
        let needed = event
            .completed
            .iter()
            .any(|it| self.open.contains(&it.request));
        let kept = !(dropping && may_go(event) && !needed);
        for completion in &event.completed {
            self.open.remove(&completion.request);
        }
        if kept && self.open.len() < MOST_OPEN {
            self.open.extend(&event.started);
        }
        self.measure(event, kept);
        kept
    }

    fn follow(&mut self, event: &Event, wanted: u64, start: Option<[u64; 2]>) {
        let of_all = is_of_all(event);
        self.of_all = self.of_all.saturating_add(u64::from(of_all));
        let (node, _) = self.graph.visit(Signature::of(event), of_all);
        if is_last(event) || event.exit.is_none() {
            self.state = State::Ended;
        }
        let inside = |it: &Loop| node.is_some_and(|node| it.nodes.contains(&node));
        match std::mem::take(&mut self.state) {
            State::Searching => self.search(wanted),
            State::Ended => self.state = State::Ended,
            State::Ready(it) | State::Armed(it) | State::Dropping(it) if !inside(&it) => {
                self.graph.forget();
            }
            State::Ready(it) => {
                self.begin(node == Some(it.header), false);
                self.state = State::Ready(it);
            }
            State::Armed(it) => {
                let begins = node == Some(it.header);
                let place = self.place(&it);
                let due = start.is_some_and(|start| place >= start[usize::from(it.of_all)]);
                self.begin(begins, due);
                self.state = if begins && due {
                    State::Dropping(it)
                } else {
                    State::Armed(it)
                };
            }
            State::Dropping(it) => {
                self.begin(node == Some(it.header), true);
                self.state = State::Dropping(it);
            }
        }
    }

    /// Counts an iteration, if one begins.
    fn begin(&mut self, begins: bool, dropped: bool) {
        let one = u64::from(begins);
        self.iterations = self.iterations.saturating_add(one);
        let dropped = one * u64::from(dropped);
        self.dropped_iterations = self.dropped_iterations.saturating_add(dropped);
    }

    /// Searches for the main loop, rarely enough to cost little.
    fn search(&mut self, wanted: u64) {
        if self.looked != self.graph.grown() {
            (self.looked, self.next_look) = (self.graph.grown(), FIRST_LOOK);
        }
        if self.graph.age() < self.next_look {
            return;
        }
        self.next_look = self.next_look.saturating_mul(2);
        let Some(found) = self.graph.find_loop() else {
            return;
        };
        let (_, recent) = self.graph.visits(found.header);
        if recent >= wanted.max(2) {
            self.iterations = self.iterations.saturating_add(recent);
            self.state = State::Ready(found);
        }
    }

    /// Returns the number of its current iteration, the same in each thread of a program whose threads do the same.
    pub(crate) fn place(&self, of: &Loop) -> u64 {
        match of.of_all {
            true => self.of_all,
            false => self.graph.visits(of.header).0,
        }
    }

    /// Adds a call to the sums, if the scenario selected it.
    fn measure(&mut self, event: &Event, kept: bool) {
        if !event.selected {
            return;
        }
        if event.depth > 0 {
            if !kept {
                let sums = self.functions.entry(event.function).or_default();
                sums.nested = sums.nested.saturating_add(event.calls());
            }
            return;
        }
        if let (Some(inside), Some((least, most))) = (event.duration(), event.durations()) {
            let sums = self.functions.entry(event.function).or_default();
            let cycles = match kept {
                true => &mut sums.cycles.kept,
                false => &mut sums.cycles.dropped,
            };
            cycles.add(event.calls(), inside, least, most);
        }
        if !kept {
            self.move_bytes(event);
        }
        self.pass(event, kept);
    }

    /// Adds the data that a dropped call moved.
    fn move_bytes(&mut self, event: &Event) {
        let sums = self.functions.entry(event.function).or_default();
        let mut receive = |bytes: u64, exact: bool| {
            sums.received = sums.received.saturating_add(bytes);
            if !exact {
                sums.inexact = sums.inexact.saturating_add(bytes);
            }
        };
        for completion in &event.completed {
            receive(completion.received, completion.exact);
        }
        let done = |it: &&Transfer| it.phase == Phase::Done;
        let received = event.transfers.iter().filter(done);
        for transfer in received.filter(|it| it.direction == Direction::Receive) {
            receive(transfer.bytes, transfer.exact);
        }
        let sent = |it: &&Transfer| it.direction == Direction::Send;
        for transfer in event.transfers.iter().filter(sent) {
            sums.sent = sums.sent.saturating_add(transfer.bytes);
        }
        for transfer in event.transfers.iter().filter(|it| is_message(it)) {
            let side = usize::from(transfer.direction == Direction::Receive);
            self.messages[side] = self.messages[side].saturating_add(1);
        }
        for operation in &event.collectives {
            let told = self.operations.add(event.function, operation);
            sums.untold = sums.untold.saturating_add(u64::from(!told));
        }
    }

    /// Adds the time between the previous call and this one.
    fn pass(&mut self, event: &Event, kept: bool) {
        let since = |left: Option<u64>| left.and_then(|left| event.entry.checked_sub(left));
        let both_kept = kept && !self.in_gap;
        if let Some(between) = since(self.left) {
            if let Some(before) = self.before {
                let transition = self.transitions.entry((before, event.function));
                let sums = transition.or_default();
                match both_kept {
                    true => sums.kept.add_one(between),
                    false => sums.dropped.add_one(between),
                }
            }
            if !both_kept {
                self.intervals.add_one(between);
            }
        }
        if !kept {
            let (between, outside) = (event.calls() - 1, event.outside());
            let each = outside.checked_div(between).unwrap_or(0);
            self.intervals.add(between, outside, each, each);
        } else if let Some(gap) = since(self.kept_left).filter(|_| self.in_gap) {
            self.gaps.add_one(gap);
        }
        self.in_gap = !kept;
        self.left = event.exit;
        self.before = Some(event.function);
        if kept {
            self.kept_left = event.exit;
        }
    }
}

/// True for a side of a message to or from a process. Accesses to windows have no such other side.
fn is_message(transfer: &Transfer) -> bool {
    transfer.peer != Peer::Null && !transfer.is_access()
}
