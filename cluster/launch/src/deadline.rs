//! Waiting by the host's clock.
//!
//! It bounds the waiting for other machines, and affects no result. Used by functions that wait for
//! agents.
#![allow(clippy::disallowed_methods)]

use std::thread;
use std::time::{Duration, Instant};

/// Polling interval for events without a notification.
const STEP: Duration = Duration::from_millis(5);

/// A point of host time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// The deadline after this span.
    pub(crate) fn after(time: Duration) -> Self {
        // The furthest deadline: a year, if the clock cannot represent more.
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        Self(Instant::now() + time.min(YEAR))
    }

    /// True if it has passed.
    pub(crate) fn passed(self) -> bool {
        Instant::now() >= self.0
    }

    /// Polls `look` until it returns a value, or until the deadline.
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
