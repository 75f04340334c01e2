//! Levels of caches: a core's own ones, and ones that several cores of a node share.
//!
//! The cores of a node run one after another, each for a slice of virtual time, so the order of their accesses to a
//! shared level is part of the virtual machine, and the lock never waits. The first core of each group saves the shared
//! contents. `DataMemory` has the levels; the owner of the cores makes them in order with one [`SharedCaches`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::saved::SavedSets;
use super::sets::{Filled, Sets};
use crate::processor::{CacheParameters, MemoryParameters};

/// A level that several cores have.
type Common = Arc<Mutex<Sets>>;

/// The shared caches of a node's cores, which join in the order of their numbers.
#[derive(Debug, Default)]
pub struct SharedCaches {
    cores: u32,
    /// By level, the cache of the group that the last core is in.
    last: Vec<Option<Common>>,
}

impl SharedCaches {
    /// The number of the next core, and its levels after the first one.
    pub(super) fn join(&mut self, parameters: &MemoryParameters) -> (u32, Vec<Level>) {
        let core = self.cores;
        self.cores += 1;
        self.last.resize(parameters.levels.len(), None);
        let levels = parameters.levels.iter().skip(1).zip(&mut self.last);
        let levels = levels.map(|(cache, last)| Level::of(core, cache, last));
        (core, levels.collect())
    }
}

/// A level of a core's caches.
#[derive(Debug)]
pub(super) enum Level {
    /// The core's own one.
    Own(Sets),
    /// One that other cores use too.
    Shared {
        sets: Common,
        /// True in the first core of the group, which saves the contents.
        saves: bool,
    },
}

impl Level {
    /// The level of core number `core`. `last` is the cache of the last group.
    fn of(core: u32, cache: &CacheParameters, last: &mut Option<Common>) -> Self {
        let Some(cores) = cache.cores.filter(|&cores| cores > 1) else {
            return Self::Own(Sets::of(cache));
        };
        let saves = core.is_multiple_of(cores);
        let common = match last.take().filter(|_| !saves) {
            Some(common) => common,
            None => Arc::new(Mutex::new(Sets::of(cache))),
        };
        *last = Some(common.clone());
        Self::Shared {
            sets: common,
            saves,
        }
    }

    /// As [`Sets::touch`].
    #[inline]
    pub(super) fn touch(&mut self, line: u64) -> Option<usize> {
        match self {
            Self::Own(sets) => sets.touch(line),
            Self::Shared { sets, .. } => locked(sets).touch(line),
        }
    }

    /// As [`Sets::insert`].
    #[inline]
    pub(super) fn insert(&mut self, line: u64) -> Filled {
        match self {
            Self::Own(sets) => sets.insert(line),
            Self::Shared { sets, .. } => locked(sets).insert(line),
        }
    }

    /// True if the level has the line. Changes nothing.
    #[inline]
    pub(super) fn holds(&self, line: u64) -> bool {
        match self {
            Self::Own(sets) => sets.find(line).is_some(),
            Self::Shared { sets, .. } => locked(sets).find(line).is_some(),
        }
    }

    /// The contents; `None` if another core saves them.
    pub(super) fn saved(&self) -> Option<SavedSets> {
        match self {
            Self::Own(sets) => Some(sets.saved()),
            Self::Shared { sets, saves } => saves.then(|| locked(sets).saved()),
        }
    }

    /// Loads saved contents; false if they do not fit.
    pub(super) fn load(&mut self, saved: Option<&SavedSets>) -> bool {
        match (self, saved) {
            (Self::Own(sets), Some(saved)) => sets.load(saved),
            (Self::Shared { sets, saves: true }, Some(saved)) => locked(sets).load(saved),
            (Self::Shared { saves: false, .. }, None) => true,
            _ => false,
        }
    }
}

fn locked(sets: &Common) -> MutexGuard<'_, Sets> {
    sets.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
