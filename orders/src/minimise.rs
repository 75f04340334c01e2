//! The fewest delays with which a run fails.
//!
//! Delays are left out one after the other, from the last one; a delay stays out if the run fails without it as well. The result is
//! minimal: without any one of its delays the run does not fail. Called with the outcome of each trial.

use crate::force::ForcedDelay;

/// Delays to try.
pub type Trial = Vec<ForcedDelay>;

/// Leaves out delays that a failure does not need.
#[derive(Clone, Debug)]
pub struct Minimiser {
    needed: Vec<ForcedDelay>,
    /// Number of delays that were not left out yet.
    left: usize,
}

impl Minimiser {
    /// Begins with delays with which the run fails.
    pub fn new(delays: Vec<ForcedDelay>) -> Self {
        Self {
            left: delays.len(),
            needed: delays,
        }
    }

    /// The delays of the next run; `None` when all are known to be needed.
    pub fn trial(&self) -> Option<Trial> {
        let out = self.left.checked_sub(1)?;
        let mut trial = self.needed.clone();
        trial.remove(out);
        Some(trial)
    }

    /// Takes the outcome of the run with the last trial.
    pub fn take(&mut self, fails: bool) {
        let Some(out) = self.left.checked_sub(1) else {
            return;
        };
        self.left = out;
        if fails {
            self.needed.remove(out);
        }
    }

    /// The delays that are left.
    pub fn needed(self) -> Vec<ForcedDelay> {
        self.needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::force::DelayPlace;

    #[test]
    fn delays_that_a_failure_does_not_need_are_left_out() {
        let delay = |node| ForcedDelay {
            place: DelayPlace::Detour { node, processor: 0 },
            at_ps: 1,
            until_ps: 2,
            purpose: Vec::new(),
        };
        let has = |delays: &[ForcedDelay], node| delays.contains(&delay(node));
        let mut minimiser = Minimiser::new((0..6).map(delay).collect());
        let mut trials = 0;
        while let Some(trial) = minimiser.trial() {
            trials += 1;
            minimiser.take(has(&trial, 1) && (has(&trial, 3) || has(&trial, 4)));
        }
        assert_eq!((minimiser.needed(), trials), (vec![delay(1), delay(3)], 6));
    }
}
