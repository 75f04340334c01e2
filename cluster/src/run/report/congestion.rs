//! Sums of a card's congestion control over its queue pairs, as `summary.json` has them.
//!
//! A card without a queue pair that met congestion has no sums, so summaries of runs without control are as before. The report of a node
//! makes the sums, and the summary of a run adds those of all nodes.

use belljar_vmm::PairCongestion;
use serde::{Deserialize, Serialize};

/// Congestion control of a card: sums over its queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CongestionSummary {
    /// Marked packets received.
    pub marked: u64,
    /// Notifications sent to senders.
    pub notifications_sent: u64,
    /// Notifications received.
    pub notifications_received: u64,
    /// Time for which packets waited for the delays of their queue pairs, in picoseconds.
    pub delay_ps: u64,
}

impl CongestionSummary {
    /// The sums; `None` if no queue pair met congestion.
    pub(super) fn of(pairs: &[(u32, PairCongestion)]) -> Option<Self> {
        let sum = |field: fn(&PairCongestion) -> u64| {
            let fields = pairs.iter().map(|(_, pair)| field(pair));
            fields.fold(0, u64::saturating_add)
        };
        (!pairs.is_empty()).then(|| Self {
            marked: sum(|pair| pair.marked),
            notifications_sent: sum(|pair| pair.notifications_sent),
            notifications_received: sum(|pair| pair.notifications_received),
            delay_ps: sum(|pair| pair.delay_ps),
        })
    }
}
