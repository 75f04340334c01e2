//! Deliveries to a node, ordered by time, then by request.
//!
//! Deliveries for the same cycle keep the order of their requests, also in a saved node. `Node`
//! adds deliveries, and the run loop takes the due ones.

use belljar_cpu::Cycles;
use belljar_sim::Pending;
use serde::{Deserialize, Serialize};

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
pub(super) type Arrivals = Pending<Cycles, NodeInput>;
