//! One direction of a link: a queue in front of a wire.

use std::collections::VecDeque;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::frame::wire_bytes;

/// What a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Bits per second, each way.
    pub bandwidth: u64,
    /// Propagation delay.
    pub latency: Span,
}

impl LinkSpec {
    /// The time a frame of `length` bytes occupies the wire.
    pub fn transmission(&self, length: usize) -> Span {
        Span::of_transfer(wire_bytes(length), self.bandwidth)
    }
}

/// What one direction of a link carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatistics {
    /// Frames carried.
    pub frames: u64,
    /// Bytes carried, without preamble, checksum and gap.
    pub bytes: u64,
    /// Frames dropped because the queue was full.
    pub drops: u64,
    /// The longest that the queue was, in bytes.
    pub longest_queue: u64,
    /// Time during which the wire was busy, in picoseconds.
    pub busy_ps: u64,
}

/// A sending port: frames wait in a finite queue for the wire.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    spec: LinkSpec,
    /// Bytes that may wait, the frame on the wire included.
    capacity: u64,
    /// When the wire is free again.
    free_at: Time,
    /// Frames that wait or are on the wire: when they leave the queue, and their bytes.
    waiting: VecDeque<(Time, u64)>,
    queued: u64,
    pub(crate) statistics: LinkStatistics,
}

/// When a frame's bits are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub start: Time,
    /// When its last bit arrives at the other end.
    pub arrival: Time,
}

impl Port {
    pub(crate) fn new(spec: LinkSpec, capacity: u64) -> Self {
        Self {
            spec,
            capacity,
            free_at: Time::ZERO,
            waiting: VecDeque::new(),
            queued: 0,
            statistics: LinkStatistics::default(),
        }
    }

    /// Sends a frame that is ready at `now`; `None` when the queue has no room.
    /// Calls must come in order of time.
    pub(crate) fn send(&mut self, now: Time, length: usize) -> Option<Passage> {
        while self
            .waiting
            .front()
            .is_some_and(|&(leaves, _)| leaves <= now)
        {
            if let Some((_, bytes)) = self.waiting.pop_front() {
                self.queued -= bytes;
            }
        }
        let bytes = length as u64;
        if self.queued.saturating_add(bytes) > self.capacity {
            self.statistics.drops += 1;
            return None;
        }
        let start = now.max(self.free_at);
        let busy = self.spec.transmission(length);
        self.free_at = start + busy;
        self.queued += bytes;
        self.waiting.push_back((self.free_at, bytes));
        self.statistics.frames += 1;
        self.statistics.bytes += bytes;
        self.statistics.busy_ps += busy.as_ps();
        self.statistics.longest_queue = self.statistics.longest_queue.max(self.queued);
        Some(Passage {
            start,
            arrival: self.free_at + self.spec.latency,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ten_gigabit() -> LinkSpec {
        LinkSpec {
            bandwidth: 10_000_000_000,
            latency: Span::from_us(1),
        }
    }

    #[test]
    fn frames_queue_behind_each_other() {
        let mut port = Port::new(ten_gigabit(), 10_000);
        let first = port.send(Time::ZERO, 1514).unwrap();
        let second = port.send(Time::ZERO, 1514).unwrap();
        // 1538 bytes of wire time at 0.8 ns each.
        assert_eq!(
            first.arrival,
            Time::ZERO + Span::from_ps(1_230_400) + Span::from_us(1)
        );
        assert_eq!(second.start, Time::from_ps(1_230_400));
        assert_eq!(
            second.arrival.since(first.arrival),
            Span::from_ps(1_230_400)
        );
    }

    #[test]
    fn a_full_queue_drops_and_drains() {
        let mut port = Port::new(ten_gigabit(), 3_028);
        assert!(port.send(Time::ZERO, 1514).is_some());
        assert!(port.send(Time::ZERO, 1514).is_some());
        assert!(port.send(Time::ZERO, 1514).is_none());
        assert!(port.send(Time::from_ps(1_230_400), 1514).is_some());
        assert_eq!(port.statistics.drops, 1);
    }
}
