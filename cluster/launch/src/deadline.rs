//! Waiting on the host's clock.
//!
//! Nothing of it reaches a result: it bounds how long other machines are waited for. Used where agents are
//! waited for and ended.
#![allow(clippy::disallowed_methods)]

use std::thread;
use std::time::{Duration, Instant};

/// How often something is looked at again that gives no sign of its own.
const STEP: Duration = Duration::from_millis(5);

/// A point of host time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub(crate) fn after(time: Duration) -> Self {
        // Further than anybody waits: a year, where the clock cannot tell of more.
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        Self(Instant::now() + time.min(YEAR))
    }

    /// Whether it is past.
    pub(crate) fn passed(self) -> bool {
        Instant::now() >= self.0
    }

    /// Asks `look` until it has something, or until the deadline.
    pub(crate) fn until_some<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if self.passed() {
                return None;
            }
            thread::sleep(STEP);
        }
    }
}
