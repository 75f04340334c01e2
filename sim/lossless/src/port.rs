//! One direction of a link: the wire, and its figures.
//!
//! The wire carries one packet at a time, in the order of calls, which come in order of time. The fabric calls it for each packet and link.

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

/// Figures of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFigures {
    /// Packets sent.
    pub packets: u64,
    /// Their bytes, with all headers and checksums.
    pub bytes: u64,
    /// Time during which the wire was busy, in picoseconds.
    pub busy_ps: u64,
    /// Time during which packets were ready and could not leave, summed over packets, in picoseconds.
    pub wait_ps: u64,
}

/// The sending side of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Port {
    /// Time at which the wire becomes idle.
    free_at: Time,
    pub(crate) figures: PortFigures,
}

impl Port {
    /// Sends a packet that is ready at `now`, and does not begin before `late` later. Returns the time of its first bit. Calls come in
    /// order of time.
    pub(crate) fn send(&mut self, now: Time, late: Span, busy: Span, bytes: u64) -> Time {
        let start = (now + late).max(self.free_at);
        self.free_at = start + busy;
        let figures = &mut self.figures;
        figures.packets += 1;
        figures.bytes = figures.bytes.saturating_add(bytes);
        figures.busy_ps = figures.busy_ps.saturating_add(busy.as_ps());
        let wait = start.since(now + late);
        figures.wait_ps = figures.wait_ps.saturating_add(wait.as_ps());
        start
    }
}
