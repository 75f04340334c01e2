//! Instants of a timeline: states in memory from which movements continue.
//!
//! Their number and places depend on the host's speed; positions and states do not. Called by movements.

use std::time::Duration;

use belljar_sim::{Span, Time};

use super::{Timeline, position};
use crate::run::error::RunError;

/// Host time between two instants, approximately.
const BETWEEN: Duration = Duration::from_millis(150);
/// Shortest and longest virtual time between two instants.
const SPANS: (Span, Span) = (Span::from_us(50), Span::from_ms(10_000));
/// Most instants; every second one is dropped then.
const MOST: usize = 256;

impl Timeline {
    /// Takes an instant of the present state, if the way from the last one took long enough, and adapts the span
    /// between instants: `from` is the last position, and `took` the host time since.
    pub(super) fn remember(&mut self, from: Time, took: Duration) -> Result<(), RunError> {
        let now = self.at.time;
        let ran = now.since(from).as_ps();
        if took < BETWEEN / 2 {
            let longer = self.span.as_ps().saturating_mul(2);
            self.span = Span::from_ps(longer).min(SPANS.1);
        } else if took > BETWEEN * 2 {
            let shorter = u128::from(ran) * BETWEEN.as_nanos() / took.as_nanos();
            self.span = Span::from_ps(shorter as u64).clamp(SPANS.0, SPANS.1);
        }
        self.since += took;
        if self.since < BETWEEN / 2 || self.instants.contains_key(&now) {
            return Ok(());
        }
        self.since = Duration::ZERO;
        let Some(run) = &mut self.run else {
            return Ok(());
        };
        let instant = self.origin.save(run, now)?;
        self.instants.insert(now, instant);
        if self.instants.len() > MOST {
            let mut number = 0;
            self.instants.retain(|_, _| {
                number += 1;
                number % 2 == 1
            });
            self.origin.forget_but(self.instants.values());
        }
        Ok(())
    }

    pub(super) fn restore(&mut self, time: Time) -> Result<(), RunError> {
        // Its memory is free before the next one takes some.
        self.run = None;
        let Some(instant) = self.instants.get(&time) else {
            return Err(RunError::NoPosition {
                node: 0,
                instructions: 0,
            });
        };
        let run = self.origin.restore(instant)?;
        self.settled = true;
        self.since = Duration::ZERO;
        self.at = position(&run, time, 0);
        self.run = Some(run);
        Ok(())
    }
}
