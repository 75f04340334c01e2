//! The branch profile: run counts of conditional jumps' branches, from the time when they were
//! still counted.
//!
//! Blocks are counted until they are hot. Code after a loop becomes hot as well if it runs often
//! enough, and a trace that is made again afterwards would consider the exit as likely as the next
//! round.

use std::collections::BTreeMap;

use belljar_translate::context::HOT_RUNS;

/// Number of runs of a branch after which a jump's counts are final. Later counts are distorted:
/// hot branches are not counted any more, while the other branch still is.
const TELLING: i32 = 100;

/// Run counts of a conditional jump's target and of the code after the jump.
pub(crate) type Counts = [i32; 2];

/// Final counts of jumps within traces.
#[derive(Debug, Default)]
pub(crate) struct BranchProfile {
    /// By the jump's physical address.
    known: BTreeMap<u64, Counts>,
}

impl BranchProfile {
    /// The counts for the jump at physical address `jump`, given its present counts `counted`,
    /// which are at most [`HOT_RUNS`] each.
    pub(crate) fn learn(&mut self, jump: u64, counted: Counts) -> Counts {
        let known = self.known.get(&jump).copied();
        let settled = known.is_some_and(|known| known.iter().any(|&runs| runs >= TELLING));
        if settled || counted == [HOT_RUNS; 2] {
            return known.unwrap_or(counted);
        }
        self.known.insert(jump, counted);
        counted
    }

    /// Clears all counts.
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
