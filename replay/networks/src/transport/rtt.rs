//! A sender's estimate of the round trip, and the timers that follow from it.
//!
//! Estimates are smoothed by RFC 6298, with the bounds of Linux 6.1. A retransmission timeout is at least 200 ms longer than the round trip. A tail loss probe (RFC 8985,
//! 7.2) comes after two round trips and 2 ms. Timers expire with the kernel's clock of 250 Hz: runs show them 4 ms apart, the shortest four to eight milliseconds after
//! they were set.

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

/// The least variation in a retransmission timeout.
const LEAST_VARIATION: Span = Span::from_ms(200);
/// The timeout before any sample of the round trip (RFC 6298, 2.1).
const FIRST_TIMEOUT: Span = Span::from_ms(1_000);
/// The longest timeout.
const LONGEST: Span = Span::from_ms(120_000);
/// Least time of a probe beyond two round trips, and of an overtaken segment.
const LEAST: Span = Span::from_ms(2);
/// A tick of the kernel's clock.
const TICK: Span = Span::from_ms(4);
/// Most doublings of the timeout.
const MOST_DOUBLINGS: u32 = 15;

/// Returns the expiry of a timer that is set at `now` for this time: timers never expire early, so the current tick does not count.
pub(super) fn expiry(now: Time, after: Span) -> Time {
    let tick = TICK.as_ps();
    let ticks = now.as_ps() / tick + 1 + after.as_ps().div_ceil(tick);
    Time::from_ps(ticks.saturating_mul(tick))
}

/// Estimates of the round trip.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct RoundTrip {
    smoothed: Option<Span>,
    variation: Span,
    least: Span,
    /// Doublings of the timeout since the last acknowledgement.
    doublings: u32,
}

impl RoundTrip {
    /// Adds a sample of a segment that was sent only once.
    pub(super) fn sample(&mut self, trip: Span) {
        let ps = trip.as_ps();
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(trip);
            self.variation = Span::from_ps(ps / 2);
            self.least = trip;
            return;
        };
        let off = ps.abs_diff(smoothed.as_ps());
        let weighted =
            |old: u64, new: u64, parts: u64| Span::from_ps(old - old / parts + new / parts);
        self.variation = weighted(self.variation.as_ps(), off, 4);
        self.smoothed = Some(weighted(smoothed.as_ps(), ps, 8));
        self.least = self.least.min(trip);
    }

    /// Returns the least of all samples.
    pub(super) fn least(&self) -> Span {
        self.least
    }

    /// Returns the time until all segments in flight count as lost.
    pub(super) fn timeout(&self) -> Span {
        let once = self.smoothed.map_or(FIRST_TIMEOUT, |smoothed| {
            let four = Span::from_ps(self.variation.as_ps().saturating_mul(4));
            smoothed + four.max(LEAST_VARIATION)
        });
        let doubled = once
            .as_ps()
            .saturating_mul(1 << self.doublings.min(MOST_DOUBLINGS));
        Span::from_ps(doubled).min(LONGEST)
    }

    /// Returns the time at which the tail is probed for a loss, with this many segments in flight at `now`.
    pub(super) fn probe(&self, now: Time, under_way: u64) -> Time {
        let timeout = self.timeout();
        let after = self.smoothed.map_or(timeout, |smoothed| {
            // A single segment may wait for a delayed acknowledgement.
            let more = match under_way {
                0 | 1 => LEAST_VARIATION,
                _ => LEAST,
            };
            (smoothed + smoothed + more).min(timeout)
        });
        expiry(now, after)
    }

    /// Returns the time at which an overtaken segment counts as lost, if few have overtaken it (RFC 8985, 6.2).
    pub(super) fn reordering(&self, now: Time) -> Time {
        expiry(now, LEAST + Span::from_ps(self.least.as_ps() / 4))
    }

    /// True if these values are possible for a sender.
    pub(super) fn is_sound(&self) -> bool {
        self.doublings <= MOST_DOUBLINGS
    }

    /// Handles an expired timeout.
    pub(super) fn double(&mut self) {
        self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
    }

    /// Handles a new acknowledgement.
    pub(super) fn progress(&mut self) {
        self.doublings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_those_of_linux() {
        let mut trip = RoundTrip::default();
        assert_eq!(trip.timeout(), Span::from_ms(1_000));
        trip.sample(Span::from_us(100));
        assert_eq!(trip.timeout(), Span::from_us(200_100));
        let probe = |us, under_way| {
            let now = Time::ZERO + Span::from_us(us);
            trip.probe(now, under_way).as_ps() / 1_000_000_000
        };
        assert_eq!([probe(0, 2), probe(3_999, 2), probe(4_000, 2)], [8, 8, 12]);
        assert_eq!([probe(0, 1), probe(3_999, 1)], [208, 208]);
        trip.double();
        trip.double();
        assert_eq!(trip.timeout(), Span::from_us(800_400));
        trip.progress();
        assert_eq!(trip.timeout(), Span::from_us(200_100));
    }
}
