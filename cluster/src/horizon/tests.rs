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

fn star(nodes: u32) -> Horizons {
    let topology = Topology::star(nodes, link(1000), SWITCH).unwrap();
    Horizons::new(Distances::new(&topology), nodes)
}

fn us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

fn turns(horizons: &mut Horizons, frames: Option<Time>) -> Vec<Turn> {
    let mut turns = Vec::new();
    horizons.turns(frames, Time::MAX, &mut turns);
    turns
}

#[test]
fn busy_nodes_run_a_lookahead_beyond_each_other() {
    let mut horizons = star(3);
    for node in 0..3 {
        horizons.set(node, us(10));
    }
    let lookahead = horizons.distances().least(0, 1);
    let turns = turns(&mut horizons, None);
    assert_eq!(turns.len(), 3);
    assert!(turns.iter().all(|turn| turn.end == us(10) + lookahead));
    assert_eq!(turns[0].echo, lookahead + lookahead);
}

#[test]
fn a_node_alone_runs_up_to_what_the_next_could_tell_it() {
    let mut horizons = star(3);
    for (node, next) in [(0, us(10)), (1, us(900)), (2, Time::MAX)] {
        horizons.set(node, next);
    }
    let lookahead = horizons.distances().least(0, 1);
    let found = turns(&mut horizons, None);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].node, found[0].end), (0, us(900) + lookahead));
    // A frame on its way bounds it, too.
    let tail = horizons.distances().tail(0);
    let found = turns(&mut horizons, Some(us(11)));
    assert_eq!(found[0].end, us(11) + tail);
}

#[test]
fn a_node_that_is_far_ahead_waits_until_its_turn_is_worth_it() {
    let mut horizons = star(2);
    horizons.set(0, us(10));
    horizons.set(1, us(12));
    let found = turns(&mut horizons, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].node, 0);
    assert!(found[0].end > us(14), "{found:?}");
}

#[test]
fn turns_cut_at_random_come_to_their_end() {
    let mut horizons = star(2);
    horizons.rough = Some(Random::new(Seed(1), "rounds", 0));
    // Less than there are parts to cut it into.
    let end = us(1) + Span::from_ps(100);
    let next = us(1);
    let reached = (0..10_000).filter_map(|_| horizons.roughly(next, end, true));
    let ends: Vec<Time> = reached.collect();
    assert!(ends.iter().all(|&at| next < at && at <= end));
    assert!(ends.contains(&end));
}

#[test]
fn a_turn_alone_comes_back_in_time() {
    let mut horizons = star(1);
    horizons.set(0, us(10));
    assert_eq!(turns(&mut horizons, None)[0].end, us(2010));
}

proptest! {
    /// Switch by switch comes to what looking at each pair of nodes does.
    #[test]
    fn nodes_hear_of_the_first_that_can_reach_them(
        acts in proptest::collection::vec(0u64..9_000, 2..20),
        fanout in 2u32..5,
    ) {
        let nodes = acts.len() as u32;
        let topology = Topology::tree(nodes, fanout, link(1000), link(3000), SWITCH).unwrap();
        let distances = Distances::new(&topology);
        let mut horizons = Horizons::new(distances, nodes);
        // What was listened to in an earlier round is forgotten.
        horizons.turns(None, Time::MAX, &mut Vec::new());
        let next: Vec<Time> = acts.iter().map(|ns| Time::from_ps(ns * 1000)).collect();
        for (node, &next) in (0..).zip(&next) {
            horizons.set(node, next);
        }
        let (soon, _) = horizons.who_is_soon(horizons.first());
        horizons.hearing.pass_on(&horizons.distances);
        for &node in &soon {
            let others = soon.iter().filter(|other| **other != node);
            let heard =
                others.map(|&other| next[other as usize] + horizons.distances.least(other, node));
            let found = horizons.hearing.of(node, &horizons.places[node as usize]);
            prop_assert_eq!(found, heard.min().unwrap_or(Time::MAX));
        }
    }
}

/// Nodes as a model: each acts at given times, and answers each message at once with a
/// message to the next node.
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

proptest! {
    /// No message ever arrives in a node's past, messages take their way through others,
    /// and everything comes to an end.
    #[test]
    fn nobody_is_told_of_the_past(model in model(), fanout in 2u32..5) {
        let nodes = model.own.len() as u32;
        let topology = Topology::tree(nodes, fanout, link(1000), link(3000), SWITCH).unwrap();
        let mut horizons = Horizons::new(Distances::new(&topology), nodes);
        // Time, and how many more nodes hear of it.
        let mut due: Vec<Vec<(Time, u32)>> = model
            .own
            .iter()
            .map(|own| own.iter().map(|ns| (Time::from_ps(ns * 1000), model.hops)).collect())
            .collect();
        let mut clocks = vec![Time::ZERO; due.len()];
        let (mut turns, mut rounds) = (Vec::new(), 0);
        loop {
            for (node, due) in (0..).zip(&mut due) {
                due.sort_unstable();
                horizons.set(node, due.first().map_or(Time::MAX, |(time, _)| *time));
            }
            if horizons.first() == Time::MAX {
                break;
            }
            horizons.turns(None, Time::MAX, &mut turns);
            prop_assert!(!turns.is_empty());
            let mut sent = Vec::new();
            for turn in &turns {
                let node = turn.node as usize;
                let mut end = turn.end;
                while let Some(&(time, hops)) = due[node].first().filter(|(time, _)| *time < end) {
                    due[node].remove(0);
                    clocks[node] = clocks[node].max(time);
                    if hops > 0 {
                        end = end.min(time + turn.echo);
                        let to = (turn.node + 1 + hops) % nodes;
                        if to != turn.node {
                            let span = horizons.distances().least(turn.node, to);
                            sent.push((to as usize, time + span, hops - 1));
                        }
                    }
                }
                clocks[node] = clocks[node].max(end);
            }
            for (to, time, hops) in sent {
                prop_assert!(time >= clocks[to], "{time} at {to}, which is at {}", clocks[to]);
                due[to].push((time, hops));
            }
            rounds += 1;
            prop_assert!(rounds < 10_000);
        }
    }
}
