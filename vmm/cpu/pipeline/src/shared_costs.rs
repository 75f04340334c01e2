//! Costs of paths, shared by all vCPUs of a process that model the same processor.
//!
//! Nodes run the same programs, so most of a vCPU's new paths are known to others. A cost is a function of its path;
//! who computes it first has no effect. Keys are hashes of 128 bits of the path's code and predictions. `paths` asks
//! before it computes.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// Independently locked parts; a power of two.
const PARTS: usize = 16;
/// Entries of a part from which on none is added.
const MOST: usize = 1 << 16;

/// The cost of a path's last block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathCost {
    /// Its ticks.
    pub ticks: u32,
    /// Its recurrent loads.
    pub recurrent: u64,
}

/// A hash of 128 bits.
pub(crate) type PathKey = (u64, u64);

/// The key of these words.
pub(crate) fn key_of(words: impl Iterator<Item = PathKey>) -> PathKey {
    let mut hashers = [DefaultHasher::new(), DefaultHasher::new()];
    hashers[1].write_u64(1);
    for word in words {
        for hasher in &mut hashers {
            word.hash(hasher);
        }
    }
    (hashers[0].finish(), hashers[1].finish())
}

/// Costs by paths.
#[derive(Clone, Default)]
pub(crate) struct SharedCosts {
    parts: Arc<[Mutex<BTreeMap<PathKey, PathCost>>; PARTS]>,
}

/// Snapshots are found by the text of a processor, so computed costs are no part of it.
impl fmt::Debug for SharedCosts {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("SharedCosts")
    }
}

/// Computed costs do not make processors differ.
impl PartialEq for SharedCosts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SharedCosts {}

impl SharedCosts {
    fn part(&self, key: PathKey) -> &Mutex<BTreeMap<PathKey, PathCost>> {
        &self.parts[key.0 as usize % PARTS]
    }

    /// The cost of a path, if it is known.
    pub(crate) fn find(&self, key: PathKey) -> Option<PathCost> {
        let part = self.part(key).lock();
        part.unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .copied()
    }

    /// Records the cost of a path, unless there are too many.
    pub(crate) fn add(&self, key: PathKey, cost: PathCost) {
        let part = self.part(key).lock();
        let mut part = part.unwrap_or_else(PoisonError::into_inner);
        if part.len() < MOST {
            part.insert(key, cost);
        }
    }
}
