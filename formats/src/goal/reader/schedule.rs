//! Operations of a rank and the dependences between them.
//!
//! Filled by the readers of both forms, converted by `sequence` or `threads`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use belljar_trace::Direction;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoalOperationKind {
    /// Work of this many nanoseconds.
    Work(u64),
    /// A message, with an optional peer (any if `None`) and tag.
    Message {
        direction: Direction,
        peer: Option<u32>,
        tag: Option<i32>,
        bytes: u64,
    },
}

/// An operation of a GOAL schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GoalOperation {
    pub(super) kind: GoalOperationKind,
    /// The processor of the rank that executes it.
    pub(super) processor: u8,
    /// The network interface of a message.
    pub(super) interface: u8,
    /// Operations that must be complete, and operations that must have begun.
    pub(super) after: Vec<u32>,
    pub(super) after_start: Vec<u32>,
}

impl GoalOperation {
    /// Creates one without prerequisites.
    pub(super) fn new(kind: GoalOperationKind, processor: u8, interface: u8) -> Self {
        Self {
            kind,
            processor,
            interface,
            after: Vec::new(),
            after_start: Vec::new(),
        }
    }

    /// Returns all operations that it waits for, in either way.
    pub(super) fn before(&self) -> impl Iterator<Item = u32> {
        self.after.iter().chain(&self.after_start).copied()
    }
}

/// The operations of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RankSchedule {
    pub(super) operations: Vec<GoalOperation>,
}

/// Counts of simplifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Messages on interfaces other than the first.
    pub(super) interfaces: u64,
    /// Ranks whose operations are not sequential and became several threads.
    pub(super) threaded: u64,
}

impl RankSchedule {
    /// Returns the followers of each operation; `None` if one waits for an operation that does not exist.
    pub(super) fn followers(&self) -> Option<Vec<Vec<u32>>> {
        let mut followers: Vec<Vec<u32>> = vec![Vec::new(); self.operations.len()];
        for (number, operation) in (0u32..).zip(&self.operations) {
            for before in operation.before() {
                followers.get_mut(before as usize)?.push(number);
            }
        }
        Some(followers)
    }

    /// Returns the number of operations for which each waits.
    pub(super) fn missing(&self) -> Vec<u32> {
        let each = self.operations.iter();
        each.map(|operation| operation.before().count() as u32)
            .collect()
    }

    /// Returns all operations, each after its prerequisites; `None` if there is a cycle.
    pub(super) fn order(&self) -> Option<Vec<u32>> {
        let count = self.operations.len();
        let mut followers = self.followers()?;
        let mut missing = self.missing();
        let free = (0u32..).zip(&missing).filter(|(_, missing)| **missing == 0);
        let mut ready: BinaryHeap<Reverse<u32>> = free.map(|(number, _)| Reverse(number)).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(Reverse(number)) = ready.pop() {
            order.push(number);
            for follower in std::mem::take(&mut followers[number as usize]) {
                let missing = &mut missing[follower as usize];
                *missing -= 1;
                if *missing == 0 {
                    ready.push(Reverse(follower));
                }
            }
        }
        (order.len() == count).then_some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(after: &[u32]) -> GoalOperation {
        GoalOperation {
            after: after.to_vec(),
            ..GoalOperation::new(GoalOperationKind::Work(1), 0, 0)
        }
    }

    #[test]
    fn operations_stand_after_what_they_wait_for() {
        let rank = RankSchedule {
            operations: vec![work(&[3]), work(&[]), work(&[0, 1]), work(&[])],
        };
        assert_eq!(rank.order(), Some(vec![1, 3, 0, 2]));
        let circle = RankSchedule {
            operations: vec![work(&[1]), work(&[0])],
        };
        assert_eq!(circle.order(), None);
        let absent = RankSchedule {
            operations: vec![work(&[7])],
        };
        assert_eq!(absent.order(), None);
    }
}
