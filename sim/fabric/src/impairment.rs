//! Impairments of links: random loss, jitter, outages.
//!
//! A frame's fate depends on the seed, the link, its direction and the number of preceding frames, not
//! on rounds or hosts. Checked when a plan is made; called by `link` for each frame.

use belljar_sim::{Random, Seed, Span, Time};

/// Impairments of a link, in each direction independently.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairment {
    /// Share of frames that are lost on the wire, 0 to 1.
    pub loss: f64,
    /// Maximum delay of a frame: each frame's is drawn uniformly from 0 to this.
    pub jitter: Span,
    /// Times at which the link is down: in order of time, and not overlapping.
    pub outages: Vec<Outage>,
}

/// A time during which a link is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Start.
    pub from: Time,
    /// End.
    pub until: Time,
}

/// An error in an impairment.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ImpairmentError {
    /// A share outside 0 to 1.
    #[error("loss is {0}; it must be from 0 to 1")]
    Loss(f64),
    /// An outage that ends before it begins, or overlaps another one.
    #[error("it would fail at {} and work again at {}; that must be later, and before it fails again", .0.from, .0.until)]
    Outage(Outage),
}

impl Impairment {
    /// Checks the values.
    ///
    /// # Errors
    /// See [`ImpairmentError`].
    pub fn check(&self) -> Result<(), ImpairmentError> {
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(ImpairmentError::Loss(self.loss));
        }
        let mut free = Time::ZERO;
        for &outage in &self.outages {
            if outage.from < free || outage.until <= outage.from {
                return Err(ImpairmentError::Outage(outage));
            }
            free = outage.until;
        }
        Ok(())
    }

    /// True if random numbers are needed.
    pub(crate) fn is_random(&self) -> bool {
        self.loss > 0.0 || self.jitter > Span::ZERO
    }

    /// True if the link is down at `time`.
    pub(crate) fn is_down(&self, time: Time) -> bool {
        let next = self.outages.partition_point(|outage| outage.until <= time);
        self.outages
            .get(next)
            .is_some_and(|outage| outage.from <= time)
    }

    /// Time of the first failure after `time`.
    pub(crate) fn next_failure(&self, time: Time) -> Option<Time> {
        let next = self.outages.partition_point(|outage| outage.from <= time);
        self.outages.get(next).map(|outage| outage.from)
    }
}

/// Random effects on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) lost: bool,
    pub(crate) late: Span,
}

/// Random effects in one direction of a link: a frame's fate depends only on the seed, the link, the
/// direction, and the number of frames before it.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    random: Random,
    /// In units of 2^-53.
    loss: u64,
    jitter: Span,
}

/// Random numbers per frame.
const DRAWS: u64 = 2;
/// 2^53: shares are compared with the precision of a double.
const WHOLE: f64 = 9_007_199_254_740_992.0;

impl Chance {
    /// For the direction with the number `port` among all; `frames` were sent before.
    pub(crate) fn new(seed: Seed, port: u64, impairment: &Impairment, frames: u64) -> Self {
        let mut random = Random::new(seed, "link", port);
        random.seek(frames.wrapping_mul(DRAWS));
        Self {
            random,
            loss: (impairment.loss * WHOLE) as u64,
            jitter: impairment.jitter,
        }
    }

    /// The fate of the next frame.
    pub(crate) fn next(&mut self) -> Fate {
        let [loss, late] = [self.random.next_u64(), self.random.next_u64()];
        let choices = u128::from(self.jitter.as_ps()) + 1;
        Fate {
            lost: loss >> 11 < self.loss,
            late: Span::from_ps(((u128::from(late) * choices) >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(from: u64, until: u64) -> Outage {
        Outage {
            from: Time::from_ps(from),
            until: Time::from_ps(until),
        }
    }

    #[test]
    fn a_link_is_down_from_its_failure_until_its_repair() {
        let impairment = Impairment {
            outages: vec![outage(10, 20), outage(20, 30), outage(50, u64::MAX)],
            ..Impairment::default()
        };
        impairment.check().unwrap();
        let down = |at| impairment.is_down(Time::from_ps(at));
        let states = [9, 10, 19, 20, 29, 30, 49, 50, 1000].map(down);
        assert_eq!(
            states,
            [false, true, true, true, true, false, false, true, true]
        );
        let next = |at| impairment.next_failure(Time::from_ps(at)).map(Time::as_ps);
        assert_eq!(
            [0, 9, 10, 20, 49, 50].map(next),
            [Some(10), Some(10), Some(20), Some(50), Some(50), None]
        );
    }

    #[test]
    fn senseless_impairments_are_refused() {
        let with = |loss, outages| Impairment {
            loss,
            outages,
            ..Impairment::default()
        };
        assert!(with(1.5, vec![]).check().is_err());
        assert!(with(f64::NAN, vec![]).check().is_err());
        assert!(with(0.0, vec![outage(5, 5)]).check().is_err());
        assert!(
            with(0.0, vec![outage(5, 9), outage(8, 12)])
                .check()
                .is_err()
        );
    }

    #[test]
    fn chance_depends_on_the_number_of_the_frame_alone() {
        let impairment = Impairment {
            loss: 0.25,
            jitter: Span::from_ns(200),
            ..Impairment::default()
        };
        let chance = |port, frames| Chance::new(Seed(9), port, &impairment, frames);
        let mut from_start = chance(3, 0);
        let fates: Vec<Fate> = (0..4000).map(|_| from_start.next()).collect();
        assert_eq!(chance(3, 1234).next(), fates[1234]);
        let lost = fates.iter().filter(|fate| fate.lost).count();
        // The mean is 1000, the standard deviation 27.
        assert!((850..1150).contains(&lost), "{lost}");
        let latest = fates.iter().map(|fate| fate.late).max().unwrap();
        assert!(latest <= Span::from_ns(200) && latest > Span::from_ns(190));
        let other: Vec<Fate> = (0..4000).map(|_| chance(4, 0).next()).collect();
        assert_ne!(fates, other);
    }
}
