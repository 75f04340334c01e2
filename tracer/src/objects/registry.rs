//! A bounded table of a process's objects.
//!
//! It never has more than `MAX_OBJECTS`, and forgotten objects are counted for the run's warnings. Used by `process`
//! and its tables.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};

/// Most objects of a kind in a process.
const MAX_OBJECTS: usize = 1 << 16;

/// Objects by handle. When there are too many, the one with the lowest handle is forgotten: only a hostile guest has
/// that many.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct Registry<T> {
    objects: BTreeMap<u64, T>,
    forgotten: u64,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            forgotten: 0,
        }
    }
}

impl<T> Registry<T> {
    pub(crate) fn get(&self, handle: u64) -> Option<&T> {
        self.objects.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        self.objects.get_mut(&handle)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.objects.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.objects.values_mut()
    }

    pub(crate) fn pop_first(&mut self) -> Option<T> {
        self.objects.pop_first().map(|(_, object)| object)
    }

    /// Adds an object. An object that had the handle before is removed, because handles are reused.
    pub(crate) fn insert(&mut self, handle: u64, object: T) {
        self.objects.insert(handle, object);
        if self.objects.len() > MAX_OBJECTS {
            self.objects.pop_first();
            self.forgotten += 1;
        }
    }

    pub(crate) fn remove(&mut self, handle: u64) -> Option<T> {
        self.objects.remove(&handle)
    }

    /// Returns the number of objects forgotten since the last call.
    pub(crate) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }
}
