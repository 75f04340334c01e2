//! Bounds of turns: nodes advance, and none receives a frame in its past.
use belljar_fabric::{LinkSpec, SwitchSpec, Topology};
use proptest::prelude::*;

use super::*;

const SWITCH: SwitchSpec = SwitchSpec {
    latency: Span::from_ns(300),
    queue_bytes: 1 << 20,
};

fn link(ns: u64) -> LinkSpec {
    LinkSpec {
        bandwidth: u64::MAX,
        latency: Span::from_ns(ns),
    }
}

fn star(nodes: u32) -> Bounds {
    let topology = Topology::star(nodes, link(1000), SWITCH).unwrap();
    Bounds::new(Distances::new(&topology), nodes)
}

fn us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

fn turns(bounds: &mut Bounds, frames: Option<Time>) -> Vec<Turn> {
    let mut turns = Vec::new();
    let transit = InTransit {
        frames,
        packets: None,
    };
    bounds.turns(transit, Time::MAX, false, &mut turns);
    turns
}

#[test]
fn busy_nodes_run_a_lookahead_beyond_each_other() {
    let mut bounds = star(3);
    for node in 0..3 {
        bounds.set(node, us(10));
    }
    let lookahead = bounds.distances().least(0, 1);
    let turns = turns(&mut bounds, None);
    assert_eq!(turns.len(), 3);
    assert!(turns.iter().all(|turn| turn.end == us(10) + lookahead));
    assert_eq!(turns[0].echo, lookahead + lookahead);
}

#[test]
fn a_node_alone_runs_up_to_what_the_next_could_tell_it() {
    let mut bounds = star(3);
    for (node, next) in [(0, us(10)), (1, us(900)), (2, Time::MAX)] {
        bounds.set(node, next);
    }
    let lookahead = bounds.distances().least(0, 1);
    let found = turns(&mut bounds, None);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].node, found[0].end), (0, us(900) + lookahead));
    // A frame in flight bounds it, too.
    let tail = bounds.distances().tail(0);
    let found = turns(&mut bounds, Some(us(11)));
    assert_eq!(found[0].end, us(11) + tail);
}

#[test]
fn a_node_that_is_far_ahead_waits_until_its_turn_is_worth_it() {
    let mut bounds = star(2);
    bounds.set(0, us(10));
    bounds.set(1, us(12));
    let found = turns(&mut bounds, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].node, 0);
    assert!(found[0].end > us(14), "{found:?}");
}

#[test]
fn turns_cut_at_random_come_to_their_end() {
    let mut bounds = star(2);
    bounds.rough = Some(Rough::Random(Box::new(Random::new(Seed(1), "rounds", 0))));
    // Less than the number of parts of a turn.
    let end = us(1) + Span::from_ps(100);
    let next = us(1);
    let reached = (0..10_000).filter_map(|_| bounds.roughly(next, end, true));
    let ends: Vec<Time> = reached.collect();
    assert!(ends.iter().all(|&at| next < at && at <= end));
    assert!(ends.contains(&end));
}

#[test]
fn a_turn_alone_comes_back_in_time() {
    let mut bounds = star(1);
    bounds.set(0, us(10));
    assert_eq!(turns(&mut bounds, None)[0].end, us(2010));
}

proptest! {
    /// Pairing switches gives the same bounds as examining each pair of nodes.
    #[test]
    fn nodes_hear_of_the_first_that_can_reach_them(
        acts in proptest::collection::vec(0u64..9_000, 2..20),
        fanout in 2u32..5,
    ) {
        let nodes = acts.len() as u32;
        let topology = Topology::tree(nodes, fanout, link(1000), link(3000), SWITCH).unwrap();
        let distances = Distances::new(&topology);
        let mut bounds = Bounds::new(distances, nodes);
        // Acts of an earlier round are removed.
        bounds.turns(InTransit::default(), Time::MAX, false, &mut Vec::new());
        let next: Vec<Time> = acts.iter().map(|ns| Time::from_ps(ns * 1000)).collect();
        for (node, &next) in (0..).zip(&next) {
            bounds.set(node, next);
        }
        let (soon, _) = bounds.who_is_soon(bounds.first());
        bounds.hearing.pass_on(&bounds.distances);
        for &node in &soon {
            let others = soon.iter().filter(|other| **other != node);
            let heard =
                others.map(|&other| next[other as usize] + bounds.distances.least(other, node));
            let found = bounds.hearing.of(node, &bounds.places[node as usize]);
            prop_assert_eq!(found, heard.min().unwrap_or(Time::MAX));
        }
    }
}

/// A model of nodes: each acts at given times, and reacts to each message at once with a message to the next
/// node.
#[derive(Clone, Debug)]
struct Model {
    own: Vec<Vec<u64>>,
    hops: u32,
}

fn model() -> impl Strategy<Value = Model> {
    let own = proptest::collection::vec(0u64..60_000, 0..8);
    (proptest::collection::vec(own, 2..9), 0u32..5).prop_map(|(mut own, hops)| {
        for times in &mut own {
            times.sort_unstable();
        }
        Model { own, hops }
    })
}

/// A model while it runs.
struct Nodes {
    bounds: Bounds,
    /// The times of each node's actions, with the remaining length of the chain of messages.
    due: Vec<Vec<(Time, u32)>>,
    /// The time that each node has reached.
    clocks: Vec<Time>,
    /// Messages of this round: receiver, arrival, and remaining length of the chain.
    sent: Vec<(usize, Time, u32)>,
    /// The duration of an action, which must lie within one turn.
    act: Span,
}

impl Nodes {
    fn new(model: &Model, fanout: u32, act: Span) -> Self {
        let nodes = model.own.len() as u32;
        let topology = Topology::tree(nodes, fanout, link(1000), link(3000), SWITCH).unwrap();
        let times = |own: &Vec<u64>| {
            let acts = own.iter().map(|ns| (Time::from_ps(ns * 1000), model.hops));
            acts.collect()
        };
        Self {
            bounds: Bounds::new(Distances::new(&topology), nodes),
            due: model.own.iter().map(times).collect(),
            clocks: vec![Time::ZERO; nodes as usize],
            sent: Vec::new(),
            act,
        }
    }

    fn next(&self, node: u32) -> Time {
        let first = self.due[node as usize].first();
        first.map_or(Time::MAX, |(time, _)| *time)
    }

    /// The turns of the next round, within a `window` of time; empty if nothing is left to do.
    fn turns(&mut self, window: Span, open: bool) -> Vec<Turn> {
        for (node, due) in (0..).zip(&mut self.due) {
            due.sort_unstable();
            let next = due.first().map_or(Time::MAX, |(time, _)| *time);
            self.bounds.set(node, next);
        }
        let mut turns = Vec::new();
        let first = self.bounds.first();
        if first < Time::MAX {
            let begun = (first + self.act).as_ps() / window.as_ps();
            let cap = Time::from_ps((begun + 1).saturating_mul(window.as_ps()));
            self.bounds
                .turns(InTransit::default(), cap, open, &mut turns);
            assert!(!turns.is_empty());
        }
        turns
    }

    /// Runs the node of `turn` to its end. Returns true if it sent a message.
    fn run(&mut self, turn: &Turn) -> bool {
        let node = turn.node as usize;
        let (mut end, mut spoke) = (turn.end, false);
        while let Some(&(time, hops)) = self.due[node].first() {
            if time >= end || time + self.act > end {
                // The node may be in the middle of an action.
                end = end.min(time);
                break;
            }
            self.due[node].remove(0);
            self.clocks[node] = self.clocks[node].max(time);
            let to = (turn.node + 1 + hops) % self.due.len() as u32;
            if hops > 0 && to != turn.node {
                end = end.min(time + turn.echo);
                let span = self.bounds.distances().least(turn.node, to);
                self.sent.push((to as usize, time + span, hops - 1));
                spoke = true;
            }
        }
        self.clocks[node] = self.clocks[node].max(end);
        spoke
    }

    /// Delivers the messages.
    fn deliver(&mut self) {
        for (to, time, hops) in self.sent.drain(..) {
            let clock = self.clocks[to];
            assert!(time >= clock, "{time} at {to}, which is at {clock}");
            self.due[to].push((time, hops));
        }
    }

    /// Runs an open round, one step of a random node at a time. Returns the number of steps.
    fn go_on(&mut self, turns: &[Turn], random: &mut Random) -> u32 {
        let null_messages: Vec<NullMessage> =
            self.due.iter().map(|_| NullMessage::none()).collect();
        for turn in turns {
            null_messages[turn.node as usize].begin(self.next(turn.node), turn);
        }
        let way = |turn: &Turn| {
            let ahead = || Ahead::new(&null_messages, turn.node as usize, turn);
            (*turn, turn.goes_on().then(ahead))
        };
        let mut ways: Vec<_> = turns.iter().map(way).collect();
        let (mut pieces, mut idle) = (0, 0);
        while !ways.is_empty() {
            let chosen = random.next_u64() as usize % ways.len();
            let (turn, ahead) = &mut ways[chosen];
            idle += 1;
            let is_over = if self.next(turn.node) < turn.end && self.run(turn) {
                true
            } else {
                let step = ahead
                    .as_mut()
                    .map_or(NodeStep::Stop, |ahead| ahead.step(self.next(turn.node)));
                match step {
                    NodeStep::Run(end) => (turn.end, idle, pieces) = (end, 0, pieces + 1),
                    NodeStep::Wait => turn.end = Time::ZERO,
                    NodeStep::Stop => idle = 0,
                }
                step == NodeStep::Stop
            };
            if is_over {
                ways.swap_remove(chosen);
            }
            assert!(idle < 10_000, "all wait for each other");
        }
        pieces
    }
}

proptest! {
    /// No message arrives in a node's past, messages are forwarded, and all actions happen.
    #[test]
    fn nobody_is_told_of_the_past(
        model in model(),
        fanout in 2u32..5,
        act in 0u64..=2300,
        window in 1u64..40,
    ) {
        let mut nodes = Nodes::new(&model, fanout, Span::from_ns(act));
        for _ in 0..10_000 {
            let turns = nodes.turns(Span::from_us(window), false);
            if turns.is_empty() {
                return Ok(());
            }
            for turn in &turns {
                nodes.run(turn);
            }
            nodes.deliver();
        }
        prop_assert!(false, "there is no end to it");
    }

    /// The same if nodes run past their ends, in any order of steps.
    #[test]
    fn nobody_who_goes_on_is_told_of_the_past(
        model in model(),
        fanout in 2u32..5,
        act in 0u64..=2300,
        window in 1u64..40,
        seed: u64,
    ) {
        let mut nodes = Nodes::new(&model, fanout, Span::from_ns(act));
        let mut random = Random::new(Seed(seed), "steps", 0);
        for _ in 0..10_000 {
            let turns = nodes.turns(Span::from_us(window), true);
            if turns.is_empty() {
                return Ok(());
            }
            nodes.go_on(&turns, &mut random);
            nodes.deliver();
        }
        prop_assert!(false, "there is no end to it");
    }
}

/// Nodes without messages need one round, for any length of time.
#[test]
fn silent_nodes_go_on_to_the_end_of_time() {
    let own = (0..4).map(|node| (0..500).map(|act| 100 * act + node).collect());
    let model = Model {
        own: own.collect(),
        hops: 0,
    };
    let mut nodes = Nodes::new(&model, 4, Span::ZERO);
    let turns = nodes.turns(Span::MAX, true);
    assert_eq!(turns.len(), 4);
    let lookahead = nodes.bounds.distances().least(0, 1);
    assert!(
        turns
            .iter()
            .all(|turn| turn.end <= us(0) + Span::from_ns(3) + lookahead)
    );
    let pieces = nodes.go_on(&turns, &mut Random::new(Seed(1), "steps", 0));
    assert!(nodes.due.iter().all(Vec::is_empty));
    // 50 us, a lookahead or less at a time.
    assert!((80..400).contains(&pieces), "{pieces} pieces");
}
