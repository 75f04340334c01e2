//! A rank's operations as the sequence of one thread, if that is equivalent.
//!
//! The thread begins every operation as soon as it is free, and blocks only for requests that all later operations wait for. Operations then only
//! wait for their dependences on every network. Ranks whose later operations wait for different requests have no such sequence. Used for each
//! rank.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::schedule::{GoalOperationKind, RankSchedule};

/// Most steps of the search for a rank.
const MOST_STEPS: usize = 1 << 26;

/// The next action of the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ThreadAction {
    /// Works for this many nanoseconds.
    Work(u64),
    /// Begins this message.
    Begin(u32),
    /// Waits for these messages.
    Wait(Vec<u32>),
}

/// Returns the sequence of a rank; `None` if its operations need several threads.
pub(super) fn sequence(rank: &RankSchedule) -> Option<Vec<ThreadAction>> {
    let mut search = SequenceBuilder::new(rank)?;
    while search.step()? {}
    let pending: Vec<u32> = search.pending.iter().copied().collect();
    search.wait(pending);
    Some(search.actions)
}

/// A sequence under construction.
struct SequenceBuilder<'r> {
    rank: &'r RankSchedule,
    /// True if all operations are of one processor.
    alone: bool,
    followers: Vec<Vec<u32>>,
    /// The number of prerequisites that have not begun, by operation.
    missing: Vec<u32>,
    /// Messages that are free.
    messages: BTreeSet<u32>,
    /// Work that is free, in the order in which it became free.
    work: VecDeque<u32>,
    /// Operations that only wait for requests, with these.
    blocked: BTreeMap<u32, BTreeSet<u32>>,
    /// Messages in flight.
    pending: BTreeSet<u32>,
    actions: Vec<ThreadAction>,
    steps: usize,
}

impl<'r> SequenceBuilder<'r> {
    fn new(rank: &'r RankSchedule) -> Option<Self> {
        let mut processors = rank.operations.iter().map(|it| it.processor);
        let first = processors.next();
        let mut search = Self {
            rank,
            alone: processors.all(|it| Some(it) == first),
            followers: rank.followers()?,
            missing: rank.missing(),
            messages: BTreeSet::new(),
            work: VecDeque::new(),
            blocked: BTreeMap::new(),
            pending: BTreeSet::new(),
            actions: Vec::new(),
            steps: 0,
        };
        let count = rank.operations.len() as u32;
        let free = (0..count).filter(|number| search.missing[*number as usize] == 0);
        let free: Vec<u32> = free.collect();
        free.into_iter().for_each(|number| search.consider(number));
        Some(search)
    }

    /// Handles an operation whose predecessors have all begun.
    fn consider(&mut self, number: u32) {
        let operation = &self.rank.operations[number as usize];
        let needs = operation.after.iter().copied();
        let needs: BTreeSet<u32> = needs.filter(|it| self.pending.contains(it)).collect();
        self.steps += operation.after.len();
        match (needs.is_empty(), operation.kind) {
            (false, _) => {
                self.blocked.insert(number, needs);
            }
            (true, GoalOperationKind::Work(_)) => self.work.push_back(number),
            (true, GoalOperationKind::Message { .. }) => {
                self.messages.insert(number);
            }
        }
    }

    /// Adds the next action; returns true if there was one, and `None` if one thread is not enough.
    fn step(&mut self) -> Option<bool> {
        if self.steps > MOST_STEPS || !self.one_processor() {
            return None;
        }
        if let Some(number) = self.messages.pop_first() {
            self.actions.push(ThreadAction::Begin(number));
            self.pending.insert(number);
            self.begun(number);
            return Some(true);
        }
        if let Some(number) = self.work.pop_front() {
            let GoalOperationKind::Work(span) = self.rank.operations[number as usize].kind else {
                return None;
            };
            // Work would delay operations that become free meanwhile.
            if span > 0 && !self.blocked.is_empty() {
                return None;
            }
            self.actions.push(ThreadAction::Work(span));
            self.begun(number);
            return Some(true);
        }
        let least = self.blocked.values().min_by_key(|needs| needs.len());
        let Some(wanted) = least.cloned() else {
            return Some(false);
        };
        self.steps += self.blocked.len() * wanted.len();
        if !self.blocked.values().all(|needs| wanted.is_subset(needs)) {
            return None;
        }
        self.wait(wanted.into_iter().collect());
        Some(true)
    }

    /// True if at most one operation is free, or the rank has one processor.
    fn one_processor(&self) -> bool {
        self.alone || self.messages.len() + self.work.len() <= 1
    }

    fn begun(&mut self, number: u32) {
        for follower in std::mem::take(&mut self.followers[number as usize]) {
            let missing = &mut self.missing[follower as usize];
            *missing -= 1;
            if *missing == 0 {
                self.consider(follower);
            }
        }
    }

    fn wait(&mut self, wanted: Vec<u32>) {
        if wanted.is_empty() {
            return;
        }
        for number in &wanted {
            self.pending.remove(number);
        }
        self.steps += self.blocked.len() * wanted.len();
        let mut free = Vec::new();
        self.blocked.retain(|number, needs| {
            wanted.iter().for_each(|it| {
                needs.remove(it);
            });
            if needs.is_empty() {
                free.push(*number);
            }
            !needs.is_empty()
        });
        self.actions.push(ThreadAction::Wait(wanted));
        free.into_iter().for_each(|number| self.consider(number));
    }
}

#[cfg(test)]
mod tests {
    use belljar_trace::Direction;

    use super::super::schedule::GoalOperation;
    use super::*;

    fn message(after: &[u32], after_start: &[u32]) -> GoalOperation {
        let kind = GoalOperationKind::Message {
            direction: Direction::Receive,
            peer: Some(0),
            tag: Some(0),
            bytes: 1,
        };
        GoalOperation {
            after: after.to_vec(),
            after_start: after_start.to_vec(),
            ..GoalOperation::new(kind, 0, 0)
        }
    }

    fn work(span: u64, after: &[u32]) -> GoalOperation {
        GoalOperation {
            after: after.to_vec(),
            ..GoalOperation::new(GoalOperationKind::Work(span), 0, 0)
        }
    }

    fn of(operations: Vec<GoalOperation>) -> Option<Vec<ThreadAction>> {
        sequence(&RankSchedule { operations })
    }

    #[test]
    fn free_messages_begin_before_anything_blocks() {
        use ThreadAction::{Begin, Wait, Work};
        // The work waits for the first message, the last message for none.
        let actions = of(vec![message(&[], &[]), work(5, &[0]), message(&[], &[])]);
        let expected = [Begin(0), Begin(2), Wait(vec![0]), Work(5), Wait(vec![2])];
        assert_eq!(actions.unwrap(), expected);
        // Operations that wait for fewer messages come first.
        let actions = of(vec![
            message(&[], &[]),
            message(&[], &[0]),
            message(&[0, 1], &[]),
            message(&[0], &[]),
        ]);
        let expected = [
            Begin(0),
            Begin(1),
            Wait(vec![0]),
            Begin(3),
            Wait(vec![1]),
            Begin(2),
            Wait(vec![2, 3]),
        ];
        assert_eq!(actions.unwrap(), expected);
    }

    #[test]
    fn operations_that_wait_for_different_messages_have_no_sequence() {
        let answers = vec![
            message(&[], &[]),
            message(&[0], &[]),
            message(&[], &[]),
            message(&[2], &[]),
        ];
        assert_eq!(of(answers), None);
        // The answer must not wait for work that is independent of it.
        assert_eq!(
            of(vec![message(&[], &[]), message(&[0], &[]), work(9, &[])]),
            None
        );
        assert!(of(vec![message(&[], &[]), message(&[0], &[]), work(0, &[])]).is_some());
        // Two processors work at once.
        let mut other = work(9, &[]);
        other.processor = 1;
        assert_eq!(of(vec![work(9, &[]), other]), None);
    }
}
