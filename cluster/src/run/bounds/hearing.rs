//! The earliest arrivals from other nodes, by way of access switches.
//!
//! All frames from hosts at one switch pass through it, so its first two nodes suffice: switches are
//! paired, not nodes. A node never counts as its own sender. Called by `Bounds` for the bounds of each
//! round.

use belljar_fabric::Distances;
use belljar_sim::Time;

use super::NodeDistances;

/// The time at which a node's next frame would be at its switch, and the node.
type Act = (Time, u32);

const NOBODY: Act = (Time::MAX, u32::MAX);

/// The frames that soon acting nodes could send, by switch.
#[derive(Debug)]
pub(super) struct Hearing {
    /// The first two acts of each switch.
    acts: Vec<[Act; 2]>,
    /// Switches with such nodes, in order of activation.
    active: Vec<usize>,
    /// For each switch, the time at which frames of other switches could be at its ports.
    from_others: Vec<Time>,
    /// For each switch, the times at which frames of its own first two nodes could be at its ports.
    beside: Vec<[Time; 2]>,
}

impl Hearing {
    /// For this number of access switches.
    pub(super) fn new(switches: usize) -> Self {
        Self {
            acts: vec![[NOBODY; 2]; switches],
            active: Vec::new(),
            from_others: vec![Time::MAX; switches],
            beside: vec![[Time::MAX; 2]; switches],
        }
    }

    /// Removes all nodes.
    pub(super) fn clear(&mut self) {
        for switch in self.active.drain(..) {
            self.acts[switch] = [NOBODY; 2];
        }
    }

    /// Adds the next action of `node` at that place, at `next`.
    pub(super) fn listen(&mut self, node: u32, place: &NodeDistances, next: Time) {
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

    /// The number of switches with such nodes.
    pub(super) fn switches(&self) -> usize {
        self.active.len()
    }

    /// Computes the earliest arrivals between these switches, and from their own nodes to their ports.
    pub(super) fn pass_on(&mut self, distances: &Distances) {
        for &to in &self.active {
            let others = self.active.iter().filter(|from| **from != to);
            let heard = others.map(|&from| self.acts[from][0].0 + distances.way(from, to));
            self.from_others[to] = heard.min().unwrap_or(Time::MAX);
            let through = distances.way(to, to);
            self.beside[to] = self.acts[to].map(|(at, _)| at + through);
        }
    }

    /// The time at which `node`, one of these, at that place, could first receive a frame of another
    /// one.
    pub(super) fn of(&self, node: u32, place: &NodeDistances) -> Time {
        let [first, second] = self.beside[place.switch];
        let is_first = self.acts[place.switch][0].1 == node;
        let beside = if is_first { second } else { first };
        beside.min(self.from_others[place.switch]) + place.hop
    }
}
