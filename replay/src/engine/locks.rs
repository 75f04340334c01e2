//! Locks of windows, each at the process that owns the window.
//!
//! Requests are served in order; an exclusive lock has one holder, a shared one has all consecutive shared requests. A release is answered at once, or, if it
//! precedes the acquisition, right after that. Used when the owning process has seen a message for the lock.

use std::collections::{BTreeMap, VecDeque};

use belljar_program::{Locking, ProcessId};
use serde::{Deserialize, Serialize};

use super::MessageId;

/// The lock of a window at one process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Lock {
    /// True if the lock is exclusive.
    exclusive: bool,
    holders: u32,
    /// Waiting requests: the message, the process, and the action.
    waiting: VecDeque<(MessageId, ProcessId, Locking)>,
    /// Releases that take effect right after the acquisition.
    early: BTreeMap<ProcessId, MessageId>,
}

/// All locks, by window and process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Locks(BTreeMap<(u32, ProcessId), Lock>);

impl Locks {
    /// Handles a request or a release by a message of `from`, and returns the messages that are answered now.
    pub(super) fn ask(
        &mut self,
        place: (u32, ProcessId),
        message: MessageId,
        from: ProcessId,
        how: Locking,
    ) -> Vec<MessageId> {
        let lock = self.0.entry(place).or_default();
        let mut answered = Vec::new();
        match how {
            Locking::Release if lock.waiting.iter().any(|(_, who, _)| *who == from) => {
                lock.early.insert(from, message);
            }
            Locking::Release => {
                lock.holders = lock.holders.saturating_sub(1);
                answered.push(message);
            }
            Locking::Exclusive | Locking::Shared => lock.waiting.push_back((message, from, how)),
        }
        while let Some((next, who, how)) = lock.waiting.front().copied() {
            let shared = how == Locking::Shared && !lock.exclusive;
            if lock.holders > 0 && !shared {
                break;
            }
            lock.waiting.pop_front();
            lock.holders = lock.holders.saturating_add(1);
            lock.exclusive = how == Locking::Exclusive;
            answered.push(next);
            if let Some(back) = lock.early.remove(&who) {
                lock.holders = lock.holders.saturating_sub(1);
                answered.push(back);
            }
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_an_exclusive_lock_and_several_a_shared_one_in_the_order_of_asking() {
        let mut locks = Locks::default();
        let here = (0, 7);
        assert_eq!(locks.ask(here, 1, 1, Locking::Exclusive), [1]);
        assert!(locks.ask(here, 2, 2, Locking::Shared).is_empty());
        assert!(locks.ask(here, 3, 3, Locking::Shared).is_empty());
        assert!(locks.ask(here, 4, 4, Locking::Exclusive).is_empty());
        assert!(locks.ask(here, 5, 5, Locking::Shared).is_empty());
        // Another process's window, and another window.
        assert_eq!(locks.ask((0, 8), 6, 6, Locking::Exclusive), [6]);
        assert_eq!(locks.ask((1, 7), 9, 9, Locking::Exclusive), [9]);
        assert_eq!(locks.ask(here, 10, 10, Locking::Release), [10, 2, 3]);
        assert_eq!(locks.ask(here, 11, 11, Locking::Release), [11]);
        assert_eq!(locks.ask(here, 12, 12, Locking::Release), [12, 4]);
        assert_eq!(locks.ask(here, 13, 13, Locking::Release), [13, 5]);
        // More releases than acquisitions, as a trace may contain.
        assert_eq!(locks.ask(here, 14, 14, Locking::Release), [14]);
        assert_eq!(locks.ask(here, 15, 15, Locking::Release), [15]);
        assert_eq!(locks.ask(here, 16, 16, Locking::Exclusive), [16]);
    }
    #[test]
    fn a_lock_that_is_given_back_too_early_is_had_first() {
        let mut locks = Locks::default();
        let here = (0, 7);
        assert_eq!(locks.ask(here, 1, 1, Locking::Exclusive), [1]);
        assert!(locks.ask(here, 2, 2, Locking::Exclusive).is_empty());
        assert!(locks.ask(here, 3, 2, Locking::Release).is_empty());
        assert!(locks.ask(here, 4, 3, Locking::Exclusive).is_empty());
        assert_eq!(locks.ask(here, 5, 1, Locking::Release), [5, 2, 3, 4]);
    }
}
