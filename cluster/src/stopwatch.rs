//! Host time that nodes take, for reports alone: no result depends on it.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

/// Adds up how long something took.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    total: Duration,
}

impl Stopwatch {
    /// Starts a lap.
    pub(crate) fn lap(&self) -> Instant {
        Instant::now()
    }

    /// Ends the lap that began at `since`.
    pub(crate) fn add(&mut self, since: Instant) {
        self.total += since.elapsed();
    }

    /// All laps together.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }
}
