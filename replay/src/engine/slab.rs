//! Things by numbers that are used again once a thing is gone.
//!
//! Numbers are those that were given back last, so that they times small. Called by the engine for messages and operations.

/// Things by their numbers.
#[derive(Clone, Debug)]
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
    /// Keeps a thing, and gives it a number.
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

    /// Gives a thing up, and its number with it.
    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.things.get_mut(number as usize)?.take();
        if thing.is_some() {
            self.free.push(number);
        }
        thing
    }

    /// How many things there ever were.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }
}
