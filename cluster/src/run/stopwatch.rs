//! Host time of nodes, for reports alone: no result depends on it.
//!
//! One of the few files that may read the host's clock. Of short laps only some are measured, and count
//! for the others. Used by runners and by checkpoints.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

/// Short laps per measured one, as reading the host's clock takes a good part of a short turn.
const SAMPLED: u32 = 16;

/// Adds up durations.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    total: Duration,
    short: u32,
}

/// A lap that is measured.
pub(crate) struct Lap {
    since: Instant,
    /// Number of laps that it counts for.
    weight: u32,
}

impl Stopwatch {
    /// Starts a lap.
    pub(crate) fn lap(&self) -> Lap {
        Lap {
            since: Instant::now(),
            weight: 1,
        }
    }

    /// Starts a short lap, if this one is measured.
    pub(crate) fn short_lap(&mut self) -> Option<Lap> {
        self.short = (self.short + 1) % SAMPLED;
        (self.short == 0).then(|| Lap {
            weight: SAMPLED,
            ..self.lap()
        })
    }

    /// Ends a lap.
    pub(crate) fn add(&mut self, lap: Lap) {
        self.total += lap.since.elapsed() * lap.weight;
    }

    /// All laps together.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }
}
