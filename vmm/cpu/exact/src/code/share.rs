//! Translated code that the vCPUs of a node share.
//!
//! Translated code finds all that belongs to a vCPU through the GS base, so any vCPU may
//! run it. They run one at a time: the store is in the hands of the one that runs. What
//! each keeps for itself of the code, its jump caches, and what it may write unseen, may
//! be void when it comes back: the store keeps a list of [news](crate::code::news) for that, which every vCPU
//! goes through before it runs again.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_cpu::CpuError;
use belljar_translate::host::cache::CACHE_BYTES;
use belljar_translate::host::shared::Character;

use crate::code::news::News;
use crate::code::pool::CodePool;
use crate::code::store::Store;

type Shelf = Arc<Mutex<Option<Box<Store>>>>;

/// What vCPUs are given that share their translated code: clones of one value. They must
/// have the same RAM, instruction set and time model, and never run at the same time.
#[derive(Clone)]
pub struct CodeShare {
    shelf: Shelf,
    /// Room for code.
    bytes: usize,
    pool: Option<CodePool>,
}

impl Default for CodeShare {
    fn default() -> Self {
        Self::with_room(CACHE_BYTES)
    }
}

impl CodeShare {
    /// A share with room for `bytes` bytes of code, 64 MiB at most. Tables take some
    /// three times as much besides it. When it is full, all is translated anew.
    pub fn with_room(bytes: usize) -> Self {
        Self {
            shelf: Shelf::default(),
            bytes,
            pool: None,
        }
    }

    /// The same, with a part in `pool`, whose code is run wherever it fits. A pool for other
    /// registers or another time model is left alone, and so is any under a cache model.
    #[must_use]
    pub fn pooled(self, pool: &CodePool) -> Self {
        Self {
            pool: Some(pool.clone()),
            ..self
        }
    }
}

/// A vCPU's part in the code: the store itself, while it is in its hands.
pub(crate) struct Lease {
    shelf: Shelf,
    store: Option<Box<Store>>,
    /// News heard so far.
    pub(crate) heard: u64,
    /// Heat counters of this vCPU that have their first value, up to this one: the node's
    /// own, and the pool's.
    pub(crate) heats: u32,
    pub(crate) pooled_heats: u32,
}

impl Lease {
    /// A part in `share`, whose first owner makes the store.
    pub(crate) fn new(
        share: &CodeShare,
        character: &Character,
        has_caches: bool,
    ) -> Result<Self, CpuError> {
        let shelf = share.shelf.clone();
        let mut store = shelf.lock().unwrap_or_else(PoisonError::into_inner).take();
        if store.is_none() {
            let mut made = Store::new(character, share.bytes)?;
            let pool = share.pool.as_ref().filter(|_| !has_caches);
            if let Some(pool) = pool.map_or(Ok(None), |pool| pool.join(character))? {
                made.join(pool);
            }
            if has_caches {
                made.check_lines();
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

    /// Takes the store in hand; whether it was in other hands meanwhile.
    pub(crate) fn take(&mut self) -> bool {
        if self.store.is_some() {
            return false;
        }
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        self.store = shelf.take();
        true
    }

    /// Gives the store back, if there is anybody else who may want it.
    pub(crate) fn give_back(&mut self) {
        if Arc::strong_count(&self.shelf) > 1 {
            let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
            *shelf = self.store.take();
        }
    }

    /// All of the node's own heat counters are unused again.
    pub(crate) fn restart_heats(&mut self) {
        self.heats = 0;
    }

    /// Tells the others. Whoever tells has done by itself what follows from it.
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
