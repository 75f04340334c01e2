//! Breakpoints and watchpoints of a timeline's nodes, and arrivals at them.
//!
//! The position of an access to watched memory follows its instruction. A movement forwards halts each node at its first arrival; a movement backwards records all arrivals. Called
//! by the movements of the timeline.

use std::collections::BTreeMap;

use belljar_sim::{Span, Time};

use super::{BreakFilter, Breakpoint, Moved, NodeWatchpoint, Position, Timeline};
use crate::run::error::RunError;
use crate::run::runner::Arrival;

/// An arrival of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeArrival {
    pub(super) position: Position,
    arrival: Arrival,
}

impl NodeArrival {
    pub(super) fn moved(&self) -> Moved {
        let address = self.arrival.address;
        match self.arrival.access {
            Some(access) => Moved::Accessed { address, access },
            None => Moved::Hit(address),
        }
    }
}

/// The arrivals at breakpoints that a movement records.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    All,
    None,
}

impl Timeline {
    /// True if nodes that are ahead of the position ran there with other breakpoints.
    pub(super) fn differs_elsewhere(&self) -> bool {
        let elsewhere = |it: &&Breakpoint| it.node != self.at.node;
        let placed = self.placed.iter().filter(elsewhere);
        let other = |it: &&NodeWatchpoint| it.node != self.at.node;
        let watched = self.placed_watchpoints.iter().filter(other);
        !self.settled
            && (!placed.eq(self.breakpoints.iter().filter(elsewhere))
                || !watched.eq(self.watchpoints.iter().filter(other)))
    }

    /// Releases all nodes but those that are at later arrivals already. Arrivals after `from` halt their nodes.
    pub(super) fn go_on_from(&mut self, from: Position) -> Result<(), RunError> {
        let settled = self.settled;
        for mut runner in self.run_mut()?.workers().runners() {
            let node = runner.index;
            let at = |time, instructions| Position {
                time,
                node,
                instructions,
            };
            let waiting = runner.arrivals().first();
            let is_later = |it: &Arrival| at(it.time, it.instructions) > from;
            if !settled && waiting.is_some_and(is_later) {
                continue;
            }
            let here = runner.node().retired();
            let is_past = at(runner.node().now(), here) <= from;
            runner.release(here + u64::from(is_past), true);
        }
        Ok(())
    }

    /// Releases all nodes; the `counted` arrivals are recorded, and halt their node with `halts`.
    pub(super) fn release(&mut self, counted: Counted, halts: bool) -> Result<(), RunError> {
        for mut runner in self.run_mut()?.workers().runners() {
            let here = runner.node().retired();
            let first = match counted {
                Counted::All => here,
                Counted::None => u64::MAX,
            };
            runner.release(first, halts);
        }
        Ok(())
    }

    pub(super) fn place_breakpoints(&mut self) {
        let Some(run) = &self.run else {
            return;
        };
        for mut runner in run.workers().runners() {
            let mut points: BTreeMap<u64, Vec<BreakFilter>> = BTreeMap::new();
            let own = |it: &&Breakpoint| it.node == runner.index;
            for breakpoint in self.breakpoints.iter().filter(own) {
                let filters = points.entry(breakpoint.address).or_default();
                filters.push(breakpoint.filter);
            }
            runner.set_breakpoints(points);
            let own = self.watchpoints.iter().filter(|it| it.node == runner.index);
            let watched = own.map(|it| it.watchpoint).collect();
            runner.set_watchpoints(watched);
        }
        self.placed.clone_from(&self.breakpoints);
        self.placed_watchpoints.clone_from(&self.watchpoints);
    }

    pub(super) fn first_arrival(&self) -> Option<NodeArrival> {
        self.arrivals().min()
    }

    /// The last arrival before a position. An access whose instruction ends there is before it.
    pub(super) fn last_arrival(&self, before: Position) -> Option<NodeArrival> {
        let earlier = self.arrivals().filter(|it| {
            let is_over = it.arrival.access.is_some() && it.position == before;
            it.position < before || is_over
        });
        earlier.max()
    }

    /// Moves to an arrival; to the position before its instruction if that accesses watched memory.
    pub(super) fn go_before(&mut self, last: &NodeArrival) -> Result<(), RunError> {
        let at = last.position;
        let Some(access) = last.arrival.access else {
            return self.goto(at);
        };
        let before = at.instructions.saturating_sub(1);
        match access.device {
            Some(written) => self.goto(Position {
                time: Time::from_ps(written.as_ps().saturating_sub(Span::from_ps(1).as_ps())),
                instructions: before,
                ..at
            }),
            None => self.before(at.time, at.node, before),
        }
    }

    fn arrivals(&self) -> impl Iterator<Item = NodeArrival> {
        let runners = self.run.iter().flat_map(|run| run.workers().runners());
        runners.flat_map(|runner| {
            let node = runner.index;
            let of = |arrival: &Arrival| NodeArrival {
                position: Position {
                    time: arrival.time,
                    node,
                    instructions: arrival.instructions,
                },
                arrival: *arrival,
            };
            runner.arrivals().iter().map(of).collect::<Vec<_>>()
        })
    }
}
