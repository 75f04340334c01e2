//! Execution of a whole communicator's schedules, with the contents of messages.
//!
//! Each rank has blocks of data, and for each block the ranks whose contributions are in it. Steps are executed as soon as their
//! prerequisites are complete, late ones first if allowed, so that a missing prerequisite is detected. For tests.

use std::collections::{BTreeMap, BTreeSet};

use crate::algorithm::Algorithm;
use crate::call::Call;
use crate::schedule::{Action, Builder, Note, Schedule};

/// Each algorithm on communicators of many sizes.
mod tests;

/// A rank's data: by block, the ranks whose contributions are in it.
pub(crate) type State = BTreeMap<u64, BTreeSet<u32>>;

/// Marks contributions that were combined out of the order of ranks.
const OUT_OF_ORDER: u32 = u32::MAX;

/// Checks of messages and combinations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// Messages have as many bytes as their blocks.
    pub(crate) exact: bool,
    /// Combinations are of contributions of neighbouring ranks, in order.
    pub(crate) ordered: bool,
    /// Received data is added to the local data.
    pub(crate) adds: bool,
}

/// The result of a simulation.
pub(crate) struct SimulationResult {
    /// The data of each rank.
    pub(crate) states: Vec<State>,
    /// The combinations of each rank: the sender, and the contributions.
    pub(crate) combined: Vec<Vec<(u32, BTreeSet<u32>)>>,
}

/// A rank of a simulation.
struct SimulatedRank {
    schedule: Schedule,
    notes: Vec<Note>,
    /// For each send and receive, the channel and the index on it.
    places: Vec<Option<((u32, u32), usize)>>,
    done: Vec<bool>,
    state: State,
    pending: BTreeMap<usize, (u32, State)>,
    combined: Vec<(u32, BTreeSet<u32>)>,
}

/// Messages in flight: bytes and data.
type Messages = BTreeMap<((u32, u32), usize), (u64, State)>;

/// Executes `algorithm` on these calls, one for each rank. Each rank begins with its state.
pub(crate) fn carry_out(
    algorithm: Algorithm,
    calls: &[Call],
    begin: impl Fn(u32) -> State,
    size: impl Fn(u64) -> u64,
    rules: Rules,
) -> SimulationResult {
    let mut ranks: Vec<SimulatedRank> = calls
        .iter()
        .map(|call| SimulatedRank::new(algorithm, call, begin(call.rank)))
        .collect();
    let mut messages = Messages::new();
    loop {
        let mut moved = false;
        for number in (0..ranks.len()).rev() {
            let rank = &mut ranks[number];
            for step in (0..rank.done.len()).rev() {
                let needs = rank.schedule.steps()[step].needs.clone();
                assert!(needs.end as usize <= step, "a step needs one after it");
                let mut needs = needs.map(|need| rank.done[need as usize]);
                if !rank.done[step] && needs.all(|done| done) {
                    let done = rank.step(number as u32, step, &mut messages, &size, rules);
                    rank.done[step] = done;
                    moved |= done;
                }
            }
        }
        if !moved {
            break;
        }
    }
    for (rank, number) in ranks.iter().zip(0u32..) {
        let open = rank.done.iter().position(|done| !done);
        assert_eq!(open, None, "{algorithm:?}: rank {number} hangs");
        assert!(rank.pending.is_empty(), "{algorithm:?}: data was not used");
    }
    assert!(messages.is_empty(), "{algorithm:?}: messages nobody took");
    let (states, combined) = ranks
        .into_iter()
        .map(|rank| (rank.state, rank.combined))
        .unzip();
    SimulationResult { states, combined }
}

impl SimulatedRank {
    fn new(algorithm: Algorithm, call: &Call, state: State) -> Self {
        let mut builder = Builder::new(crate::build::part).noting();
        algorithm.build(call, &mut builder);
        let (schedule, notes) = builder.finish_noted();
        assert_eq!(schedule, algorithm.schedule(call));
        let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        let places = schedule.steps().iter().map(|step| {
            let channel = match step.action {
                Action::Send { to, .. } => (call.rank, to),
                Action::Receive { from, .. } => (from, call.rank),
                _ => return None,
            };
            assert!(channel.0 < call.members && channel.1 < call.members);
            assert_ne!(channel.0, channel.1, "a message to itself");
            let count = counts.entry(channel).or_default();
            *count += 1;
            Some((channel, *count))
        });
        Self {
            places: places.collect(),
            done: vec![false; schedule.steps().len()],
            schedule,
            notes,
            state,
            pending: BTreeMap::new(),
            combined: Vec::new(),
        }
    }

    /// Executes a step if possible; returns true if it did.
    fn step(
        &mut self,
        own: u32,
        step: usize,
        messages: &mut Messages,
        size: &impl Fn(u64) -> u64,
        rules: Rules,
    ) -> bool {
        match (self.schedule.steps()[step].action, self.notes[step].clone()) {
            (Action::Send { bytes, .. }, Note::Send(blocks)) => {
                let sum: u64 = blocks.iter().map(|block| size(*block)).sum();
                assert!(
                    !rules.exact || sum == bytes,
                    "{sum} bytes, and {bytes} are sent"
                );
                let data = blocks.into_iter().filter_map(|block| {
                    let there = self.state.get(&block);
                    assert!(
                        there.is_some() || size(block) == 0,
                        "rank {own} has no block {block}"
                    );
                    Some((block, there?.clone()))
                });
                let data = data.collect();
                messages.insert(self.places[step].unwrap(), (bytes, data));
            }
            (Action::Send { bytes, .. }, Note::Forward(received)) => {
                let data = self.pending[&received].1.clone();
                messages.insert(self.places[step].unwrap(), (bytes, data));
            }
            (Action::Receive { from, bytes }, note) => {
                let Some((sent, data)) = messages.remove(&self.places[step].unwrap()) else {
                    return false;
                };
                assert_eq!(sent, bytes, "from {from} to {own}");
                self.receive(step, from, data, note == Note::Pending, rules);
            }
            (Action::Combine { .. }, Note::Combine(received)) => {
                for step in received {
                    self.combine(step, size, rules);
                }
            }
            (Action::Copy { .. }, Note::Copy) => {}
            other => panic!("no note for it: {other:?}"),
        }
        true
    }

    fn receive(&mut self, step: usize, from: u32, data: State, pending: bool, rules: Rules) {
        if pending {
            self.pending.insert(step, (from, data));
            return;
        }
        for (block, contributions) in data {
            let own = self.state.entry(block).or_default();
            if !rules.adds {
                own.clear();
            }
            own.extend(contributions);
        }
    }

    fn combine(&mut self, step: usize, size: &impl Fn(u64) -> u64, rules: Rules) {
        let (from, data) = self.pending.remove(&step).unwrap();
        for (block, contributions) in data.into_iter().filter(|(block, _)| size(*block) > 0) {
            let Some(own) = self.state.get_mut(&block) else {
                panic!("block {block} is combined with nothing");
            };
            let twice = own
                .intersection(&contributions)
                .find(|rank| **rank != OUT_OF_ORDER);
            assert_eq!(twice, None, "a contribution twice");
            own.extend(&contributions);
            let (first, last) = (*own.first().unwrap(), *own.last().unwrap());
            let together = (last - first) as usize + 1 == own.len();
            // Some combinations are never used: only the final result matters.
            if rules.ordered && !together {
                own.insert(OUT_OF_ORDER);
            }
            self.combined.push((from, contributions));
        }
    }
}
