//! Sharing pages of code with other nodes through a pool, and ending it.
//!
//! Shared code only runs while the page has the pool's bytes; before the page is written to, or
//! when a difference is found, the node leaves it, clears its jump caches and notifies its other
//! vCPUs. `lookup` and `hot` find shared code here; `access` and `probed` leave it.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::guest::decode::GuestBlock;
use belljar_translate::guest::mode::{Mode, Origin};

use crate::code::form::{Form, Sought};
use crate::code::index::BlockEntry;
use crate::code::news::News;
use crate::code::pool::PageBytes;
use crate::processor::vcpu::ExactVcpu;

impl ExactVcpu {
    /// Checks whether the code at `rip` in the page around `physical` can be shared, if that is
    /// still unknown. Returns the pool's block there, if there is one.
    pub(crate) fn find_shared(
        &mut self,
        physical: u64,
        rip: u64,
        mode: Mode,
        sought: Sought,
    ) -> Option<BlockEntry> {
        if !self.store.may_share(physical, rip, mode) {
            return None;
        }
        // The pool's traces may lead past such an address.
        if self.store.probed.watches_page(self.state.rip) {
            self.store.keep_own(physical);
            return None;
        }
        let bytes = self.page_bytes(physical)?;
        if !self.store.share(physical, rip, &bytes) {
            return None;
        }
        self.watch_page(physical);
        self.statistics.pages_shared += 1;
        self.begin_heats();
        self.store.find(physical, rip, mode, sought)
    }

    /// Translates `guest` for all nodes that share its page, if it is shared.
    pub(crate) fn add_shared(
        &mut self,
        guest: &GuestBlock,
        origin: Origin,
        mode: Mode,
        form: Form,
    ) -> Option<BlockEntry> {
        let physical = origin.first;
        if !mode.is_poolable() || origin.second.is_some() || !self.still_shares(physical, guest.rip)
        {
            return None;
        }
        let found = self.store.add_pooled(guest, physical, mode, form);
        if found.is_none() {
            // Own blocks cannot be linked to the pool's.
            self.leave_shared(physical, true);
        }
        found
    }

    /// True if the code at `rip` in the page around `physical` is shared. This ensures that code
    /// added to the pool was translated from the pool's bytes, even if the page has changed.
    pub(crate) fn still_shares(&mut self, physical: u64, rip: u64) -> bool {
        if !self.store.is_shared_at(physical, rip) {
            return false;
        }
        let bytes = self.page_bytes(physical);
        let still = bytes.is_some_and(|bytes| self.store.still_shares(physical, rip, &bytes));
        if !still {
            self.leave_shared(physical, true);
        }
        still
    }

    /// Stops running shared code in the page around `physical`, which is about to be written or was
    /// written; forever, if that makes it the node's `own`.
    pub(crate) fn leave_shared(&mut self, physical: u64, own: bool) {
        if !self.store.is_shared(physical) {
            return;
        }
        if self.store.leave(physical, own) {
            self.memory.unwatch(physical);
        }
        self.statistics.pages_left += 1;
        for view in &mut self.context.views {
            view.jumps.flush();
        }
        self.store.tell(News::Left);
    }

    fn page_bytes(&self, physical: u64) -> Option<Box<PageBytes>> {
        let mut bytes = Box::new([0; PAGE_SIZE as usize]);
        let page = physical & !(PAGE_SIZE - 1);
        self.memory.read(page, &mut bytes[..]).then_some(bytes)
    }
}
