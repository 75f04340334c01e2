//! The event queue and its total order.
//!
//! No two events share a key, so their order never depends on who inserted first, and with it on host
//! threads. Used by the fabric for frames on their way.

use std::collections::BTreeMap;

use crate::Time;

/// The total order of events: time first; at one time by kind, then by source,
/// then by the source's own sequence number. No two events share a key, so the
/// order never depends on who inserted first, and with it on host threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// When the event happens.
    pub time: Time,
    /// Rank of its kind among events of one time; smaller first.
    pub kind: u8,
    /// Who caused it.
    pub source: u32,
    /// Counts the source's events.
    pub sequence: u64,
}

/// Events in their total order.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    events: BTreeMap<EventKey, E>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            events: BTreeMap::new(),
        }
    }
}

impl<E> EventQueue<E> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event. Returns the event that was there when the key was taken
    /// already: a defect of the caller, whose sequence numbers must not repeat.
    pub fn push(&mut self, key: EventKey, event: E) -> Option<E> {
        self.events.insert(key, event)
    }

    /// The key of the first event.
    pub fn next_key(&self) -> Option<EventKey> {
        self.events.keys().next().copied()
    }

    /// The time of the first event.
    pub fn next_time(&self) -> Option<Time> {
        self.next_key().map(|key| key.time)
    }

    /// Takes the first event when it happens before `end`.
    pub fn pop_before(&mut self, end: Time) -> Option<(EventKey, E)> {
        let entry = self.events.first_entry()?;
        (entry.key().time < end).then(|| entry.remove_entry())
    }

    /// All events in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&EventKey, &E)> {
        self.events.iter()
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
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
            assert!(queue.push(keys[index], index).is_none());
        }
        let popped: Vec<usize> = std::iter::from_fn(|| queue.pop_before(Time::from_ps(2)))
            .map(|(_, event)| event)
            .collect();
        assert_eq!(popped, [0, 1, 2]);
        assert_eq!(queue.next_time(), Some(Time::from_ps(2)));
    }
}
