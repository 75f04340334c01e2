//! Congestion control of InfiniBand cards: sums of `summary.json`.
//!
//! Unknown keys are ignored and missing ones are zero, as everywhere in a summary, which is untrusted; sums saturate. The command `report` calls
//! this for the line on congestion control.

use serde::{Deserialize, Serialize};

use crate::Summary;

/// Totals of a node's InfiniBand card.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CardTotal {
    /// Congestion control, if queue pairs met congestion.
    pub congestion: Option<CongestionTotal>,
}

/// Totals of a card's congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CongestionTotal {
    /// Marked packets received.
    pub marked: u64,
    /// Notifications received.
    pub notifications_received: u64,
    /// Time for which packets waited for the delays of their queue pairs, in picoseconds.
    pub delay_ps: u64,
}

impl Summary {
    /// Totals of congestion control over all nodes; `None` if no queue pair met congestion.
    pub fn congestion(&self) -> Option<CongestionTotal> {
        let cards = self
            .nodes
            .iter()
            .filter_map(|node| node.infiniband.as_ref());
        cards
            .filter_map(|card| card.congestion)
            .reduce(|sum, card| CongestionTotal {
                marked: sum.marked.saturating_add(card.marked),
                notifications_received: sum
                    .notifications_received
                    .saturating_add(card.notifications_received),
                delay_ps: sum.delay_ps.saturating_add(card.delay_ps),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_all_nodes_with_congestion() {
        let node = |number: u32, congestion: &str| {
            format!("{{\"node\": {number}, \"infiniband\": {{\"doorbells\": 3{congestion}}}}}")
        };
        let of = |marked: u32, received: u32| {
            format!(
                ", \"congestion\": {{\"marked\": {marked}, \"notifications_sent\": 1, \"notifications_received\": {received}, \"delay_ps\": 7}}"
            )
        };
        let nodes = [node(0, &of(2, 0)), node(1, ""), node(2, &of(3, 5))];
        let text = format!("{{\"ending\": \"x\", \"nodes\": [{}]}}", nodes.join(", "));
        let summary: Summary = serde_json::from_str(&text).unwrap();
        let sum = CongestionTotal {
            marked: 5,
            notifications_received: 5,
            delay_ps: 14,
        };
        assert_eq!(summary.congestion(), Some(sum));
        assert_eq!(Summary::default().congestion(), None);
    }
}
