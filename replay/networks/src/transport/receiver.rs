//! The receiving end of a connection: reassembly in order, acknowledgements, the offered window.
//!
//! Segments that a host processes without a pause are one batch (GRO) with one acknowledgement. Outside of batches every second segment is acknowledged (RFC 5681, 4.2).
//! A segment out of order is acknowledged at once. The offered window begins at 64 KiB and grows by two segments for each received one, as measured on Linux 6.1.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::message::{MessageId, SEGMENT};

/// Segments of the first offered window: 64 KiB.
const FIRST_WINDOW: u64 = (64 << 10) / SEGMENT;
/// Segments of the largest offered window: half of 6 MiB of receive buffer.
const LARGEST_WINDOW: u64 = (3 << 20) / SEGMENT;
/// Segments acknowledged together.
const TOGETHER: u64 = 2;
/// Segments of a batch: 64 KiB.
const BATCH: u64 = FIRST_WINDOW;

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Acknowledgement {
    /// All segments before this one have arrived.
    pub(super) known: u64,
    /// Segments after it that have also arrived (RFC 2018): first and end.
    pub(super) block: (u64, u64),
}

impl Acknowledgement {
    /// Returns the distances of the block's first segment and of its end from the segments that arrived in order; 0 without a block.
    pub(super) fn distances(&self) -> (u32, u32) {
        let known = self.known;
        let distance = |number: u64| number.saturating_sub(known).min(u64::from(u32::MAX)) as u32;
        (distance(self.block.0), distance(self.block.1))
    }

    /// Creates the acknowledgement with a block at these distances.
    pub(super) fn of(known: u64, distances: (u32, u32)) -> Self {
        let far = |distance: u32| known.saturating_add(u64::from(distance));
        Self {
            known,
            block: (far(distances.0), far(distances.1)),
        }
    }
}

/// A message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Expected {
    pub(super) id: MessageId,
    /// The number after its last segment.
    pub(super) end: u64,
}

/// Returns the window offered after `received` segments in order, in segments.
pub(super) fn offered(received: u64) -> u64 {
    let more = received.saturating_sub(FIRST_WINDOW).saturating_mul(2);
    FIRST_WINDOW.saturating_add(more).min(LARGEST_WINDOW)
}

/// The receiving end of a connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Receiver {
    /// All segments before this one have arrived.
    next: u64,
    /// Blocks of later segments that have arrived: first to end.
    later: BTreeMap<u64, u64>,
    /// Incomplete messages, in the order of sending.
    expected: VecDeque<Expected>,
    /// The number before which all segments were acknowledged.
    acknowledged: u64,
}

/// The acknowledgement that a segment causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// An acknowledgement is sent at once.
    Now,
    /// One is sent with the batch that contains the segment.
    Batch,
    /// One is sent with the next segment, or later.
    Later,
}

impl Receiver {
    /// Expects the message whose last segment precedes `end`.
    pub(super) fn expect(&mut self, id: MessageId, end: u64) {
        self.expected.push_back(Expected { id, end });
    }

    /// Handles a segment.
    pub(super) fn take(&mut self, segment: u64) -> Reply {
        if segment < self.next {
            return Reply::Now;
        }
        if segment > self.next {
            self.keep(segment);
            return Reply::Now;
        }
        self.next += 1;
        let filled = self
            .later
            .first_key_value()
            .map(|(first, end)| (*first, *end));
        if let Some((first, end)) = filled {
            if first == self.next {
                self.later.pop_first();
                self.next = end;
            }
            return Reply::Now;
        }
        let ends = self.expected.front().is_some_and(|it| it.end <= self.next);
        let open = self.next - self.acknowledged;
        match ends || open >= TOGETHER {
            true if open >= BATCH => Reply::Now,
            true => Reply::Batch,
            false => Reply::Later,
        }
    }

    /// Keeps a segment that follows a gap.
    fn keep(&mut self, segment: u64) {
        let before = self.later.range(..=segment).next_back();
        let before = before.map(|(first, end)| (*first, *end));
        let first = match before {
            Some((_, end)) if end > segment => return,
            Some((first, end)) if end == segment => first,
            _ => segment,
        };
        let end = self.later.remove(&(segment + 1)).unwrap_or(segment + 1);
        self.later.insert(first, end);
    }

    /// Takes the next complete message, if there is one.
    pub(super) fn whole(&mut self) -> Option<MessageId> {
        let first = self.expected.front().filter(|it| it.end <= self.next)?;
        let id = first.id;
        self.expected.pop_front();
        Some(id)
    }

    /// True if a segment in order has not been acknowledged.
    pub(super) fn owes(&self) -> bool {
        self.next > self.acknowledged
    }

    /// Creates an acknowledgement, with the block that contains `segment`.
    pub(super) fn acknowledge(&mut self, segment: u64) -> Acknowledgement {
        self.acknowledged = self.next;
        let block = self.later.range(..=segment).next_back();
        let block = block
            .filter(|(_, end)| **end > segment)
            .or(self.later.last_key_value());
        Acknowledgement {
            known: self.next,
            block: block.map_or((0, 0), |(first, end)| (*first, *end)),
        }
    }

    /// Returns the number of incomplete messages.
    pub(super) fn expects(&self) -> usize {
        self.expected.len()
    }

    /// True if these values are possible for a receiver with this many segments sent, out of this many queued.
    pub(super) fn is_sound(&self, sent: u64, queued: u64) -> bool {
        let mut end = self.next;
        let blocks = self.later.iter().all(|(first, last)| {
            let apart = *first > end && last > first && *last <= sent;
            end = *last;
            apart
        });
        let mut expected = self.expected.iter();
        blocks
            && self.next <= sent
            && self.acknowledged <= self.next
            && self
                .expected
                .iter()
                .is_sorted_by(|one, other| one.end < other.end)
            && expected.all(|it| it.end > self.next && it.end <= queued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_acknowledged_at_once_with_what_came_after_it() {
        let mut receiver = Receiver::default();
        receiver.expect(7, 6);
        assert_eq!(receiver.take(0), Reply::Later);
        assert_eq!(receiver.take(2), Reply::Now);
        assert_eq!(receiver.take(4), Reply::Now);
        let ack = receiver.acknowledge(4);
        assert_eq!((ack.known, ack.block), (1, (4, 5)));
        assert_eq!(receiver.take(3), Reply::Now);
        assert_eq!(receiver.acknowledge(3).block, (2, 5));
        assert_eq!(receiver.whole(), None);
        assert_eq!(receiver.take(1), Reply::Now);
        assert_eq!(receiver.acknowledge(1).known, 5);
        assert_eq!(receiver.take(5), Reply::Batch);
        assert_eq!((receiver.whole(), receiver.whole()), (Some(7), None));
        assert!(receiver.is_sound(6, 6) && !receiver.is_sound(5, 6));
    }

    #[test]
    fn the_offered_window_grows_with_what_was_received() {
        assert_eq!([0, 45, 100].map(offered), [45, 45, 45 + 2 * 55]);
        assert_eq!(offered(u64::MAX), LARGEST_WINDOW);
    }
}
