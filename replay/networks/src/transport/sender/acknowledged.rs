//! Handling of acknowledgements: arrived segments, samples of the round trip, growth of the window.
//!
//! Used by the sender for each acknowledgement.

use belljar_sim::{Span, Time};

use super::recovery::{RecoveryPhase, Timer};
use super::{Fate, Sender, SentSegment};
use crate::transport::receiver::Acknowledgement;

impl Sender {
    /// Handles an acknowledgement.
    pub(in crate::transport) fn acknowledge(
        &mut self,
        now: Time,
        acknowledgement: Acknowledgement,
    ) {
        let before = self.come + self.known;
        let known = acknowledgement.known.min(self.next);
        let ordered = known.saturating_sub(self.known);
        let mut sample = None;
        while self.known < known
            && let Some(segment) = self.flight.pop_front()
        {
            self.known += 1;
            match segment.fate {
                Fate::Come => self.come -= 1,
                _ => sample = self.has_come(segment, self.known - 1).or(sample),
            }
        }
        let (first, end) = acknowledgement.block;
        for number in first.max(self.known)..end.min(self.next) {
            let at = (number - self.known) as usize;
            let segment = self.flight[at];
            if segment.fate != Fate::Come {
                sample = self.has_come(segment, number).or(sample);
                self.flight[at].fate = Fate::Come;
                self.come += 1;
            }
        }
        if let Some(sent) = sample {
            let trip = now.since(sent);
            self.trip.sample(trip);
            self.congestion.sample(now, trip, self.known, self.next);
        }
        self.newest.2 = now.since(self.newest.0).min(self.newest.2);
        let delivered = (self.come + self.known).saturating_sub(before);
        self.after(now, ordered, delivered);
    }

    /// Records the arrival of a segment. Returns the time at which it was sent, if it was sent only once.
    fn has_come(&mut self, segment: SentSegment, number: u64) -> Option<Time> {
        match segment.fate {
            Fate::Lost => self.lost -= 1,
            Fate::Again => {
                self.lost -= 1;
                self.again -= 1;
            }
            Fate::UnderWay | Fate::Come => {}
        }
        if (segment.sent, number) > (self.newest.0, self.newest.1) {
            self.newest = (segment.sent, number, Span::from_ps(u64::MAX));
        }
        (!segment.repeated).then_some(segment.sent)
    }

    /// Continues after an acknowledgement of this many segments in order, and in total.
    fn after(&mut self, now: Time, ordered: u64, delivered: u64) {
        if ordered > 0 {
            self.trip.progress();
            self.probed = false;
        }
        let lost = self.lost;
        let waits = match self.come > 0 || self.phase != RecoveryPhase::Open {
            true => self.detect(now),
            false => false,
        };
        match self.phase {
            RecoveryPhase::Recovery { high, .. } if self.known >= high => {
                self.congestion.set_window(self.congestion.threshold());
                self.phase = RecoveryPhase::Open;
            }
            RecoveryPhase::Loss { high } if self.known >= high => self.phase = RecoveryPhase::Open,
            _ => {}
        }
        if self.phase == RecoveryPhase::Open && self.lost > 0 {
            self.recover();
        }
        match self.phase {
            RecoveryPhase::Recovery { .. } => {
                self.reduce(ordered > 0 && self.lost <= lost, delivered);
            }
            RecoveryPhase::Open | RecoveryPhase::Loss { .. }
                if ordered > 0 && self.is_limited() =>
            {
                self.congestion.acknowledged(now, delivered);
            }
            _ => {}
        }
        match waits {
            true => self.timer = Some((self.trip.reordering(now), Timer::Reordering)),
            false if ordered > 0 || delivered > 0 => self.arm(now),
            false => {}
        }
    }
}
