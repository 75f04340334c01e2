//! Host time that nodes take, for reports alone: no result depends on it.
//!
//! One of the few files that may read the host's clock. Of short laps only some are measured and stand for
//! the others. Used by runners and where checkpoints are taken.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

/// Short laps of which one is measured, for all of them: to read the host's clock takes a
/// good part of a short turn.
const SAMPLED: u32 = 16;

/// Adds up how long something took.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    total: Duration,
    short: u32,
}

/// A lap that is measured.
pub(crate) struct Lap {
    since: Instant,
    /// Laps for which it stands.
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

    /// Starts a lap of a kind that is short, if this one is to be measured.
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
