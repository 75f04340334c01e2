//! The branch profile: which ways conditional jumps went while that was still counted.
//!
//! Blocks are counted until they are hot. What leads out of a loop often enough is hot one day
//! as well, and a trace that is made anew after that day would take it to be as likely as the
//! next round.

use std::collections::BTreeMap;

use belljar_translate::context::HOT_RUNS;

/// Runs of one way with which a count is kept for good. Later ones tell less: a way that is hot is
/// counted no more, while the other still is.
const TELLING: i32 = 100;

/// How often a conditional jump's target was run, and what follows the jump.
pub(crate) type Counts = [i32; 2];

/// What was counted of jumps that traces were led past.
#[derive(Debug, Default)]
pub(crate) struct BranchProfile {
    /// By the jump's physical address.
    known: BTreeMap<u64, Counts>,
}

impl BranchProfile {
    /// What is known of the jump at physical address `jump` when its ways were run `counted`
    /// times by now, which is no more than [`HOT_RUNS`] each.
    pub(crate) fn learn(&mut self, jump: u64, counted: Counts) -> Counts {
        let known = self.known.get(&jump).copied();
        let settled = known.is_some_and(|known| known.iter().any(|&runs| runs >= TELLING));
        if settled || counted == [HOT_RUNS; 2] {
            return known.unwrap_or(counted);
        }
        self.known.insert(jump, counted);
        counted
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_first_stays_known_when_both_ways_are_hot() {
        let mut profile = BranchProfile::default();
        let both = [HOT_RUNS; 2];
        assert_eq!(profile.learn(1, [3, 30]), [3, 30]);
        assert_eq!(
            profile.learn(1, [HOT_RUNS, 34]),
            [HOT_RUNS, 34],
            "more runs"
        );
        assert_eq!(profile.learn(1, [HOT_RUNS, 500]), [HOT_RUNS, 34]);
        assert_eq!(profile.learn(1, both), [HOT_RUNS, 34]);
        assert_eq!(profile.learn(2, both), both, "never counted");
        profile.clear();
        assert_eq!(profile.learn(1, both), both);
    }
}
