//! The ends of flows, with the first one available, where each end may change at any time.
//!
//! A binary heap with the position of each flow: a change moves one flow. Ties are in the order of numbers. Used by networks of flows.

use belljar_sim::Time;

use crate::message::MessageId;

/// The position of a flow outside of the heap.
const NOWHERE: u32 = u32::MAX;

/// Ends of flows, by flow.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowEnds {
    /// A binary heap: the end at a position is not before the end at half the position.
    heap: Vec<(Time, MessageId)>,
    /// By flow, its position in the heap.
    places: Vec<u32>,
}

impl FlowEnds {
    /// Returns the first end, with its flow.
    pub(super) fn first(&self) -> Option<(Time, MessageId)> {
        self.heap.first().copied()
    }

    /// Takes the first end.
    pub(super) fn pop(&mut self) -> Option<(Time, MessageId)> {
        let first = self.first()?;
        self.places[first.1 as usize] = NOWHERE;
        let last = self.heap.pop()?;
        if last != first {
            self.heap[0] = last;
            self.sink(0);
        }
        Some(first)
    }

    /// Sets the end of a flow, replacing an earlier one.
    pub(super) fn set(&mut self, id: MessageId, time: Time) {
        if self.places.len() <= id as usize {
            self.places.resize(id as usize + 1, NOWHERE);
        }
        let mut place = self.places[id as usize] as usize;
        if place == NOWHERE as usize {
            place = self.heap.len();
            self.heap.push((time, id));
        }
        self.heap[place] = (time, id);
        let place = self.rise(place);
        self.sink(place);
    }

    /// Moves the end at a position towards the front, and returns its new position.
    fn rise(&mut self, mut place: usize) -> usize {
        let own = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= own {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, own);
        place
    }

    /// Moves the end at a position towards the back.
    fn sink(&mut self, mut place: usize) {
        let own = self.heap[place];
        loop {
            let mut child = 2 * place + 1;
            if self
                .heap
                .get(child + 1)
                .is_some_and(|other| *other < self.heap[child])
            {
                child += 1;
            }
            match self.heap.get(child) {
                Some(first) if *first < own => self.put(place, *first),
                _ => break,
            }
            place = child;
        }
        self.put(place, own);
    }

    fn put(&mut self, place: usize, end: (Time, MessageId)) {
        self.heap[place] = end;
        self.places[end.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use belljar_sim::{Random, Seed};

    use super::*;

    #[test]
    fn the_first_end_is_at_hand_whatever_changes() {
        let mut random = Random::new(Seed(1), "ends", 0);
        let (mut ends, mut all) = (FlowEnds::default(), BTreeMap::new());
        for _ in 0..20_000 {
            if random.next_u64().is_multiple_of(3) {
                let first = ends.pop();
                let expected = all.iter().map(|(id, time)| (*time, *id)).min();
                assert_eq!(first, expected);
                first.map(|(_, id)| all.remove(&id));
            } else {
                let id = (random.next_u64() % 60) as u32;
                // A small range of times, so that many are equal.
                let time = Time::from_ps(random.next_u64() % 40);
                ends.set(id, time);
                all.insert(id, time);
            }
            assert_eq!(ends.heap.len(), all.len());
        }
    }
}
