//! Processing of other vCPUs' changes to the code that a node's vCPUs share.
//!
//! A vCPU takes the store before it runs, and first processes the changes. `run` and all functions that need
//! the store outside of a run use this module.

use std::ops::{Deref, DerefMut};

use belljar_translate::context::{HOT_RUNS, POOL_SLOTS, SLOT_FILLS};

use crate::code::news::News;
use crate::processor::vcpu::ExactVcpu;

/// A vCPU with the translated code, which it returns when this is dropped.
pub(crate) struct InHand<'vcpu>(&'vcpu mut ExactVcpu);

impl Deref for InHand<'_> {
    type Target = ExactVcpu;

    fn deref(&self) -> &ExactVcpu {
        self.0
    }
}

impl DerefMut for InHand<'_> {
    fn deref_mut(&mut self) -> &mut ExactVcpu {
        self.0
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.store.give_back();
    }
}

impl ExactVcpu {
    /// Calls `work` with the translated code taken.
    pub(crate) fn with_code<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        work(&mut self.hold_code())
    }

    /// Takes the translated code for the lifetime of the result.
    pub(crate) fn hold_code(&mut self) -> InHand<'_> {
        if self.store.take() {
            self.hear();
        }
        InHand(self)
    }

    /// Processes the changes that other vCPUs made to the code.
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
        // Not only the slots in use: there may be fewer now.
        self.context.slots.flush();
        self.settle_features();
    }

    /// Initialises the heat counters that other vCPUs or nodes began to use.
    pub(crate) fn begin_heats(&mut self) {
        let used = self.store.heats();
        let begun = std::mem::replace(&mut self.store.heats, used.end).max(used.start);
        if begun < used.end {
            self.context.heat[begun as usize..used.end as usize].fill(HOT_RUNS);
            self.forget_path_slots(begun..used.end);
            if begun == used.start {
                self.forget_path_entries();
            }
        }
        let used = self.store.pooled_heats();
        let begun = std::mem::replace(&mut self.store.pooled_heats, used);
        self.context.heat[begun as usize..used as usize].fill(HOT_RUNS);
        self.forget_path_slots(begun..used);
    }

    /// True if another node began to use this heat counter since this vCPU's last check; it is initialised now.
    pub(crate) fn is_new_heat(&mut self, heat: u32) -> bool {
        let is_new = (self.store.pooled_heats..self.store.pooled_heats()).contains(&heat);
        if is_new {
            self.begin_heats();
        }
        is_new
    }

    /// Initialises a slot.
    pub(crate) fn begin_slot(&mut self, slot: u32) {
        let memory = &mut self.context.slots.each[slot as usize];
        (memory.limit, memory.fills) = (0, SLOT_FILLS);
        // Zero marks uninitialised slots.
        self.addresses.slot_asked[slot as usize] = self.retired_now().max(1);
    }

    /// True if this vCPU fills a slot of the pool's for the first time; the slot is initialised now.
    pub(crate) fn is_new_slot(&mut self, slot: u32) -> bool {
        let is_new = (slot as usize) < POOL_SLOTS && self.addresses.slot_asked[slot as usize] == 0;
        if is_new {
            self.begin_slot(slot);
        }
        is_new
    }
}
