//! Breakpoints of a timeline's nodes, and arrivals at them.
//!
//! A movement forwards halts each node at its first arrival; a movement backwards records all arrivals. Called
//! by the movements of the timeline.

use std::collections::BTreeMap;

use super::{BreakFilter, Breakpoint, Position, Timeline};
use crate::run::error::RunError;
use crate::run::runner::Arrival;

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
        !self.settled && !placed.eq(self.breakpoints.iter().filter(elsewhere))
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
        }
        self.placed.clone_from(&self.breakpoints);
    }

    pub(super) fn first_arrival(&self) -> Option<(Position, u64)> {
        self.arrivals().min()
    }

    pub(super) fn last_arrival(&self, before: Position) -> Option<(Position, u64)> {
        let earlier = self.arrivals().filter(|(position, _)| *position < before);
        earlier.max()
    }

    pub(super) fn arrivals(&self) -> impl Iterator<Item = (Position, u64)> {
        let runners = self.run.iter().flat_map(|run| run.workers().runners());
        runners.flat_map(|runner| {
            let node = runner.index;
            let of = |arrival: &Arrival| {
                let position = Position {
                    time: arrival.time,
                    node,
                    instructions: arrival.instructions,
                };
                (position, arrival.address)
            };
            runner.arrivals().iter().map(of).collect::<Vec<_>>()
        })
    }
}
