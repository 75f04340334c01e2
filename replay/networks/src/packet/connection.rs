//! How much may be under way from one host to another: TCP's congestion window.
//!
//! It begins at ten frames (RFC 6928) and grows by one with each that is acknowledged while there is more to send (slow start, RFC 5681), and is halved
//! when a frame is lost. Frames that nobody may send yet wait. Called by the network of frames.

use std::collections::VecDeque;

use super::Turn;

/// Frames that may be under way at first.
const FIRST: u64 = 10;
/// Frames that may always be under way.
const LEAST: u64 = 2;

/// What goes from one host to another.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// Frames that may be under way.
    window: u64,
    /// Frames that are.
    flying: u64,
    waiting: VecDeque<Turn>,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            window: FIRST,
            flying: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl Connection {
    /// Whether a frame may be sent now; then it is under way.
    pub(super) fn may_send(&mut self) -> bool {
        let may = self.flying < self.window;
        self.flying += u64::from(may);
        may
    }

    /// Frames wait until there is room.
    pub(super) fn wait(&mut self, turn: Turn) {
        self.waiting.push_back(turn);
    }

    /// A frame has come; what waited can be tried again.
    pub(super) fn told(&mut self) -> VecDeque<Turn> {
        self.flying = self.flying.saturating_sub(1);
        if !self.waiting.is_empty() {
            self.window += 1;
        }
        std::mem::take(&mut self.waiting)
    }

    /// A frame was lost.
    pub(super) fn lost(&mut self) {
        self.flying = self.flying.saturating_sub(1);
        self.window = (self.window / 2).max(LEAST);
    }
}
