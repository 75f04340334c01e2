//! Checks of a sender's state, which may come from an untrusted file.
//!
//! Used when a state is restored.

use super::recovery::RecoveryPhase;
use super::{Fate, Sender};
use crate::message::{MOST_BYTES, SEGMENT, frames_of};
use crate::transport::limits::MOST_COUNTED;

impl Sender {
    /// True if these values are possible for a sender.
    pub(in crate::transport) fn is_sound(&self) -> bool {
        let count = |fate| self.flight.iter().filter(|it| it.fate == fate).count() as u64;
        let (lost, again) = (count(Fate::Lost), count(Fate::Again));
        let unsent: Option<u64> = self.unsent.iter().try_fold(0_u64, |sum, it| {
            let sound = it.bytes <= MOST_BYTES && (it.bytes > 0 || it.whole);
            sound.then(|| sum.saturating_add(frames_of(it.bytes)))
        });
        let segments = self.flight.iter().all(|it| u64::from(it.data) <= SEGMENT);
        self.queued <= MOST_COUNTED
            && self.next <= self.queued
            && unsent == Some(self.queued - self.next)
            && self.next.checked_sub(self.known) == Some(self.flight.len() as u64)
            && self.come == count(Fate::Come)
            && (self.lost, self.again) == (lost + again, again)
            && segments
            && self.congestion.is_sound()
            && self.trip.is_sound()
            && self.most.max(self.most_until).max(self.newest.1) <= MOST_COUNTED
            && self.phase.is_sound()
    }
}

impl RecoveryPhase {
    fn is_sound(self) -> bool {
        match self {
            Self::Open => true,
            Self::Loss { high } => high <= MOST_COUNTED,
            Self::Recovery {
                high,
                window,
                delivered,
                sent,
            } => {
                let counts = [high, delivered, sent];
                window <= 1 << 20 && counts.iter().all(|it| *it <= MOST_COUNTED >> 20)
            }
        }
    }
}
