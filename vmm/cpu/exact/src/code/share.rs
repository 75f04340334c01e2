//! Translated code shared by the vCPUs of a node.
//!
//! Translated code finds its vCPU's data through the GS base, so any vCPU may run it. They run one at a time,
//! and the running one has the store. A paused vCPU's jump caches and its list of pages that may be written
//! undetected can become invalid: the store has a list of [changes](crate::code::news), which every vCPU
//! processes before it runs again.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_cpu::CpuError;
use belljar_pipeline::memory::SharedCaches;
use belljar_translate::context::LineFilter;
use belljar_translate::host::cache::CACHE_BYTES;
use belljar_translate::host::shared::Character;

use crate::code::news::News;
use crate::code::pool::CodePool;
use crate::code::store::Store;

type Shelf = Arc<Mutex<Option<Box<Store>>>>;

/// A handle of translated code for vCPUs that share it as clones of one value. They must have the same RAM,
/// instruction set and time model, and never run at the same time. Under a processor model they also share caches, by
/// the order in which they are made.
#[derive(Clone)]
pub struct CodeShare {
    shelf: Shelf,
    /// Size of the code memory.
    bytes: usize,
    pool: Option<CodePool>,
    /// The caches of a processor model that the vCPUs have together.
    caches: Arc<Mutex<SharedCaches>>,
}

impl Default for CodeShare {
    fn default() -> Self {
        Self::with_room(CACHE_BYTES)
    }
}

impl CodeShare {
    /// A share with `bytes` bytes for code, at most 64 MiB. Tables take about three times as much in
    /// addition. When it is full, all code is discarded and translated again.
    pub fn with_room(bytes: usize) -> Self {
        Self {
            shelf: Shelf::default(),
            bytes,
            pool: None,
            caches: Arc::default(),
        }
    }

    /// The shared caches, for the next vCPU.
    pub(crate) fn caches(&self) -> MutexGuard<'_, SharedCaches> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same with `pool`, whose code runs on all matching pages. A pool for other registers or another
    /// time model is not used, and under a cache model no pool is.
    #[must_use]
    pub fn pooled(self, pool: &CodePool) -> Self {
        Self {
            pool: Some(pool.clone()),
            ..self
        }
    }
}

/// A vCPU's share of the code: it includes the store while the vCPU has it.
pub(crate) struct Lease {
    shelf: Shelf,
    store: Option<Box<Store>>,
    /// Number of changes processed so far.
    pub(crate) heard: u64,
    /// Numbers of heat counters up to which this vCPU has initialised them: the node's own, and the pool's.
    pub(crate) heats: u32,
    pub(crate) pooled_heats: u32,
}

impl Lease {
    /// A lease of `share`, whose first user creates the store.
    pub(crate) fn new(
        share: &CodeShare,
        character: &Character,
        filter: Option<LineFilter>,
    ) -> Result<Self, CpuError> {
        let shelf = share.shelf.clone();
        let mut store = shelf.lock().unwrap_or_else(PoisonError::into_inner).take();
        if store.is_none() {
            let mut made = Store::new(character, share.bytes)?;
            let pool = share.pool.as_ref().filter(|_| filter.is_none());
            if let Some(pool) = pool.map_or(Ok(None), |pool| pool.join(character))? {
                made.join(pool);
            }
            if let Some(filter) = filter {
                made.check_lines(filter);
            }
            store = Some(Box::new(made));
        }
        Ok(Self {
            shelf,
            store,
            heard: 0,
            heats: 0,
            pooled_heats: 0,
        })
    }

    /// Takes the store; returns true if another vCPU had it meanwhile.
    pub(crate) fn take(&mut self) -> bool {
        if self.store.is_some() {
            return false;
        }
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        self.store = shelf.take();
        true
    }

    /// Returns the store, if other vCPUs share it.
    pub(crate) fn give_back(&mut self) {
        if Arc::strong_count(&self.shelf) > 1 {
            let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
            *shelf = self.store.take();
        }
    }

    /// Marks all of the node's own heat counters as unused.
    pub(crate) fn restart_heats(&mut self) {
        self.heats = 0;
    }

    /// Reports a change to the other vCPUs. The caller must have processed it itself.
    pub(crate) fn tell(&mut self, news: News) {
        self.news.push(news);
        self.heard = self.news.end();
    }
}

impl Deref for Lease {
    type Target = Store;

    fn deref(&self) -> &Store {
        match &self.store {
            Some(store) => store,
            None => unreachable!("translated code is used by a vCPU that does not run"),
        }
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Store {
        match &mut self.store {
            Some(store) => store,
            None => unreachable!("translated code is used by a vCPU that does not run"),
        }
    }
}
