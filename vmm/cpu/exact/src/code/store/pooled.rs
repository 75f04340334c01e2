//! A node's part in a pool.
//!
//! The store remembers which pages run the pool's code and asks the pool for blocks of no others;
//! its own blocks and the pool's are never linked to each other. `shared` calls this on behalf of
//! the vCPU, after it has compared the page's bytes.

use std::sync::Arc;

use belljar_translate::context::{POOL_HEATS, POOL_SLOTS};
use belljar_translate::guest::decode::GuestBlock;
use belljar_translate::guest::mode::Mode;
use belljar_translate::host::exit_stub::{BlockId, POOLED};

use super::Store;
use crate::code::form::{Form, Sought};
use crate::code::index::Found;
use crate::code::pool::{PageBytes, Pool, address_in};

impl Store {
    /// Runs the pool's code, too, from now on. The store must be empty.
    pub(crate) fn join(&mut self, pool: Arc<Pool>) {
        self.slots = POOL_SLOTS as u32..POOL_SLOTS as u32;
        self.heats = POOL_HEATS as u32..POOL_HEATS as u32;
        self.pool = Some(pool);
    }

    pub(super) fn pool(&self) -> &Pool {
        match &self.pool {
            Some(pool) => pool,
            None => unreachable!("code of a pool in which the node has no part"),
        }
    }

    /// The pool's heat counters in use, by numbers from zero on.
    pub(crate) fn pooled_heats(&self) -> u32 {
        self.pool.as_ref().map_or(0, |pool| pool.heats())
    }

    /// Whether a block in `mode` at `physical` and `rip` may turn out to be the pool's if the
    /// page's bytes are [looked at](Self::share).
    pub(crate) fn may_share(&self, physical: u64, rip: u64, mode: Mode) -> bool {
        self.pool.is_some() && mode.is_poolable() && self.pages.may_share(physical, rip)
    }

    /// Runs the pool's code at `rip` in the page around `physical`, which holds these bytes
    /// and is watched, from now on; if the pool has it or takes it.
    pub(crate) fn share(&mut self, physical: u64, rip: u64, bytes: &PageBytes) -> bool {
        let page = self.pool().page_of(bytes, rip);
        self.pages.share(physical, rip, page);
        page.is_some()
    }

    /// Whether any code in the page around `physical` is shared.
    pub(crate) fn is_shared(&self, physical: u64) -> bool {
        self.pages.is_shared(physical)
    }

    /// Whether the code at `rip` in the page around `physical` is shared.
    pub(crate) fn is_shared_at(&self, physical: u64, rip: u64) -> bool {
        self.pages.pooled(physical, rip).is_some()
    }

    /// Whether it is, and the page holds the bytes for which it is.
    pub(crate) fn still_shares(&self, physical: u64, rip: u64, bytes: &PageBytes) -> bool {
        let page = self.pages.pooled(physical, rip);
        page.is_some_and(|page| self.pool().holds(page, bytes))
    }

    /// Runs no code of the pool's any more in the page around `physical`, nor ever again if
    /// that is the node's `own` now. Returns whether it holds no code any more. The caller
    /// must empty the jump caches.
    pub(crate) fn leave(&mut self, physical: u64, own: bool) -> bool {
        self.departures += 1;
        self.pages.leave(physical, own)
    }

    /// Never runs the pool's code in the page around `physical`.
    pub(crate) fn keep_own(&mut self, physical: u64) {
        self.pages.keep_own(physical);
    }

    /// Grows whenever a page ceases to be shared.
    pub(crate) fn departures(&self) -> u64 {
        self.departures
    }

    pub(super) fn find_pooled(
        &self,
        physical: u64,
        rip: u64,
        mode: Mode,
        sought: Sought,
    ) -> Option<Found> {
        let pool = self.pool.as_ref()?;
        if !mode.is_poolable() {
            return None;
        }
        let page = self.pages.pooled(physical, rip)?;
        pool.find(address_in(page, physical), rip, mode, sought)
    }

    /// Translates `guest`, whose bytes lie at `physical` in a shared page, for all; `None`
    /// when there is no room.
    pub(crate) fn add_pooled(
        &self,
        guest: &GuestBlock,
        physical: u64,
        mode: Mode,
        form: Form,
    ) -> Option<Found> {
        let page = self.pages.pooled(physical, guest.rip)?;
        self.pool()
            .add(guest, address_in(page, physical), mode, form)
    }

    /// The block of the pool's that checks each access by itself where hot block `id`
    /// stands; lets nobody find that one any more, nor group the accesses of `instructions`.
    pub(crate) fn retire(
        &self,
        id: BlockId,
        instructions: impl IntoIterator<Item = u64>,
    ) -> Option<BlockId> {
        debug_assert!(id & POOLED != 0, "a node's own block is discarded");
        self.pool().retire(id, instructions)
    }
}
