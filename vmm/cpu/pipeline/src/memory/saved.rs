//! The state of caches and prefetchers as it is saved.
//!
//! Empty places are left out. Loaded states are untrusted: one that does not fit the processor is refused. `exact`
//! saves and loads it with a vCPU.

use serde::{Deserialize, Serialize};

use super::DataMemory;
use super::prefetch::{StreamEntry, StrideEntry};
use super::shared::SharedPaths;

/// Hands and filled places of one table.
pub(super) type SavedSets = (Vec<u8>, Vec<(u32, u32)>);

/// The state of a [`DataMemory`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedMemory {
    first: SavedSets,
    /// `None` for a level that another core of the node saves.
    farther: Vec<Option<SavedSets>>,
    translations: [SavedSets; 2],
    streams: Vec<StreamEntry>,
    strides: Vec<StrideEntry>,
    leads: Vec<(u64, bool)>,
    history: u64,
    shared: SharedPaths,
}

impl DataMemory {
    /// The state.
    pub fn saved(&self) -> SavedMemory {
        SavedMemory {
            first: self.first.saved(),
            farther: self.farther.iter().map(|level| level.saved()).collect(),
            translations: [0, 1].map(|number| self.translations[number].saved()),
            streams: self.prefetchers.streams.to_vec(),
            strides: self.prefetchers.strides.to_vec(),
            leads: self.prefetchers.leads.to_vec(),
            history: self.history,
            shared: self.shared,
        }
    }

    /// Loads a saved state; false if it does not fit this processor.
    #[must_use]
    pub fn load(&mut self, saved: &SavedMemory) -> bool {
        let prefetchers = &mut self.prefetchers;
        let fits = saved.farther.len() == self.farther.len()
            && saved.streams.len() == prefetchers.streams.len()
            && saved.strides.len() == prefetchers.strides.len()
            && saved.leads.len() == prefetchers.leads.len();
        if !fits {
            return false;
        }
        let tables = [&mut self.first].into_iter().chain(&mut self.translations);
        let contents = [&saved.first].into_iter().chain(&saved.translations);
        let farther = self.farther.iter_mut().zip(&saved.farther);
        let loads = tables.zip(contents).all(|(table, saved)| table.load(saved))
            && farther
                .into_iter()
                .all(|(level, saved)| level.load(saved.as_ref()));
        if !loads {
            return false;
        }
        prefetchers.streams.copy_from_slice(&saved.streams);
        prefetchers.strides.copy_from_slice(&saved.strides);
        prefetchers.leads.copy_from_slice(&saved.leads);
        self.history = saved.history;
        self.shared = saved.shared;
        self.last_page = None;
        true
    }
}
