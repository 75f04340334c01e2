//! The search for all orders of a job's messages.
//!
//! Each observed run gives targets: for an alternative of a choice, the messages of all choices that do not depend on the choice,
//! and the alternative itself (match sets, as in ISP and DAMPI). A target that an observed run already has is not carried out, so
//! that no order is run twice; this takes the place of sleep sets. A run that misses its target is an observed run like any other.
//!
//! All orders are found if every target is reached. Take the observed run that agrees with a missing order on the most choices that
//! are closed under dependence. Its first other choice has the missing message as an alternative, and the target of that keeps the
//! common choices, so a run with more of them is observed. Called for each run; memory holds the orders of all runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::choice::{Choice, ChoiceId, MessageId, ObservedRun};
use crate::priority::PrioritySchedule;

/// The message of each choice.
pub type Order = BTreeMap<ChoiceId, MessageId>;

/// A part of an order that no observed run has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Number of the run that has the alternative.
    pub parent: usize,
    /// The choice that gets another message.
    pub choice: ChoiceId,
    /// This message.
    pub message: MessageId,
    /// Messages that choices must have, with this one.
    pub wanted: Order,
}

/// Orders that were observed, and targets that were not.
#[derive(Debug, Default)]
pub struct Search {
    runs: Vec<Order>,
    distinct: BTreeSet<Order>,
    queue: VecDeque<Target>,
    known: BTreeSet<Order>,
    missed: Vec<Target>,
}

impl Search {
    /// Adds a run; returns its number, and true if its order is new.
    pub fn observe(&mut self, run: &ObservedRun) -> (usize, bool) {
        let number = self.runs.len();
        let order: Order = run
            .choices
            .iter()
            .map(|choice| (choice.id, choice.matched))
            .collect();
        let is_new = self.distinct.insert(order.clone());
        if is_new {
            self.branch(run, number);
        }
        self.runs.push(order);
        (number, is_new)
    }

    /// Adds the targets of a run.
    fn branch(&mut self, run: &ObservedRun, parent: usize) {
        for choice in &run.choices {
            if choice.alternatives.is_empty() {
                continue;
            }
            for message in &choice.alternatives {
                let wanted = wanted(run, choice, *message);
                if self.known.insert(wanted.clone()) {
                    self.queue.push_back(Target {
                        parent,
                        choice: choice.id,
                        message: *message,
                        wanted,
                    });
                }
            }
        }
    }

    /// The next target that no observed run has. Targets with few changes come first.
    pub fn take_target(&mut self) -> Option<Target> {
        while let Some(target) = self.queue.pop_front() {
            if !self.is_observed(&target.wanted) {
                return Some(target);
            }
        }
        None
    }

    /// Moves the target at place `at` of the queue to its front.
    pub fn prefer(&mut self, at: usize) {
        if let Some(target) = self.queue.remove(at) {
            self.queue.push_front(target);
        }
    }

    /// Follows a schedule of priorities from the first run on, through `runs` that were observed, to a target that was not. Moves
    /// that to the front of the queue; false if the schedule leads to none.
    pub fn prefer_by(
        &mut self,
        schedule: &PrioritySchedule,
        runs: impl Fn(usize) -> Option<ObservedRun>,
    ) -> bool {
        let mut at = 0;
        for _ in 0..=self.runs.len() {
            let Some(run) = runs(at) else {
                return false;
            };
            let Some((id, message)) = schedule.deviation(&run) else {
                return false;
            };
            let Some(choice) = run.choice(id) else {
                return false;
            };
            let wanted = wanted(&run, choice, message);
            let has = |order: &Order| wanted.iter().all(|(id, own)| order.get(id) == Some(own));
            if let Some(next) = self.runs.iter().position(has) {
                at = next;
                continue;
            }
            let place = self.queue.iter().position(|other| other.wanted == wanted);
            if let Some(place) = place {
                self.prefer(place);
            }
            return place.is_some();
        }
        false
    }

    /// Number of targets in the queue, with those that were observed since.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns a target to the queue, to be the next one.
    pub fn postpone(&mut self, target: Target) {
        self.queue.push_front(target);
    }

    /// True if a run had these messages.
    pub fn is_observed(&self, wanted: &Order) -> bool {
        let has = |order: &Order| {
            wanted
                .iter()
                .all(|(id, message)| order.get(id) == Some(message))
        };
        self.distinct.iter().any(has)
    }

    /// Records a target that could not be forced.
    pub fn miss(&mut self, target: Target) {
        self.missed.push(target);
    }

    /// Targets that could not be forced, and that no other run had either.
    pub fn missed(&self) -> impl Iterator<Item = &Target> {
        self.missed
            .iter()
            .filter(|target| !self.is_observed(&target.wanted))
    }

    /// Number of targets that wait.
    pub fn waiting(&self) -> usize {
        let left = self.queue.iter();
        left.filter(|target| !self.is_observed(&target.wanted))
            .count()
    }

    /// Number of distinct orders that were observed.
    pub fn orders(&self) -> usize {
        self.distinct.len()
    }
}

/// The messages that a run must have in which `choice` gets `message` instead of its own in `run`.
fn wanted(run: &ObservedRun, choice: &Choice, message: MessageId) -> Order {
    let mut wanted = independent(run, choice);
    wanted.insert(choice.id, message);
    wanted
}

/// The choices that do not depend on `of`, with their messages. A later receive of the same thread depends on it, because messages
/// go to receives in the order in which these were posted.
fn independent(run: &ObservedRun, of: &Choice) -> Order {
    let mut dependent: Vec<&Choice> = vec![of];
    let mut rest = Order::new();
    let place = |choice: &Choice| (choice.steps[0], choice.id);
    for choice in &run.choices {
        let is_later = choice.thread == of.thread && place(choice) > place(of);
        let mut earlier = dependent
            .iter()
            .filter(|other| other.thread != choice.thread);
        let follows = |other: &&Choice| {
            let seen = choice.clock.get(other.thread as usize);
            seen.is_some_and(|seen| *seen >= other.steps[1])
        };
        if choice.id == of.id {
            continue;
        }
        if is_later || earlier.any(follows) {
            dependent.push(choice);
        } else {
            rest.insert(choice.id, choice.matched);
        }
    }
    rest
}

#[cfg(test)]
mod tests;
