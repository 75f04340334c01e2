//! The congestion window of one sender: CUBIC with HyStart.
//!
//! The window begins at ten segments (RFC 6928), doubles in each round trip up to the slow start threshold, and grows by CUBIC beyond it (RFC 9438). HyStart leaves
//! slow start where a train of acknowledgements takes as long as half the least round trip or the round trip has grown (S. Ha and I. Rhee, "Taming the elephants: new
//! TCP slow start", Computer Networks 55, 2011), with the bounds of Linux 6.1. All arithmetic is on integers: processors agree on its results.

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use super::limits::MOST_COUNTED;

/// Segments that may be in flight at first (RFC 6928).
const INITIAL: u64 = 10;
/// Segments of the smallest slow start threshold.
const LEAST_THRESHOLD: u64 = 2;
/// The window after a reduction: 717 of 1024, Linux's value of CUBIC's 0.7.
const REDUCTION: u64 = 717;
/// Bits of that fraction.
const REDUCTION_BITS: u32 = 10;
/// Segments from which HyStart is active.
const HYSTART_LEAST: u64 = 16;
/// Acknowledgements belong to one train up to this distance.
const HYSTART_DISTANCE: Span = Span::from_ms(2);
/// Samples of the round trip before HyStart evaluates a round.
const HYSTART_SAMPLES: u32 = 8;
/// Segments of the largest window: 4 MiB of send buffer.
const LARGEST: u64 = (4 << 20) / crate::message::SEGMENT;

/// The congestion window of one sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Congestion {
    /// Segments that may be in flight.
    window: u64,
    threshold: u64,
    /// Acknowledged segments that count for the next growth by one.
    counted: u64,
    cubic: Cubic,
    round: Round,
    /// The least round trip.
    least_trip: Span,
    /// The time at which a segment was last sent.
    sent: Time,
}

/// CUBIC's state since the last reduction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Cubic {
    /// Begin of the current growth.
    epoch: Option<Time>,
    /// The window before the last reduction.
    last_most: u64,
    /// The window at which the curve is flat.
    origin: u64,
    /// Time until then, in units of 1/1024 s.
    inflection: u64,
    /// The window that Reno would have, and its counted acknowledgements.
    reno: u64,
    reno_counted: u64,
}

/// HyStart's current round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Round {
    begin: Time,
    /// The round ends with the acknowledgement of this segment.
    end: u64,
    last: Time,
    samples: u32,
    least: Span,
}

impl Default for Congestion {
    fn default() -> Self {
        Self {
            window: INITIAL,
            threshold: MOST_COUNTED,
            counted: 0,
            cubic: Cubic::default(),
            round: Round::default(),
            least_trip: Span::ZERO,
            sent: Time::ZERO,
        }
    }
}

impl Congestion {
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    pub(super) fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// True if these values are possible for a sender.
    pub(super) fn is_sound(&self) -> bool {
        let cubic = &self.cubic;
        let windows = [self.window, cubic.last_most, cubic.origin, cubic.reno];
        let counts = [
            self.threshold,
            self.counted,
            cubic.reno_counted,
            self.round.end,
        ];
        windows.iter().all(|window| *window <= LARGEST)
            && self.window > 0
            && cubic.inflection <= 1 << 20
            && counts.iter().all(|count| *count <= MOST_COUNTED)
    }

    /// Sets the window during a recovery.
    pub(super) fn set_window(&mut self, segments: u64) {
        self.window = segments.clamp(1, LARGEST);
    }

    /// Records a sent segment.
    pub(super) fn sent(&mut self, now: Time) {
        self.sent = now;
    }

    /// Halves the window for each idle timeout (RFC 2861), down to the initial window. Used before the next segment.
    pub(super) fn idle(&mut self, now: Time, timeout: Span) {
        let mut left = now.since(self.sent);
        while self.window > INITIAL && left > timeout && timeout > Span::ZERO {
            self.window = (self.window / 2).max(INITIAL);
            left = left - timeout;
        }
    }

    /// Reduces the threshold after a loss, and returns the new threshold.
    pub(super) fn reduce(&mut self) -> u64 {
        let cubic = &mut self.cubic;
        cubic.epoch = None;
        // Fast convergence: a sender whose window has shrunk releases bandwidth.
        cubic.last_most = match self.window < cubic.last_most {
            true => (self.window * ((1 << REDUCTION_BITS) + REDUCTION)) >> (REDUCTION_BITS + 1),
            false => self.window,
        };
        self.counted = 0;
        self.threshold = ((self.window * REDUCTION) >> REDUCTION_BITS).max(LEAST_THRESHOLD);
        self.threshold
    }

    /// Adds a sample of the round trip, with the acknowledgement of segments before `known`; `sent` counts all sent segments.
    pub(super) fn sample(&mut self, now: Time, trip: Span, known: u64, sent: u64) {
        if self.least_trip == Span::ZERO || trip < self.least_trip {
            self.least_trip = trip;
        }
        if !self.is_slow_start() || self.window < HYSTART_LEAST {
            return;
        }
        let round = &mut self.round;
        if known >= round.end {
            *round = Round {
                begin: now,
                end: sent,
                last: now,
                samples: 0,
                least: trip,
            };
        }
        if now.since(round.last) <= HYSTART_DISTANCE {
            round.last = now;
            // The delay of an acknowledgement: four bursts of 64 KiB at twice the window for each round trip, a millisecond at most.
            let burst = (4 << 16) / crate::message::SEGMENT;
            let delay = Span::from_ps((trip.as_ps() / (2 * self.window)).saturating_mul(burst));
            let most = self.least_trip + delay.min(Span::from_ms(1));
            if now.since(round.begin).as_ps() > most.as_ps() / 2 {
                self.threshold = self.window;
                return;
            }
        }
        round.samples = round.samples.saturating_add(1);
        round.least = round.least.min(trip);
        let more = Span::from_ps(self.least_trip.as_ps() / 8);
        let more = more.clamp(Span::from_ms(4), Span::from_ms(16));
        if round.samples >= HYSTART_SAMPLES && round.least > self.least_trip + more {
            self.threshold = self.window;
        }
    }

    /// Handles this number of segments acknowledged in order, outside of a recovery.
    pub(super) fn acknowledged(&mut self, now: Time, mut segments: u64) {
        if self.is_slow_start() {
            let more = segments.min(self.threshold - self.window);
            self.window = (self.window + more).min(LARGEST);
            segments -= more;
        }
        if segments == 0 {
            return;
        }
        let by_one = self.by_one(now, segments);
        self.counted += segments;
        if self.counted >= by_one {
            self.window = (self.window + self.counted / by_one).min(LARGEST);
            self.counted %= by_one;
        }
    }

    /// Returns the acknowledged segments for which the window grows by one.
    fn by_one(&mut self, now: Time, segments: u64) -> u64 {
        let (window, trip) = (self.window, self.least_trip);
        let cubic = &mut self.cubic;
        let epoch = *cubic.epoch.get_or_insert_with(|| {
            cubic.reno = window;
            cubic.reno_counted = 0;
            cubic.origin = cubic.last_most.max(window);
            // 0.4 (t / s)^3 segments in time t, solved for t.
            cubic.inflection = cube_root((cubic.origin - window).saturating_mul(5 << 29));
            now
        });
        cubic.reno_counted += segments;
        let elapsed = ((now + trip).since(epoch).as_ps() / (1_000_000_000_000 >> 10)).min(1 << 20);
        let cube = elapsed.abs_diff(cubic.inflection).pow(3);
        let change = ((u128::from(cube) * 2 / 5) >> 30) as u64;
        let target = match elapsed < cubic.inflection {
            true => cubic.origin.saturating_sub(change),
            false => cubic.origin.saturating_add(change),
        };
        let mut by_one = match target > window {
            true => (window / (target - window)).max(1),
            false => 100 * window,
        };
        if cubic.last_most == 0 {
            by_one = by_one.min(20);
        }
        // Reno with a reduction to 0.7 grows by 3 (1 - 0.7) / (1 + 0.7) segments in each round trip.
        let each = (window * 15 / 8).max(1);
        cubic.reno = (cubic.reno + cubic.reno_counted / each).min(LARGEST);
        cubic.reno_counted %= each;
        if cubic.reno > window {
            by_one = by_one.min((window / (cubic.reno - window)).max(1));
        }
        by_one.max(2)
    }
}

/// Returns the largest number whose cube is not larger.
fn cube_root(of: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..21).rev() {
        let more = root | 1 << bit;
        if more.pow(3) <= of {
            root = more;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_rounded_down() {
        for (of, root) in [(0, 0), (7, 1), (8, 2), (26, 2), (27, 3), (1 << 60, 1 << 20)] {
            assert_eq!(cube_root(of), root);
        }
    }

    #[test]
    fn slow_start_doubles_and_a_loss_leaves_seven_tenths() {
        let mut congestion = Congestion::default();
        congestion.acknowledged(Time::ZERO, 10);
        assert_eq!(congestion.window(), 20);
        congestion.acknowledged(Time::ZERO, 80);
        assert_eq!(congestion.window(), 100);
        assert_eq!(congestion.reduce(), 70);
        assert!(congestion.is_sound());
    }

    #[test]
    fn cubic_is_back_at_the_old_window_after_the_cube_root() {
        let mut congestion = Congestion::default();
        congestion.acknowledged(Time::ZERO, 990);
        let threshold = congestion.reduce();
        congestion.set_window(threshold);
        assert_eq!((threshold, congestion.window()), (700, 700));
        // 1000 - 0.4 (t - 9.08)^3 is 990 after 6.16 s. A round trip of 100 ms acknowledges a window.
        let mut back = None;
        for round in 0..120_u64 {
            let now = Time::from_ps(round * 100_000_000_000);
            congestion.acknowledged(now, congestion.window());
            if congestion.window() >= 990 && back.is_none() {
                back = Some(round);
            }
        }
        assert!(matches!(back, Some(60..63)), "{back:?}");
    }
}
