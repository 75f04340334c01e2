//! Which ways conditional jumps went while that was still counted.
//!
//! Blocks are counted until they are hot. What leads out of a loop often enough is hot one day
//! as well, and a trace that is made anew behind that day would take it to be as likely as the
//! next round.

use std::collections::BTreeMap;

use crate::context::HOT_RUNS;

/// How often a conditional jump's target was run, and what follows the jump.
pub(crate) type Counts = [i32; 2];

/// What was counted when traces were led past jumps, while it told most.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// By the jump's physical address.
    known: BTreeMap<u64, Counts>,
}

impl Ways {
    /// What is known of the jump at physical address `jump` when its ways were run `counted`
    /// times by now, which is no more than [`HOT_RUNS`] each.
    pub(crate) fn learn(&mut self, jump: u64, counted: Counts) -> Counts {
        let most = |counts: Counts| counts[0].max(counts[1]);
        let known = self.known.get(&jump).copied();
        let better = known.is_none_or(|known| most(known) < 100);
        if counted == [HOT_RUNS; 2] || !better {
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
        let mut ways = Ways::default();
        let both = [HOT_RUNS; 2];
        assert_eq!(ways.learn(1, [3, 1]), [3, 1]);
        assert_eq!(ways.learn(1, [HOT_RUNS, 4]), [HOT_RUNS, 4], "more runs");
        assert_eq!(ways.learn(1, [HOT_RUNS, 99]), [HOT_RUNS, 4], "one's end");
        assert_eq!(ways.learn(1, both), [HOT_RUNS, 4]);
        assert_eq!(ways.learn(2, both), both, "never counted");
        ways.clear();
        assert_eq!(ways.learn(1, both), both);
    }
}
