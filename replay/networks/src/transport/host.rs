//! A host: the connections that send in turn, and the arriving frames.
//!
//! A host creates frames one after the other and processes frames one after the other; a full card loses frames. Used by `departure` and
//! `arrival`.

use std::collections::VecDeque;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

/// Most frames that wait for a host: the driver's ring of 256 buffers and as many in the card.
pub(super) const MOST_ARRIVING: usize = 512;

/// A host's sending and receiving.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Host {
    /// The time at which it can create the next frame.
    pub(super) free: Time,
    /// True if an event for its next frame is scheduled.
    pub(super) busy: bool,
    /// Frames that it sent.
    pub(super) frames: u64,
    /// Connections that may send because of an acknowledgement, in turn.
    pub(super) urgent: VecDeque<u32>,
    /// Connections that may send because of a process, in turn.
    pub(super) usual: VecDeque<u32>,
    /// The times at which the arrived frames are processed.
    pub(super) arriving: VecDeque<Time>,
    /// The time at which the last arrived frame is processed.
    pub(super) taken: Time,
    /// Frames lost at the card for lack of space.
    pub(super) dropped: u64,
}

impl Host {
    /// Takes the connection that sends next, and returns true with it if an acknowledgement allows it.
    pub(super) fn pop(&mut self) -> Option<(u32, bool)> {
        let urgent = self.urgent.pop_front().map(|number| (number, true));
        urgent.or_else(|| Some((self.usual.pop_front()?, false)))
    }

    /// Handles a frame that arrives at `at` and takes this much work. Returns the time at which it is processed, unless there is no space for it.
    pub(super) fn take_in(&mut self, at: Time, work: Span) -> Option<Time> {
        while self.arriving.front().is_some_and(|taken| *taken <= at) {
            self.arriving.pop_front();
        }
        if self.arriving.len() >= MOST_ARRIVING {
            self.dropped += 1;
            return None;
        }
        self.taken = self.taken.max(at) + work;
        if self.taken > at {
            self.arriving.push_back(self.taken);
        }
        Some(self.taken)
    }
}
