//! Calls that wait.
//!
//! A thread waits in one call at a time. In a calibration a thread may wait in several: calls return at the times of the trace, and a trace without times enters all
//! calls at once. So calls are found by their numbers. Called by threads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sequence::Entered;

/// A call that waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub(super) call: u32,
    pub(super) entry: u64,
    /// When its own work was done.
    pub(super) done: u64,
    /// Picoseconds for which it waited for flushes.
    pub(super) flushing: u64,
    /// The number of operations that are not complete.
    pub(super) left: u32,
    /// Of each complete operation, its time of completion and the work that is left for it.
    pub(super) over: Vec<(u64, u64)>,
}

impl Waiting {
    /// A call that was entered.
    pub(super) fn new(entered: Entered) -> Self {
        Self {
            call: entered.call,
            entry: entered.entry,
            done: 0,
            flushing: 0,
            left: 0,
            over: Vec::new(),
        }
    }

    /// The call waited for flushes, for so long until now.
    pub(super) fn flushed(&mut self, now: u64, waited: u64) {
        self.flushing = self.flushing.saturating_add(waited);
        // The call cannot return before.
        self.over.push((now, 0));
    }
}

/// The calls of a thread that wait.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct WaitingCalls {
    /// The one that began to wait last: outside of calibrations, there is no other.
    newest: Option<Waiting>,
    /// Calls that began to wait before it, by number.
    others: BTreeMap<u32, Waiting>,
}

impl WaitingCalls {
    /// A call begins to wait.
    pub(super) fn insert(&mut self, waiting: Waiting) {
        if let Some(before) = self.newest.replace(waiting) {
            self.others.insert(before.call, before);
        }
    }

    /// Something that a call waits for is over, with its time and the work that is left for it: the call, if it waits for nothing else.
    pub(super) fn over(&mut self, call: u32, over: (u64, u64)) -> Option<Waiting> {
        let newest = self.newest.as_mut().filter(|newest| newest.call == call);
        let is_newest = newest.is_some();
        let waiting = newest.or_else(|| self.others.get_mut(&call))?;
        waiting.over.push(over);
        // A state that was restored may say anything.
        waiting.left = waiting.left.saturating_sub(1);
        match waiting.left {
            0 if is_newest => self.newest.take(),
            0 => self.others.remove(&call),
            _ => None,
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.newest.iter().chain(self.others.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(call: u32, left: u32) -> Waiting {
        let entered = Entered {
            call,
            entry: 0,
            operations: (0, 0),
        };
        Waiting {
            left,
            ..Waiting::new(entered)
        }
    }

    #[test]
    fn calls_return_in_any_order_once_all_is_over() {
        let mut calls = WaitingCalls::default();
        for call in 0..5 {
            calls.insert(waiting(call, 1 + call % 2));
        }
        assert_eq!(calls.iter().count(), 5);
        let mut over = |call, time| calls.over(call, (time, 9)).map(|it| (it.call, it.over));
        assert_eq!(over(2, 7), Some((2, vec![(7, 9)])));
        assert_eq!(over(2, 8), None);
        assert_eq!(over(3, 10), None);
        assert_eq!(over(4, 11), Some((4, vec![(11, 9)])));
        assert_eq!(over(3, 12), Some((3, vec![(10, 9), (12, 9)])));
        calls.insert(waiting(5, 1));
        assert!(calls.over(5, (13, 9)).is_some() && calls.over(0, (14, 9)).is_some());
        assert_eq!(calls.iter().map(|it| it.call).collect::<Vec<_>>(), [1]);
    }
}
