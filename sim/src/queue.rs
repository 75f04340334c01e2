//! The event queue and its total order.
//!
//! No two events have the same key, so their order does not depend on the order of insertion, and thus not on host threads. Used by the fabric for frames in
//! transit.

use crate::Time;
use crate::calendar::{Calendar, Timed};

/// The total order of events: time first; at one time by kind, then by source, then by the source's own sequence number. No two events have the same key, so
/// the order does not depend on the order of insertion, and thus not on host threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// Time of the event.
    pub time: Time,
    /// Rank of its kind among events of one time; smaller first.
    pub kind: u8,
    /// Source of the event.
    pub source: u32,
    /// Counts the source's events.
    pub sequence: u64,
}

impl Timed for (EventKey, u32) {
    fn time(&self) -> Time {
        self.0.time
    }
}

/// Events in their total order.
///
/// Keys are sorted; events are not moved with their keys.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    /// With the index of each event.
    keys: Calendar<(EventKey, u32)>,
    events: Vec<Option<E>>,
    /// Free indices.
    free: Vec<u32>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            keys: Calendar::default(),
            events: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<E> EventQueue<E> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event. Its key must be unique: repeated sequence numbers are a bug of the caller, and the order of such events is unspecified.
    pub fn push(&mut self, key: EventKey, event: E) {
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place as usize] = Some(event);
                place
            }
            None => {
                self.events.push(Some(event));
                self.events.len() as u32 - 1
            }
        };
        self.keys.push((key, place));
    }

    /// The key of the first event.
    #[inline]
    pub fn next_key(&self) -> Option<EventKey> {
        self.keys.first().map(|(key, _)| *key)
    }

    /// The time of the first event.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        self.keys.first().map(|(key, _)| key.time)
    }

    /// Removes the first event if it is before `end`.
    pub fn pop_before(&mut self, end: Time) -> Option<(EventKey, E)> {
        if self.next_time()? >= end {
            return None;
        }
        let (key, place) = self.keys.pop()?;
        self.free.push(place);
        let event = self.events.get_mut(place as usize)?.take()?;
        Some((key, event))
    }

    /// All events in their order.
    pub fn iter(&self) -> impl Iterator<Item = (EventKey, &E)> {
        let mut keys: Vec<(EventKey, u32)> = self.keys.iter().copied().collect();
        keys.sort_unstable();
        let event = |place: u32| self.events.get(place as usize)?.as_ref();
        keys.into_iter()
            .filter_map(move |(key, place)| Some((key, event(place)?)))
    }

    /// The number of waiting events.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if no events wait.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_key_whatever_the_order_of_insertion() {
        let key = |ps, kind, source, sequence| EventKey {
            time: Time::from_ps(ps),
            kind,
            source,
            sequence,
        };
        let keys = [
            key(1, 0, 0, 0),
            key(1, 0, 1, 0),
            key(1, 1, 0, 1),
            key(2, 0, 0, 2),
        ];
        let mut queue = EventQueue::new();
        for index in [2, 0, 3, 1] {
            queue.push(keys[index], index);
        }
        let popped: Vec<usize> = std::iter::from_fn(|| queue.pop_before(Time::from_ps(2)))
            .map(|(_, event)| event)
            .collect();
        assert_eq!(popped, [0, 1, 2]);
        assert_eq!(queue.next_time(), Some(Time::from_ps(2)));
    }
}
