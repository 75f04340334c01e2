//! Losses and their repair: detection by time, fast recovery, timers.
//!
//! RACK and tail loss probes (RFC 8985), proportional rate reduction (RFC 6937), the retransmission timeout (RFC 6298). Used by the sender for acknowledgements,
//! and when its timer expires.

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use super::{Fate, Sender};
use crate::transport::rtt::expiry;

/// Segments with selective acknowledgements from which earlier ones count as lost at once.
const OVERTAKEN: u64 = 3;

/// Phase of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum RecoveryPhase {
    Open,
    /// Fast recovery, until all segments before `high` have arrived.
    Recovery {
        high: u64,
        /// The window before.
        window: u64,
        delivered: u64,
        sent: u64,
    },
    /// After a timeout, until all segments before this one have arrived.
    Loss {
        high: u64,
    },
}

/// Purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Timer {
    Probe,
    Reordering,
    Timeout,
}

impl Sender {
    /// Finds losses by time (RFC 8985, 6.2); returns true if a segment may be found lost later.
    pub(super) fn detect(&mut self, now: Time) -> bool {
        let few = self.come < OVERTAKEN && self.phase == RecoveryPhase::Open;
        let (sent, number, trip) = self.newest;
        let patience = match few {
            true => trip + Span::from_ps(self.trip.least().as_ps() / 4),
            false => trip,
        };
        let mut waits = false;
        for (at, segment) in (self.known..).zip(&mut self.flight) {
            let open = matches!(segment.fate, Fate::UnderWay | Fate::Again);
            if !open || (segment.sent, at) >= (sent, number) {
                continue;
            }
            if now.since(segment.sent) < patience {
                waits = true;
                continue;
            }
            match segment.fate {
                Fate::Again => self.again -= 1,
                _ => self.lost += 1,
            }
            segment.fate = Fate::Lost;
        }
        waits
    }

    /// Begins fast recovery.
    pub(super) fn recover(&mut self) {
        let window = self.congestion.window();
        self.has_lost = true;
        self.congestion.reduce();
        self.phase = RecoveryPhase::Recovery {
            high: self.next,
            window,
            delivered: 0,
            sent: 0,
        };
    }

    /// Updates the window in recovery: proportional rate reduction (RFC 6937), with one additional segment in slow start if there is `progress`. Progress means
    /// that a segment arrived in order, and no new loss was found.
    pub(super) fn reduce(&mut self, progress: bool, new: u64) {
        let (threshold, under_way) = (self.congestion.threshold(), self.under_way());
        let RecoveryPhase::Recovery {
            window,
            delivered,
            sent,
            ..
        } = &mut self.phase
        else {
            return;
        };
        *delivered += new;
        let more = match under_way > threshold {
            true => (threshold * *delivered)
                .div_ceil((*window).max(1))
                .saturating_sub(*sent),
            false => {
                let credit = delivered.saturating_sub(*sent).max(new);
                (credit + u64::from(progress)).min(threshold - under_way)
            }
        };
        let more = more.max(u64::from(*sent == 0));
        self.congestion.set_window(under_way + more);
    }

    /// Sets the timer for the segments in flight.
    pub(super) fn arm(&mut self, now: Time) {
        if self.flight.is_empty() {
            self.timer = None;
            return;
        }
        let probes = self.phase == RecoveryPhase::Open && self.come == 0 && !self.probed;
        self.timer = Some(match probes {
            true => (self.trip.probe(now, self.under_way()), Timer::Probe),
            false => (expiry(now, self.trip.timeout()), Timer::Timeout),
        });
    }

    /// Handles the expiry of the timer.
    pub(in crate::transport) fn expire(&mut self, now: Time) {
        let Some((_, timer)) = self.timer.take() else {
            return;
        };
        match timer {
            Timer::Probe => {
                self.probed = true;
                // The timeout counts from the probe on.
                self.probe = true;
            }
            Timer::Reordering => {
                self.detect(now);
                if self.phase == RecoveryPhase::Open && self.lost > 0 {
                    self.recover();
                    self.reduce(false, 0);
                }
                self.arm(now);
            }
            Timer::Timeout => self.time_out(now),
        }
    }

    /// Marks all segments in flight as lost.
    fn time_out(&mut self, now: Time) {
        self.has_lost = true;
        if !matches!(self.phase, RecoveryPhase::Loss { .. }) {
            self.congestion.reduce();
        }
        self.phase = RecoveryPhase::Loss { high: self.next };
        self.congestion.set_window(1);
        self.trip.double();
        self.again = 0;
        self.lost = 0;
        for segment in &mut self.flight {
            if segment.fate != Fate::Come {
                segment.fate = Fate::Lost;
                self.lost += 1;
            }
        }
        self.timer = Some((expiry(now, self.trip.timeout()), Timer::Timeout));
    }
}
