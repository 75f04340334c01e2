//! Messages on their way, by the order in which they were sent.
//!
//! Most that are on their way were sent last, so they lie in a row: finding one takes no search. Called by `transport`, whose state it is part of.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::Transit;

/// Messages by the order of sending.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Transits {
    /// That of the first in the row.
    first: u64,
    /// From the first that is on its way on; those that have come are gone.
    row: VecDeque<Option<Transit>>,
}

impl Transits {
    /// Adds the next message: its place in the order.
    pub(super) fn push(&mut self, transit: Transit) -> u64 {
        self.row.push_back(Some(transit));
        self.sent() - 1
    }

    /// How many were ever added.
    pub(super) fn sent(&self) -> u64 {
        self.first.saturating_add(self.row.len() as u64)
    }

    pub(super) fn get(&self, own: u64) -> Option<&Transit> {
        let place = usize::try_from(own.checked_sub(self.first)?).ok()?;
        self.row.get(place)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, own: u64) -> Option<&mut Transit> {
        let place = usize::try_from(own.checked_sub(self.first)?).ok()?;
        self.row.get_mut(place)?.as_mut()
    }

    /// A message has come.
    pub(super) fn remove(&mut self, own: u64) {
        let place = own.checked_sub(self.first);
        let place = place.and_then(|place| self.row.get_mut(usize::try_from(place).ok()?));
        if let Some(place) = place {
            *place = None;
        }
        while let Some(None) = self.row.front() {
            self.row.pop_front();
            self.first += 1;
        }
    }

    /// Whether none is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// All that are on their way.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Transit> {
        self.row.iter().flatten()
    }
}
