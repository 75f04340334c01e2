//! One thread: where it is in its program, and what was dropped of it.
//!
//! Called by the collector, call by call.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::{Direction, Event};
use bincode::{Decode, Encode};

use crate::graph::{Graph, Loop};
use crate::measure::{Dropped, Measure};
use crate::signature::{Signature, is_last, is_of_all, may_go};

/// Calls without growth after which a loop is looked for first; then after twice as many each time.
const FIRST_LOOK: u64 = 4;

/// Requests of kept calls that are open, at most; those of more are forgotten, and their completions dropped.
const MOST_OPEN: usize = 1 << 16;

/// What a thread is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) enum State {
    /// Its main loop is not known.
    #[default]
    Searching,
    /// It is in its main loop, and enough iterations were kept.
    Ready(Loop),
    /// The same, and it will drop from an iteration on that was agreed on.
    Armed(Loop),
    /// It drops iterations.
    Dropping(Loop),
    /// It makes no more calls.
    Ended,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub(crate) struct Follower {
    pub(crate) rank: u32,
    graph: Graph,
    pub(crate) state: State,
    next_look: u64,
    looked: u64,
    /// Collective operations of all processes that it made.
    of_all: u64,
    left: u64,
    open: BTreeSet<u64>,
    pub(crate) iterations: u64,
    pub(crate) dropped_iterations: u64,
    pub(crate) functions: BTreeMap<u16, Dropped>,
    /// Time between calls that were dropped and those before them, by their functions.
    pub(crate) transitions: BTreeMap<(u16, u16), Measure>,
    before: Option<u16>,
}

impl Follower {
    /// Takes a call. Returns whether it is kept whole.
    pub(crate) fn take(&mut self, event: &Event, wanted: u64, start: Option<[u64; 2]>) -> bool {
        self.rank = event.rank;
        let node = (event.depth == 0).then(|| self.follow(event, wanted, start));
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
        if node.is_some() {
            self.left = event.exit.unwrap_or(event.entry);
            self.before = Some(event.function);
        }
        kept
    }

    fn follow(&mut self, event: &Event, wanted: u64, start: Option<[u64; 2]>) {
        let of_all = is_of_all(event);
        self.of_all += u64::from(of_all);
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
                self.iterations += u64::from(node == Some(it.header));
                self.state = State::Ready(it);
            }
            State::Armed(it) => {
                let begins = node == Some(it.header);
                self.iterations += u64::from(begins);
                let place = self.place(&it);
                let due = start.is_some_and(|start| place >= start[usize::from(it.of_all)]);
                self.state = if begins && due {
                    self.dropped_iterations += 1;
                    State::Dropping(it)
                } else {
                    State::Armed(it)
                };
            }
            State::Dropping(it) => {
                let begins = u64::from(node == Some(it.header));
                self.iterations += begins;
                self.dropped_iterations += begins;
                self.state = State::Dropping(it);
            }
        }
    }

    /// Looks for the main loop, seldom enough to cost little.
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
            self.iterations += recent;
            self.state = State::Ready(found);
        }
    }

    /// Which iteration it is in: the same number in each thread of a program whose threads do the same.
    pub(crate) fn place(&self, of: &Loop) -> u64 {
        match of.of_all {
            true => self.of_all,
            false => self.graph.visits(of.header).0,
        }
    }

    fn measure(&mut self, event: &Event, kept: bool) {
        let (Some(inside), calls) = (event.duration(), event.calls()) else {
            return;
        };
        let sums = self.functions.entry(event.function).or_default();
        if kept {
            sums.kept.add(inside, calls);
            return;
        }
        sums.dropped.add(inside, calls);
        for transfer in &event.transfers {
            match transfer.direction {
                Direction::Send => sums.sent = sums.sent.saturating_add(transfer.bytes),
                Direction::Receive => sums.received = sums.received.saturating_add(transfer.bytes),
            }
        }
        if let Some(before) = self.before.filter(|_| event.depth == 0) {
            let between = event.entry.saturating_sub(self.left);
            let transition = self.transitions.entry((before, event.function));
            transition.or_default().add(between, 1);
        }
    }
}
