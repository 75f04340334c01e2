//! Sums by pairs.
//!
//! `collect` fills them, and so do those that work out collective operations.

use std::collections::BTreeMap;

use belljar_job::Member;

use super::PairTraffic;

/// What goes from one to another.
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

/// Pairs that are kept, at most: those of two thousand ranks of which each talks to each.
const MOST_PAIRS: usize = 1 << 22;

/// Sums by pairs.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) sums: BTreeMap<(Member, Member), Sum>,
    /// Messages of pairs for which there was no room.
    pub(super) left_out: u64,
}

impl Pairs {
    /// So many messages, of so many bytes together.
    pub(super) fn add(&mut self, from: Member, to: Member, messages: u64, bytes: u64) {
        let pair = (from, to);
        if self.sums.len() >= MOST_PAIRS && !self.sums.contains_key(&pair) {
            self.left_out = self.left_out.saturating_add(messages);
            return;
        }
        self.sums.entry(pair).or_default().add(messages, bytes);
    }

    /// The pairs as a matrix has them.
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
