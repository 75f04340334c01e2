//! Sums by pairs.
//!
//! Filled by `collect` and by the modules for collective operations.

use std::collections::BTreeMap;

use belljar_job::Member;

use super::PairTraffic;

/// Traffic from one rank or node to another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Sum {
    pub(super) fn add(&mut self, messages: u64, bytes: u64) {
        self.messages = self.messages.saturating_add(messages);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Most pairs that are kept: those of two thousand ranks that all communicate with each other.
const MOST_PAIRS: usize = 1 << 22;

/// Sums by pairs.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) sums: BTreeMap<(Member, Member), Sum>,
    /// Messages of pairs beyond the limit.
    pub(super) left_out: u64,
}

impl Pairs {
    /// Adds `messages` with `bytes` in total.
    pub(super) fn add(&mut self, from: Member, to: Member, messages: u64, bytes: u64) {
        let pair = (from, to);
        if self.sums.len() >= MOST_PAIRS && !self.sums.contains_key(&pair) {
            self.left_out = self.left_out.saturating_add(messages);
            return;
        }
        self.sums.entry(pair).or_default().add(messages, bytes);
    }

    /// Returns the pairs for a matrix.
    pub(super) fn traffic(&self) -> Vec<PairTraffic> {
        let pairs = self.sums.iter();
        let pairs = pairs.map(|((from, to), sum)| PairTraffic {
            job: Some(from.job),
            from: from.rank,
            to_job: Some(to.job),
            to: Some(to.rank),
            messages: sum.messages,
            bytes: sum.bytes,
            payload: None,
        });
        pairs.collect()
    }
}
