//! Random priorities of senders, which find orders that differ from the usual one in a certain way.
//!
//! A schedule gives each sender a random priority, and lowers the priority of the first sender at a few random choices. Of the
//! messages that a choice could get, the one of the first sender is wanted. If a failure needs `d` such decisions among `n`
//! senders and `k` choices, a schedule has it with a probability of at least `1 / (n * k^(d - 1))`, however many orders there are
//! (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", 2010). Drawn by `belljar explore`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::choice::{ChoiceId, MessageId, ObservedRun, RankId};

/// Most decisions of a failure that schedules aim at.
const MOST_DECISIONS: u64 = 4;

/// Priorities of senders along a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrioritySchedule {
    /// The seed of the senders' priorities.
    seed: u64,
    /// Numbers of the choices at which the first sender becomes the last.
    changes: BTreeSet<u64>,
}

impl PrioritySchedule {
    /// Draws a schedule for runs like `run`, with random numbers of `draw`.
    pub fn draw(run: &ObservedRun, mut draw: impl FnMut() -> u64) -> Self {
        let choices = run.choices.len().max(1) as u64;
        let seed = draw();
        let decisions = draw() % MOST_DECISIONS;
        let changes = (0..decisions).map(|_| draw() % choices);
        Self {
            seed,
            changes: changes.collect(),
        }
    }

    /// The first choice of a run that has another message than the schedule wants, and that message.
    pub fn deviation(&self, run: &ObservedRun) -> Option<(ChoiceId, MessageId)> {
        // A sender's place in the order of priorities: later changes lead to lower places.
        let mut lowered: BTreeMap<RankId, u64> = BTreeMap::new();
        for (number, choice) in (0..).zip(&run.choices) {
            let first = |lowered: &BTreeMap<RankId, u64>| {
                let own = std::iter::once(&choice.matched).chain(&choice.alternatives);
                own.copied().min_by_key(|message| {
                    let sender = message.from;
                    let low = lowered.get(&sender).copied().unwrap_or(0);
                    (low, Reverse(self.priority(sender)), *message)
                })
            };
            if self.changes.contains(&number)
                && let Some(message) = first(&lowered)
            {
                lowered.insert(message.from, number + 1);
            }
            let wanted = first(&lowered)?;
            if wanted != choice.matched {
                return Some((choice.id, wanted));
            }
        }
        None
    }

    /// The priority of a sender: a hash of it and the seed (SplitMix64).
    fn priority(&self, sender: RankId) -> u64 {
        let place = u64::from(sender.job) << 32 | u64::from(sender.rank);
        let mut mixed = self
            .seed
            .wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Choice, ChoiceKind};

    const fn rank(rank: u32) -> RankId {
        RankId { job: 0, rank }
    }

    /// A run in which rank 0 receives one message of each of these senders, in this order.
    fn run(senders: &[u32]) -> ObservedRun {
        let message = |from: u32| MessageId {
            from: rank(from),
            to: rank(0),
            number: 0,
        };
        let choices = senders.iter().enumerate().map(|(number, sender)| Choice {
            id: ChoiceId {
                rank: rank(0),
                kind: ChoiceKind::Receive,
                number: number as u32,
            },
            function: "MPI_Recv".to_owned(),
            entry_ps: 0,
            end_ps: 0,
            matched: message(*sender),
            alternatives: senders[number + 1..]
                .iter()
                .map(|it| message(*it))
                .collect(),
            thread: 0,
            steps: [number as u32 + 1; 2],
            clock: vec![number as u32 + 1],
        });
        ObservedRun {
            choices: choices.collect(),
            ..ObservedRun::default()
        }
    }

    /// Follows a schedule from the usual order: each wanted message moves to the front of those that are left.
    fn follow(schedule: &PrioritySchedule, senders: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (1..=senders).collect();
        while let Some((choice, message)) = schedule.deviation(&run(&order)) {
            let from = order
                .iter()
                .position(|it| *it == message.from.rank)
                .unwrap();
            assert!(from > choice.number as usize, "a message that is left");
            let sender = order.remove(from);
            order.insert(choice.number as usize, sender);
        }
        order
    }

    fn draws(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state >> 33
        }
    }

    #[test]
    fn without_changes_each_choice_gets_the_first_sender_that_is_left() {
        let schedule = PrioritySchedule {
            seed: 7,
            changes: BTreeSet::new(),
        };
        let order = follow(&schedule, 6);
        let priorities = order.iter().map(|it| schedule.priority(rank(*it)));
        assert!(priorities.rev().is_sorted(), "{order:?}");
    }

    #[test]
    fn a_change_makes_the_first_sender_the_last() {
        let plain = PrioritySchedule {
            seed: 7,
            changes: BTreeSet::new(),
        };
        let changed = PrioritySchedule {
            changes: BTreeSet::from([1]),
            ..plain.clone()
        };
        let mut expected = follow(&plain, 5);
        let second = expected.remove(1);
        expected.push(second);
        assert_eq!(follow(&changed, 5), expected);
    }

    /// One of 8 senders must be first, and another one last.
    #[test]
    fn schedules_have_decisions_that_the_usual_order_never_has() {
        let mut draw = draws(3);
        let usual = run(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let found = (0..600).filter(|_| {
            let order = follow(&PrioritySchedule::draw(&usual, &mut draw), 8);
            order.first() == Some(&8) && order.last() == Some(&1)
        });
        // Two decisions, at the first choice and at a change: 1 / (8 * 8) by the guarantee, for a quarter of the schedules.
        assert!(found.count() >= 600 / 64 / 4);
    }
}
