//! Translated code that the vCPUs of a node share.
//!
//! Translated code finds all that belongs to a vCPU through the GS base, so any vCPU may
//! run it. They run one at a time: the store is in the hands of the one that runs. What
//! each keeps for itself of the code, its jump caches, and what it may write unseen, may
//! be void when it comes back: the store keeps a list of news for that, which every vCPU
//! goes through before it runs again.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_cpu::CpuError;

use crate::code::pool::{Character, CodePool};
use crate::code::store::Store;
use crate::processor::vcpu::ExactVcpu;
use crate::translate::context::{HOT_RUNS, POOL_SLOTS, SLOT_FILLS};
use crate::translate::host::cache::CACHE_BYTES;

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
    heard: u64,
    /// Heat counters of this vCPU that have their first value, up to this one: the node's
    /// own, and the pool's.
    heats: u32,
    pooled_heats: u32,
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
    fn take(&mut self) -> bool {
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

/// What other vCPUs must know before they run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The code at that host address, for that RIP, is void.
    Forgotten { rip: u64, code: u64, user: bool },
    /// The page of RAM at that host address holds code now: writes must be seen.
    Watched(u64),
    /// A page is not shared with other nodes any more: jumps may lead to its code.
    Left,
    /// All code is void, and what was numbered starts over.
    Flushed,
}

/// The latest news, numbered.
#[derive(Debug, Default)]
pub(crate) struct NewsLog {
    dropped: u64,
    kept: VecDeque<News>,
}

impl NewsLog {
    /// News that are kept. Who missed more does as if everything had changed.
    const KEPT: usize = 256;

    fn push(&mut self, news: News) {
        if self.kept.len() == Self::KEPT {
            self.kept.pop_front();
            self.dropped += 1;
        }
        self.kept.push_back(news);
    }

    fn end(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }

    /// What came after the first `heard`; `None` when some of it is not kept.
    fn since(&self, heard: u64) -> Option<Vec<News>> {
        let skipped = heard.checked_sub(self.dropped)?;
        Some(self.kept.iter().skip(skipped as usize).copied().collect())
    }
}

impl ExactVcpu {
    /// Does something for which the translated code must be in hand.
    pub(crate) fn with_code<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.take_code();
        let result = work(self);
        self.store.give_back();
        result
    }

    /// Takes the translated code in hand, until `store` is given back.
    pub(crate) fn take_code(&mut self) {
        if self.store.take() {
            self.hear();
        }
    }

    /// Catches up with what other vCPUs did to the code.
    fn hear(&mut self) {
        let heard = self.store.heard;
        let end = self.store.news.end();
        if heard != end {
            self.store.heard = end;
            match self.store.news.since(heard) {
                Some(news) if !news.contains(&News::Flushed) => self.follow(&news),
                _ => self.forget_all_code(),
            }
        }
        self.begin_heats();
    }

    fn follow(&mut self, news: &[News]) {
        let mut watched = false;
        for &one in news {
            match one {
                News::Forgotten { rip, code, user } => {
                    self.context.views[usize::from(user)]
                        .jumps
                        .forget(rip, code);
                }
                News::Watched(host) => {
                    watched = true;
                    for view in &mut self.context.views {
                        view.forbid_writes_to(host);
                    }
                }
                News::Left => {
                    for view in &mut self.context.views {
                        view.jumps.flush();
                    }
                }
                News::Flushed => self.forget_all_code(),
            }
        }
        if watched {
            self.flush_lines();
            self.flush_slots();
        }
    }

    fn forget_all_code(&mut self) {
        self.store.heats = 0;
        for view in &mut self.context.views {
            view.flush_tlb();
            view.jumps.flush();
        }
        self.flush_lines();
        // Not only those in use: they may be fewer now.
        self.context.slots.flush();
        self.settle_features();
    }

    /// Gives the heat counters that others put into use their first value.
    pub(crate) fn begin_heats(&mut self) {
        let used = self.store.heats();
        let begun = std::mem::replace(&mut self.store.heats, used.end).max(used.start);
        if begun < used.end {
            self.context.heat[begun as usize..used.end as usize].fill(HOT_RUNS);
        }
        let used = self.store.pooled_heats();
        let begun = std::mem::replace(&mut self.store.pooled_heats, used);
        self.context.heat[begun as usize..used as usize].fill(HOT_RUNS);
    }

    /// Whether another node put this heat counter into use since this vCPU looked last; it
    /// has its first value now.
    pub(crate) fn is_new_heat(&mut self, heat: u32) -> bool {
        let is_new = (self.store.pooled_heats..self.store.pooled_heats()).contains(&heat);
        if is_new {
            self.begin_heats();
        }
        is_new
    }

    /// Gives a slot its first values.
    pub(crate) fn begin_slot(&mut self, slot: u32) {
        let memory = &mut self.context.slots.each[slot as usize];
        (memory.limit, memory.fills) = (0, SLOT_FILLS);
        // Zero is for those that were not begun.
        self.slot_asked[slot as usize] = self.retired_now().max(1);
    }

    /// Whether this vCPU fills a slot of the pool's for the first time; it may from now on.
    pub(crate) fn is_new_slot(&mut self, slot: u32) -> bool {
        let is_new = (slot as usize) < POOL_SLOTS && self.slot_asked[slot as usize] == 0;
        if is_new {
            self.begin_slot(slot);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_kept_for_who_is_not_far_behind() {
        let mut log = NewsLog::default();
        assert_eq!(log.since(0), Some(Vec::new()));
        for page in 0..300 {
            log.push(News::Watched(page));
        }
        assert_eq!(log.end(), 300);
        assert_eq!(log.since(298).unwrap(), [298, 299].map(News::Watched));
        assert_eq!(log.since(300), Some(Vec::new()));
        assert_eq!(log.since(44).unwrap().len(), NewsLog::KEPT);
        assert_eq!(log.since(43), None);
    }
}
