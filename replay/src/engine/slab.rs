//! Items with reusable numbers.
//!
//! The latest freed numbers are reused first, so that they stay small. Used by the engine for messages and operations.

use serde::{Deserialize, Serialize};

/// Items by their numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Slab<T> {
    things: Vec<Option<T>>,
    free: Vec<u32>,
    inserted: u64,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            things: Vec::new(),
            free: Vec::new(),
            inserted: 0,
        }
    }
}

impl<T> Slab<T> {
    /// Adds an item, and returns its number.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        self.inserted += 1;
        match self.free.pop() {
            Some(number) => {
                self.things[number as usize] = Some(thing);
                number
            }
            None => {
                self.things.push(Some(thing));
                self.things.len() as u32 - 1
            }
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.things.get(number as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.things.get_mut(number as usize)?.as_mut()
    }

    /// Removes an item, and frees its number.
    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.things.get_mut(number as usize)?.take();
        if thing.is_some() {
            self.free.push(number);
        }
        thing
    }

    /// Returns all items.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.things.iter().flatten()
    }

    /// True if it is a possible state: free numbers have no items and are distinct.
    pub(super) fn is_sound(&self) -> bool {
        let mut free = vec![false; self.things.len()];
        let once = self.free.iter().all(|number| {
            let place = free.get_mut(*number as usize);
            place.is_some_and(|place| !std::mem::replace(place, true))
        });
        let mut things = self.things.iter().zip(&free);
        once && things.all(|(thing, free)| thing.is_none() == *free)
    }

    /// Returns the number of all items ever added.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }
}
