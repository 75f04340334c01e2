//! Bounds of nodes' turns.
//!
//! Conservative synchronisation after Chandy and Misra, with a lookahead for each pair of nodes. Node
//! `i` may run to the least `next_j + distance(j, i)` over all other nodes `j`, where `next_j` is the
//! time of the next action of `j`. A chain of reactions that begins at `j` takes no shorter path (the
//! triangle inequality). A chain that begins at `i` itself is bounded while `i` runs: it stops an echo
//! after its first frame. Bounds do not affect results; they only determine the number of turns.

use belljar_fabric::Distances;
use belljar_sim::{Random, Seed, Span, Time};

/// Nodes that run past their ends within a round.
mod ahead;
/// The earliest arrivals from other nodes, by way of access switches.
mod hearing;

pub(crate) use ahead::{Ahead, NodeStep, NullMessage};
use hearing::Hearing;

/// Maximum number of access switches with soon acting nodes for examining all pairs. With more
/// switches, the nearest two nodes bound all: then all nodes are busy, and neighbours determine the
/// bounds.
const MOST_PAIRED: usize = 48;

/// The variable that cuts turns at random, for tests: a seed, or [`STILL`].
const ROUGH_ROUNDS: &str = "BELLJAR_ROUGH_ROUNDS";
/// Instead of a seed: turns of no length, so that no node advances.
const STILL: &str = "still";

/// Maximum number of described nodes in a run that stands still.
const MOST_TOLD: usize = 4;

/// Longest turn of a node before the host checks it again.
const ALONE_AT_MOST: Span = Span::from_ms(2);

/// Times from which what is in transit moves on, in each network.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTransit {
    /// Frames.
    pub frames: Option<Time>,
    /// Packets of the InfiniBand network.
    pub packets: Option<Time>,
}

/// A node's part of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number of the node.
    pub node: u32,
    /// Its bound.
    pub end: Time,
    /// Its bound after its first sent frame, relative to that frame.
    pub echo: Span,
    /// The furthest bound that other nodes may allow, in a round in which nodes run past their ends.
    pub reach: Time,
}

impl Turn {
    /// True if it may run past its end.
    pub(crate) fn goes_on(&self) -> bool {
        self.end < self.reach
    }

    /// The minimum latency from another node to this one.
    fn nearest(&self) -> Span {
        half(self.echo)
    }
}

/// Constant properties of a node, stored together: if all nodes are busy and close, they are read for
/// each turn.
#[derive(Clone, Copy, Debug)]
struct NodeDistances {
    nearest: Span,
    tail: Span,
    /// The same in the InfiniBand network; endless without one.
    packet_tail: Span,
    /// Its access switch, and the latency to it.
    switch: usize,
    hop: Span,
    /// True if another host runs it: it has no turns here.
    elsewhere: bool,
}

/// The bounds of a cluster's nodes.
#[derive(Debug)]
pub struct Bounds {
    distances: Distances,
    places: Vec<NodeDistances>,
    /// The time of each node's next action.
    next: Vec<Time>,
    least_tail: Span,
    least_packet_tail: Span,
    /// After this time, an action of a node can have affected all others.
    longest: Span,
    /// Shortens turns at random, for tests: results do not depend on their ends.
    rough: Option<Rough>,
    /// Nodes that could act before all could receive a frame of the first.
    soon: Vec<u32>,
    hearing: Hearing,
}

impl Bounds {
    /// The bounds of a cluster of `nodes` nodes with `distances`, which do nothing before time zero.
    pub fn new(distances: Distances, nodes: u32) -> Self {
        let place = |node| {
            let (switch, hop) = distances.access(node);
            NodeDistances {
                nearest: distances.nearest(node),
                tail: distances.tail(node),
                packet_tail: Span::MAX,
                switch,
                hop,
                elsewhere: false,
            }
        };
        let places: Vec<NodeDistances> = (0..nodes).map(place).collect();
        let tails = places.iter().map(|place| place.tail);
        Self {
            least_tail: tails.min().unwrap_or(Span::MAX),
            least_packet_tail: Span::MAX,
            longest: distances.longest(),
            places,
            next: vec![Time::ZERO; nodes as usize],
            soon: Vec::new(),
            hearing: Hearing::new(distances.switches()),
            rough: rough(),
            distances,
        }
    }

    /// The bounds of a cluster with two networks, in which `frames` and `packets` of InfiniBand are the distances. A chain of reactions may
    /// change networks, so distances of one network alone bound it only if they are the shorter ones for all pairs; otherwise all nodes are
    /// as close as the two nearest.
    pub fn of_two(frames: &Distances, packets: &Distances, nodes: u32) -> Self {
        let nearest = |of: &Distances| (0..nodes).map(|node| of.nearest(node)).min();
        let (by_frames, by_packets) = (nearest(frames), nearest(packets));
        let both = if by_frames >= Some(packets.longest()) {
            packets.clone()
        } else if by_packets >= Some(frames.longest()) {
            frames.clone()
        } else {
            let least = by_frames.min(by_packets).unwrap_or(Span::MAX);
            Distances::uniform(nodes, least)
        };
        let mut bounds = Self::new(both, nodes);
        for (node, place) in (0..).zip(&mut bounds.places) {
            place.tail = frames.tail(node);
            place.packet_tail = packets.tail(node);
        }
        let tails = |tail: fn(&NodeDistances) -> Span| bounds.places.iter().map(tail).min();
        let least = [tails(|place| place.tail), tails(|place| place.packet_tail)];
        let [frame_tail, packet_tail] = least.map(|least| least.unwrap_or(Span::MAX));
        (bounds.least_tail, bounds.least_packet_tail) = (frame_tail, packet_tail);
        bounds.longest = frames.longest().max(packets.longest());
        bounds
    }

    /// An upper bound on the least times between any two nodes: an action of one node can affect all others after this time.
    pub fn longest(&self) -> Span {
        self.longest
    }

    /// Leaves all turns of `node` to another host.
    pub fn leave(&mut self, node: u32) {
        self.places[node as usize].elsewhere = true;
    }

    /// The number of nodes.
    pub(crate) fn nodes(&self) -> u32 {
        self.places.len() as u32
    }

    /// The distances between nodes.
    pub fn distances(&self) -> &Distances {
        &self.distances
    }

    /// Sets the time of the next action of `node`; [`Time::MAX`] for never.
    pub fn set(&mut self, node: u32, next: Time) {
        self.next[node as usize] = next;
    }

    /// The time of the next action of `node`, as last set.
    pub(crate) fn next(&self, node: u32) -> Time {
        self.next[node as usize]
    }

    /// Describes which of the first nodes wait for which others, for a run that stands still.
    pub(crate) fn who_waits(&self) -> String {
        let mut nodes: Vec<(Time, u32)> = self.next.iter().copied().zip(0..).collect();
        nodes.sort_unstable();
        let waits = |&(at, node): &(Time, u32)| {
            let others = nodes.iter().filter(|(_, other)| *other != node);
            let heard = others.map(|&(at, other)| (at + self.distances.least(other, node), other));
            let place = if self.places[node as usize].elsewhere {
                " elsewhere"
            } else {
                ""
            };
            match heard.min() {
                Some((until, other)) => format!(
                    "node {node}{place} is at {at} and may run to {until}, when a frame of node {other} could arrive"
                ),
                None => format!("node {node}{place} is at {at} and waits for no node"),
            }
        };
        let first: Vec<String> = nodes.iter().take(MOST_TOLD).map(waits).collect();
        first.join("; ")
    }

    /// The time of the first action of any node.
    pub fn first(&self) -> Time {
        self.next.iter().copied().min().unwrap_or(Time::MAX)
    }

    /// The time before which no node acts, not even on arrival of what is in transit.
    pub fn settled(&self, transit: InTransit) -> Time {
        let arrival = arrival(transit, self.least_tail, self.least_packet_tail);
        self.first().min(arrival)
    }

    /// The turns of a round: all that are worthwhile, and always the turn of the first node to act.
    /// Every arrival before the times of `transit` plus a node's tails must be known to the node. No turn exceeds
    /// `cap`. In an `open` round nodes run past their ends as far as others let them. Then all soon
    /// acting nodes have turns, even if such a turn begins with its end.
    pub fn turns(&mut self, transit: InTransit, cap: Time, open: bool, turns: &mut Vec<Turn>) {
        turns.clear();
        let [(first, least), second] = self.least_two();
        let (soon, later) = self.who_is_soon(least);
        let paired = self.hearing.switches() <= MOST_PAIRED;
        if paired {
            self.hearing.pass_on(&self.distances);
        }
        for &node in &soon {
            let place = self.places[node as usize];
            if place.elsewhere {
                continue;
            }
            let others = if paired {
                self.hearing.of(node, &place)
            } else {
                let other = if node == first { second.1 } else { least };
                other + place.nearest
            };
            let arrivals = arrival(transit, place.tail, place.packet_tail);
            let reach = (later + place.nearest).min(arrivals).min(cap);
            let must = node == first || others.min(reach) == cap;
            turns.extend(self.turn(node, others, reach, must, open));
        }
        self.soon = soon;
    }

    /// A node's turn, if it has one: `others` bound it, and nothing else below `reach`. With `must` any
    /// turn is worthwhile.
    fn turn(
        &mut self,
        node: u32,
        others: Time,
        reach: Time,
        must: bool,
        open: bool,
    ) -> Option<Turn> {
        let next = self.next[node as usize];
        let nearest = self.places[node as usize].nearest;
        let end = others.min(reach);
        let goes = next < end && (must || end.since(next) >= half(nearest));
        let end = end.min(next + ALONE_AT_MOST);
        let end = goes.then(|| self.roughly(next, end, must)).flatten();
        let echo = nearest + nearest;
        let turn = |end, reach| Turn {
            node,
            end,
            echo,
            reach,
        };
        if open {
            let end = end.unwrap_or(next);
            let reach = reach.min(next + ALONE_AT_MOST).max(end);
            let reach = self.roughly(end, reach, true).unwrap_or(end);
            return Some(turn(end, reach));
        }
        end.map(|end| turn(end, end))
    }

    /// The end of a turn that begins at `next`. If turns are cut at random, it is often an earlier one,
    /// or `None` unless the node `must` run.
    fn roughly(&mut self, next: Time, end: Time, must: bool) -> Option<Time> {
        let random = match &mut self.rough {
            None => return Some(end),
            Some(Rough::Still) => return Some(next),
            Some(Rough::Random(random)) => random,
        };
        let draw = random.next_u64();
        if !must && draw.is_multiple_of(4) {
            return None;
        }
        if draw.is_multiple_of(16) {
            // A node of several processors sometimes needs a whole turn.
            return Some(end);
        }
        let part = u128::from((draw >> 8) % 256 + 1);
        // Rounded up: rounded down, no node would reach an end that is less than 256 ps away.
        let length = (u128::from(end.since(next).as_ps()) * part).div_ceil(256);
        Some(next + Span::from_ps(length as u64))
    }

    /// The two nodes that act first, with their times; of equal nodes the first.
    fn least_two(&self) -> [(u32, Time); 2] {
        let mut two = [(u32::MAX, Time::MAX); 2];
        for (node, &next) in (0..).zip(&self.next) {
            if next < two[0].1 {
                two = [(node, next), two[0]];
            } else if next < two[1].1 {
                two[1] = (node, next);
            }
        }
        two
    }

    /// The nodes that act before all could receive a frame of the node at `least`, which are added to
    /// `hearing`, and the time of the first other node.
    fn who_is_soon(&mut self, least: Time) -> (Vec<u32>, Time) {
        let mut soon = std::mem::take(&mut self.soon);
        soon.clear();
        self.hearing.clear();
        let bound = least + self.distances.longest();
        let mut later = Time::MAX;
        for (node, &next) in (0..).zip(&self.next) {
            if next < bound {
                soon.push(node);
                self.hearing.listen(node, &self.places[node as usize], next);
            } else {
                later = later.min(next);
            }
        }
        (soon, later)
    }
}

/// The first arrival of what is in transit.
fn arrival(transit: InTransit, tail: Span, packet_tail: Span) -> Time {
    let frame = transit.frames.map_or(Time::MAX, |at| at + tail);
    let packet = transit.packets.map_or(Time::MAX, |at| at + packet_tail);
    frame.min(packet)
}

/// Methods of shortening turns.
#[derive(Clone, Debug)]
enum Rough {
    Random(Box<Random>),
    Still,
}

fn rough() -> Option<Rough> {
    let wanted = std::env::var(ROUGH_ROUNDS).ok()?;
    if wanted == STILL {
        return Some(Rough::Still);
    }
    let seed = wanted.parse().ok()?;
    Some(Rough::Random(Box::new(Random::new(
        Seed(seed),
        "rounds",
        0,
    ))))
}

fn half(span: Span) -> Span {
    Span::from_ps(span.as_ps() / 2)
}

#[cfg(test)]
mod tests;
