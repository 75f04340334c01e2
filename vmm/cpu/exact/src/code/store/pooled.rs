//! Use of a pool by a node.
//!
//! The store records which pages run the pool's code, and only looks up blocks of those pages in
//! the pool; its own blocks and the pool's are never linked to each other. `shared` calls this for
//! the vCPU, after comparing the page's bytes.

use std::sync::Arc;

use belljar_cpu::PAGE_SIZE;
use belljar_translate::context::{POOL_HEATS, POOL_SLOTS};
use belljar_translate::guest::decode::GuestBlock;
use belljar_translate::guest::mode::Mode;
use belljar_translate::host::exit_stub::{BlockId, POOLED};

use super::Store;
use crate::code::form::{Form, Sought};
use crate::code::index::BlockEntry;
use crate::code::pool::{PageBytes, Pool, address_in};

impl Store {
    /// Uses `pool` from now on. The store must be empty.
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

    /// Number of the pool's heat counters in use, which are numbered from zero.
    pub(crate) fn pooled_heats(&self) -> u32 {
        self.pool.as_ref().map_or(0, |pool| pool.heats())
    }

    /// True if a block in `mode` at `physical` and `rip` may be the pool's, which a
    /// [comparison](Self::share) of the page's bytes decides.
    pub(crate) fn may_share(&self, physical: u64, rip: u64, mode: Mode) -> bool {
        self.pool.is_some() && mode.is_poolable() && self.pages.may_share(physical, rip)
    }

    /// Runs the pool's code at `rip` in the page around `physical`, which has these bytes and is
    /// watched. Returns true if the pool has the page or adds it.
    pub(crate) fn share(&mut self, physical: u64, rip: u64, bytes: &PageBytes) -> bool {
        let page = self.pool().page_of(bytes, rip);
        self.pages.share(physical, rip, page);
        self.recent.forget();
        page.is_some()
    }

    /// True if any code in the page around `physical` is shared.
    pub(crate) fn is_shared(&self, physical: u64) -> bool {
        self.pages.is_shared(physical)
    }

    /// True if the code at `rip` in the page around `physical` is shared.
    pub(crate) fn is_shared_at(&self, physical: u64, rip: u64) -> bool {
        self.pages.pooled(physical, rip).is_some()
    }

    /// True if it is shared, and the page still has the shared bytes.
    pub(crate) fn still_shares(&self, physical: u64, rip: u64, bytes: &PageBytes) -> bool {
        let page = self.pages.pooled(physical, rip);
        page.is_some_and(|page| self.pool().holds(page, bytes))
    }

    /// Stops running the pool's code in the page around `physical`; forever, if the page is now the
    /// node's `own`. Returns true if it contains no code any more. The caller must clear the jump
    /// caches.
    pub(crate) fn leave(&mut self, physical: u64, own: bool) -> bool {
        self.departures += 1;
        self.recent.forget();
        self.close_thunks(physical);
        self.pages.leave(physical, own)
    }

    /// Excludes the page around `physical` from the pool forever.
    pub(crate) fn keep_own(&mut self, physical: u64) {
        self.pages.keep_own(physical);
    }

    /// A number that grows whenever a page ceases to be shared.
    pub(crate) fn departures(&self) -> u64 {
        self.departures
    }

    pub(super) fn find_pooled(
        &self,
        physical: u64,
        rip: u64,
        mode: Mode,
        sought: Sought,
    ) -> Option<BlockEntry> {
        let pool = self.pool.as_ref()?;
        if !mode.is_poolable() {
            return None;
        }
        let page = self.pages.pooled(physical, rip)?;
        pool.find(address_in(page, physical), rip, mode, sought)
    }

    /// Translates `guest`, whose bytes are at `physical` in a shared page, into the pool; `None` if
    /// there is no room.
    pub(crate) fn add_pooled(
        &self,
        guest: &GuestBlock,
        physical: u64,
        mode: Mode,
        form: Form,
    ) -> Option<BlockEntry> {
        let page = self.pages.pooled(physical, guest.rip)?;
        self.pool()
            .add(guest, address_in(page, physical), mode, form)
    }

    /// Removes hot block `id` of the pool from lookups, and excludes the accesses of `instructions`
    /// from groups. Returns the pool's block at the same address that checks each access by itself.
    pub(crate) fn retire(
        &mut self,
        id: BlockId,
        instructions: impl IntoIterator<Item = u64>,
    ) -> Option<BlockId> {
        debug_assert!(id & POOLED != 0, "a node's own block is discarded");
        let plain = self.pool().retire(id, instructions)?;
        self.lead_thunks(id, plain);
        Some(plain)
    }

    /// Makes entry thunks that lead to block `from` of the pool lead to its block `to`.
    pub(crate) fn lead_thunks(&mut self, from: BlockId, to: BlockId) {
        let Some(thunks) = self.pool_thunks.remove(&from) else {
            return;
        };
        let entry = self.pool().block(to).entry;
        for &thunk in &thunks {
            self.lead(thunk, entry);
        }
        self.pool_thunks.entry(to).or_default().extend(thunks);
    }

    /// Makes entry thunks to the pool's blocks of the page around `physical` lead to the dispatcher.
    fn close_thunks(&mut self, physical: u64) {
        let pages = self.pages.pool_pages(physical);
        let thunks = std::mem::take(&mut self.pool_thunks);
        for (id, thunks) in thunks {
            let page = self.pool().block(id).origin.first / PAGE_SIZE;
            if !pages.iter().any(|&left| u64::from(left) == page) {
                self.pool_thunks.insert(id, thunks);
                continue;
            }
            for thunk in thunks {
                self.lead(thunk, thunk.stub);
            }
        }
    }
}
