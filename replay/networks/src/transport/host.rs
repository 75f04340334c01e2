//! A host: the connections that send in turn, and the frames that it takes in.
//!
//! A host makes frames one after the other and takes frames in one after the other; a full card loses frames. Called by `departure` and `arrival`.

use std::collections::VecDeque;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

/// Frames that wait for a host, at most: the driver's ring of 256 buffers and as many in the card.
pub(super) const MOST_ARRIVING: usize = 512;

/// A host's sending and receiving.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Host {
    /// When it can make the next frame.
    pub(super) free: Time,
    /// An event for its next frame is scheduled.
    pub(super) busy: bool,
    /// Frames that it sent.
    pub(super) frames: u64,
    /// Connections that an acknowledgement lets send, in turn.
    pub(super) urgent: VecDeque<u32>,
    /// Connections that a process lets send, in turn.
    pub(super) usual: VecDeque<u32>,
    /// When the frames that came will have been taken in.
    pub(super) arriving: VecDeque<Time>,
    /// When the last frame that came is taken in.
    pub(super) taken: Time,
    /// Frames that found no room in the card.
    pub(super) dropped: u64,
}

impl Host {
    /// The connection that sends next, and whether an acknowledgement lets it.
    pub(super) fn pop(&mut self) -> Option<(u32, bool)> {
        let urgent = self.urgent.pop_front().map(|number| (number, true));
        urgent.or_else(|| Some((self.usual.pop_front()?, false)))
    }

    /// A frame comes at `at`, which takes so much work: the time when it is taken in, unless there is no room for it.
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
