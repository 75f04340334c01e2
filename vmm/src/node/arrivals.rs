//! Deliveries to a node, ordered by time, then by request.
//!
//! Deliveries for the same cycle keep the order of their requests, also in a saved node. `Node`
//! adds deliveries, and the run loop takes the due ones.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use belljar_cpu::Cycles;

/// One delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NodeInput {
    /// A frame from the wire.
    Frame(Vec<u8>),
    /// A packet of the InfiniBand fabric.
    Packet(Vec<u8>),
    /// Bytes for the control console.
    Control(Vec<u8>),
    /// Bytes for the serial console.
    Console(Vec<u8>),
}

/// Pending deliveries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Arrivals {
    waiting: BTreeMap<(Cycles, u64), NodeInput>,
    count: u64,
}

impl Arrivals {
    pub(super) fn push(&mut self, at: Cycles, arrival: NodeInput) {
        self.waiting.insert((at, self.count), arrival);
        self.count += 1;
    }

    pub(super) fn next(&self) -> Option<Cycles> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }

    /// The first delivery after `now`.
    pub(super) fn next_after(&self, now: Cycles) -> Option<Cycles> {
        let mut later = self.waiting.range((now.saturating_add(1), 0)..);
        later.next().map(|((at, _), _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Cycles) -> Option<NodeInput> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
