//! How far each node may run before anybody else must be heard.
//!
//! Conservative synchronisation after Chandy and Misra, with a lookahead for each pair
//! of nodes: node `i` may run to the least `next_j + distance(j, i)` over all other
//! nodes `j`, where `next_j` is the first time at which `j` does anything. A chain of
//! answers that begins at `j` takes no shorter way (the triangle inequality), and one
//! that begins at `i` itself is bounded while `i` runs: it stops an echo after its
//! first frame. Nothing of this shows in results; it decides only how often nodes
//! take turns.

use belljar_fabric::Distances;
use belljar_sim::{Random, Seed, Span, Time};

/// Nodes that run past their ends within a round.
mod ahead;
/// When each node could first hear of any other, by way of their access switches.
mod hearing;

pub(crate) use ahead::{Ahead, NullMessage, Step};
use hearing::Hearing;

/// Access switches with nodes about to act up to which each pair is looked at. For more, what the
/// nearest two nodes could do bounds all: then all are busy, and neighbours are what counts.
const MOST_PAIRED: usize = 48;

/// The variable that has turns cut at random, for tests: a seed, or [`STILL`].
const ROUGH_ROUNDS: &str = "BELLJAR_ROUGH_ROUNDS";
/// In place of a seed: turns of no length, so that nobody gets anywhere.
const STILL: &str = "still";

/// Of a run that stands still, the nodes of which it is told what they wait for.
const MOST_TOLD: usize = 4;

/// How far a node runs by itself before the host looks after it again.
const ALONE_AT_MOST: Span = Span::from_ms(2);

/// A node's part of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which node.
    pub node: u32,
    /// It must not go further.
    pub end: Time,
    /// Nor further than this after the first frame that it sends.
    pub echo: Span,
    /// As far as it may run when others let it, in a round in which nodes run past their ends.
    pub reach: Time,
}

impl Turn {
    /// Whether it may run past its end.
    pub(crate) fn goes_on(&self) -> bool {
        self.end < self.reach
    }

    /// The least time that anything takes from another node to this one.
    fn nearest(&self) -> Span {
        half(self.echo)
    }
}

/// What never changes of a node, all in one place: where all are busy and near each other, this
/// is gone through for each turn.
#[derive(Clone, Copy, Debug)]
struct Place {
    nearest: Span,
    tail: Span,
    /// Its access switch, and the time to there.
    switch: usize,
    hop: Span,
    /// Another host runs it: it has no turns here.
    elsewhere: bool,
}

/// What bounds the nodes of a cluster.
#[derive(Debug)]
pub struct Bounds {
    distances: Distances,
    places: Vec<Place>,
    /// When each node does anything next.
    next: Vec<Time>,
    least_tail: Span,
    /// What cuts turns short, for tests: results do not depend on where they end.
    rough: Option<Rough>,
    /// Nodes that could act before all have heard of the first.
    soon: Vec<u32>,
    hearing: Hearing,
}

impl Bounds {
    /// Of a cluster of `nodes` nodes that are `distances` apart and do nothing before time zero.
    pub fn new(distances: Distances, nodes: u32) -> Self {
        let place = |node| {
            let (switch, hop) = distances.access(node);
            Place {
                nearest: distances.nearest(node),
                tail: distances.tail(node),
                switch,
                hop,
                elsewhere: false,
            }
        };
        let places: Vec<Place> = (0..nodes).map(place).collect();
        let tails = places.iter().map(|place| place.tail);
        Self {
            least_tail: tails.min().unwrap_or(Span::MAX),
            places,
            next: vec![Time::ZERO; nodes as usize],
            soon: Vec::new(),
            hearing: Hearing::new(distances.switches()),
            rough: rough(),
            distances,
        }
    }

    /// Leaves all turns of `node` to another host.
    pub fn leave(&mut self, node: u32) {
        self.places[node as usize].elsewhere = true;
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> u32 {
        self.places.len() as u32
    }

    /// The distances that it goes by.
    pub fn distances(&self) -> &Distances {
        &self.distances
    }

    /// Tells when `node` does anything next; [`Time::MAX`] for never.
    pub fn set(&mut self, node: u32, next: Time) {
        self.next[node as usize] = next;
    }

    /// When `node` does anything next, as told last.
    pub(crate) fn next(&self, node: u32) -> Time {
        self.next[node as usize]
    }

    /// Who waits for whom, of the nodes that act first: in words, for a run that stands still.
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
                    "node {node}{place} is at {at} and may go to {until}, when it could hear of node {other}"
                ),
                None => format!("node {node}{place} is at {at} and waits for nobody"),
            }
        };
        let first: Vec<String> = nodes.iter().take(MOST_TOLD).map(waits).collect();
        first.join("; ")
    }

    /// No node does anything before this.
    pub fn first(&self) -> Time {
        self.next.iter().copied().min().unwrap_or(Time::MAX)
    }

    /// No node does anything before this, though frames that are on their way, of which
    /// the first moves on at `frames`, may yet arrive.
    pub fn settled(&self, frames: Option<Time>) -> Time {
        let arrival = frames.map_or(Time::MAX, |frames| frames + self.least_tail);
        self.first().min(arrival)
    }

    /// The turns of a round: those that are worth their while, and always that of the
    /// node that is the first to act. Every arrival before `frames` plus a node's tail
    /// must be known to the node. Nobody goes beyond `cap`. In an `open` round nodes run past
    /// their ends as far as others let them: there all that act soon have turns, though such a turn may
    /// begin with its end.
    pub fn turns(&mut self, frames: Option<Time>, cap: Time, open: bool, turns: &mut Vec<Turn>) {
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
            let arrivals = frames.map_or(Time::MAX, |at| at + place.tail);
            let reach = (later + place.nearest).min(arrivals).min(cap);
            let must = node == first || others.min(reach) == cap;
            turns.extend(self.turn(node, others, reach, must, open));
        }
        self.soon = soon;
    }

    /// A node's turn, if it has one: `others` let it go to there and nothing else lets it go
    /// further than `reach`. It is worth its while if it `must` be.
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

    /// The end of a turn that begins at `next`; when turns are cut at random, often an earlier
    /// one, or none at all unless the node `must` run.
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
            // A node of several processors needs a whole one at times.
            return Some(end);
        }
        let part = u128::from((draw >> 8) % 256 + 1);
        // Rounded up: down, nobody would ever come to an end that is less than 256 ps away.
        let length = (u128::from(end.since(next).as_ps()) * part).div_ceil(256);
        Some(next + Span::from_ps(length as u64))
    }

    /// The two nodes that act first, and when; the first of equals.
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

    /// The nodes that act before all can have heard of what happens at `least`, which are
    /// listened to, and when the first of the others does.
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

/// How turns are cut short.
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
