//! Waiting calls.
//!
//! A thread waits in one call at a time. In a calibration a thread may wait in several: calls return at the times of the trace, and a trace without times enters all
//! calls at once. Calls are therefore found by their numbers. Used by threads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sequence::EnteredCall;

/// A waiting call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WaitingCall {
    pub(super) call: u32,
    pub(super) entry: u64,
    /// The end of its own work.
    pub(super) done: u64,
    /// Picoseconds spent waiting for flushes.
    pub(super) flushing: u64,
    /// The number of incomplete operations.
    pub(super) left: u32,
    /// The time of completion of each complete operation, and the remaining work for it.
    pub(super) over: Vec<(u64, u64)>,
}

impl WaitingCall {
    /// Creates it for an entered call.
    pub(super) fn new(entered: EnteredCall) -> Self {
        Self {
            call: entered.call,
            entry: entered.entry,
            done: 0,
            flushing: 0,
            left: 0,
            over: Vec::new(),
        }
    }

    /// Records that the call waited this long for flushes, until now.
    pub(super) fn flushed(&mut self, now: u64, waited: u64) {
        self.flushing = self.flushing.saturating_add(waited);
        // The call cannot return earlier.
        self.over.push((now, 0));
    }
}

/// The waiting calls of a thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct WaitingCalls {
    /// The call that began to wait last: outside of calibrations, the only one.
    newest: Option<WaitingCall>,
    /// Calls that began to wait before it, by number.
    others: BTreeMap<u32, WaitingCall>,
}

impl WaitingCalls {
    /// Adds a call that begins to wait.
    pub(super) fn insert(&mut self, waiting: WaitingCall) {
        if let Some(before) = self.newest.replace(waiting) {
            self.others.insert(before.call, before);
        }
    }

    /// Handles a completed operation of a call, with its time and the remaining work. Returns the call, if it waits for no others.
    pub(super) fn over(&mut self, call: u32, over: (u64, u64)) -> Option<WaitingCall> {
        let newest = self.newest.as_mut().filter(|newest| newest.call == call);
        let is_newest = newest.is_some();
        let waiting = newest.or_else(|| self.others.get_mut(&call))?;
        waiting.over.push(over);
        // A restored state may have any value.
        waiting.left = waiting.left.saturating_sub(1);
        match waiting.left {
            0 if is_newest => self.newest.take(),
            0 => self.others.remove(&call),
            _ => None,
        }
    }

    /// Returns all of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &WaitingCall> {
        self.newest.iter().chain(self.others.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(call: u32, left: u32) -> WaitingCall {
        let entered = EnteredCall {
            call,
            entry: 0,
            operations: (0, 0),
        };
        WaitingCall {
            left,
            ..WaitingCall::new(entered)
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
