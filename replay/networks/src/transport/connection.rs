//! How much may be under way from one host to another: TCP's congestion window.
//!
//! It begins at ten frames (RFC 6928) and grows by one with each that is acknowledged while there is more to send (slow start, RFC 5681), and is halved
//! when a frame is lost. Frames that nobody may send yet wait. A receiver acknowledges every second frame of a message, and its last (RFC 5681, 4.2), by
//! how many have come in all: an acknowledgement that is lost is made good by the next. Called by the network of frames.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::Turn;
use super::state::MOST_COUNTED;

/// Frames that may be under way at first.
const FIRST: u64 = 10;
/// Frames that may always be under way.
const LEAST: u64 = 2;
/// Frames that a receiver acknowledges together.
const TOGETHER: u64 = 2;

/// What goes from one host to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Connection {
    /// Frames that may be under way.
    window: u64,
    /// Frames that were sent.
    sent: u64,
    /// Frames of which the sender knows that they are not under way any more.
    gone: u64,
    /// Frames that came, as far as the sender knows.
    told: u64,
    /// Frames that came.
    came: u64,
    /// Those of them that the receiver has acknowledged.
    acknowledged: u64,
    waiting: VecDeque<Turn>,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            window: FIRST,
            sent: 0,
            gone: 0,
            told: 0,
            came: 0,
            acknowledged: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl Connection {
    /// Whether it could have come about.
    pub(super) fn is_sound(&self) -> bool {
        let counts = [self.window, self.sent, self.gone, self.told, self.came];
        counts.iter().all(|count| *count <= MOST_COUNTED) && self.acknowledged <= self.came
    }

    /// Frames that may not be sent yet.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Turn> {
        self.waiting.iter()
    }

    /// Whether a frame may be sent now; then it is under way.
    pub(super) fn may_send(&mut self) -> bool {
        let may = self.sent.saturating_sub(self.gone) < self.window;
        self.sent += u64::from(may);
        may
    }

    /// Frames wait until there is room.
    pub(super) fn wait(&mut self, turn: Turn) {
        self.waiting.push_back(turn);
    }

    /// A frame has come, with which a message may be `whole`. How many the receiver acknowledges now, if it does.
    pub(super) fn came(&mut self, whole: bool) -> Option<u64> {
        self.came += 1;
        let due = whole || self.came - self.acknowledged >= TOGETHER;
        if due {
            self.acknowledged = self.came;
        }
        due.then_some(self.came)
    }

    /// The sender is told that so many frames have come in all; what waited can be tried again.
    pub(super) fn told(&mut self, came: u64) -> VecDeque<Turn> {
        // More than were sent is what no receiver says.
        let new = came.min(self.sent).saturating_sub(self.told);
        self.told += new;
        self.gone += new;
        if !self.waiting.is_empty() {
            self.window += new;
        }
        std::mem::take(&mut self.waiting)
    }

    /// A frame was lost.
    pub(super) fn lost(&mut self) {
        self.gone += 1;
        self.window = (self.window / 2).max(LEAST);
    }

    /// Nothing was heard for so long that nothing can be under way any more.
    pub(super) fn timed_out(&mut self) -> VecDeque<Turn> {
        self.gone = self.sent;
        std::mem::take(&mut self.waiting)
    }
}
