//! When each node could first hear of any other, by way of their access switches.
//!
//! All that hosts at one switch can tell a node comes through it, so the first two of them are enough:
//! switches are paired, not nodes. A node is never counted as one that it hears of. Called by
//! `Bounds` for the bounds of each round.

use belljar_fabric::Distances;
use belljar_sim::Time;

use super::Place;

/// A node, and when a frame that it sends at its next act would be at its switch.
type Act = (Time, u32);

const NOBODY: Act = (Time::MAX, u32::MAX);

/// What the switches carry of nodes that are about to act.
#[derive(Debug)]
pub(super) struct Hearing {
    /// By switch, the first two.
    acts: Vec<[Act; 2]>,
    /// Switches that have any, in order of their numbers.
    active: Vec<usize>,
    /// By switch, when what others carry could be at its ports.
    from_others: Vec<Time>,
    /// By switch, when what its own first two send could be at its ports.
    beside: Vec<[Time; 2]>,
}

impl Hearing {
    /// For so many access switches.
    pub(super) fn new(switches: usize) -> Self {
        Self {
            acts: vec![[NOBODY; 2]; switches],
            active: Vec::new(),
            from_others: vec![Time::MAX; switches],
            beside: vec![[Time::MAX; 2]; switches],
        }
    }

    /// Forgets all nodes.
    pub(super) fn clear(&mut self) {
        for switch in self.active.drain(..) {
            self.acts[switch] = [NOBODY; 2];
        }
    }

    /// Takes what `node` at that place could do at `next`.
    pub(super) fn listen(&mut self, node: u32, place: &Place, next: Time) {
        let act = (next + place.hop, node);
        let acts = &mut self.acts[place.switch];
        if acts[0] == NOBODY {
            self.active.push(place.switch);
        }
        if act < acts[0] {
            *acts = [act, acts[0]];
        } else if act < acts[1] {
            acts[1] = act;
        }
    }

    /// How many switches have such nodes.
    pub(super) fn switches(&self) -> usize {
        self.active.len()
    }

    /// Works out what those switches hear of each other, and when what they hear of their own
    /// nodes is at their ports.
    pub(super) fn pass_on(&mut self, distances: &Distances) {
        for &to in &self.active {
            let others = self.active.iter().filter(|from| **from != to);
            let heard = others.map(|&from| self.acts[from][0].0 + distances.way(from, to));
            self.from_others[to] = heard.min().unwrap_or(Time::MAX);
            let through = distances.way(to, to);
            self.beside[to] = self.acts[to].map(|(at, _)| at + through);
        }
    }

    /// When `node`, one of those, at that place, could first hear of another one.
    pub(super) fn of(&self, node: u32, place: &Place) -> Time {
        let [first, second] = self.beside[place.switch];
        let is_first = self.acts[place.switch][0].1 == node;
        let beside = if is_first { second } else { first };
        beside.min(self.from_others[place.switch]) + place.hop
    }
}
