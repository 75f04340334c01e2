//! Values that take effect at later times.
//!
//! Values of one time keep the order in which they were added, also in a saved state. Used by devices and nodes for few values at once;
//! [`EventQueue`](crate::EventQueue) is for many.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

/// Values by time, which is virtual time or a processor's cycle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pending<T: Ord, E> {
    waiting: BTreeMap<(T, u64), E>,
    count: u64,
}

impl<T: Ord, E> Default for Pending<T, E> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            count: 0,
        }
    }
}

impl<T: Ord + Copy, E> Pending<T, E> {
    /// Adds a value that takes effect at `at`.
    pub fn push(&mut self, at: T, value: E) {
        self.waiting.insert((at, self.count), value);
        self.count += 1;
    }

    /// The time of the first value.
    pub fn next(&self) -> Option<T> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }

    /// The time of the first value after `now`.
    pub fn next_after(&self, now: T) -> Option<T> {
        let after = (Bound::Excluded((now, u64::MAX)), Bound::Unbounded);
        self.waiting.range(after).next().map(|((at, _), _)| *at)
    }

    /// Takes the first value, if it takes effect at or before `now`.
    pub fn pop_due(&mut self, now: T) -> Option<E> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// The values in their order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &E> {
        self.waiting.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_by_time_then_in_the_order_of_their_addition() {
        let mut pending = Pending::default();
        for (at, value) in [(5, 'b'), (3, 'a'), (5, 'c'), (9, 'd')] {
            pending.push(at, value);
        }
        assert_eq!((pending.next(), pending.next_after(3)), (Some(3), Some(5)));
        assert_eq!(pending.next_after(9), None);
        let due: Vec<char> = std::iter::from_fn(|| pending.pop_due(5)).collect();
        assert_eq!(due, ['a', 'b', 'c']);
        assert_eq!(pending.values().len(), 1);
    }
}
