//! Catching up with what other vCPUs of the node did to the code that they share.
//!
//! A vCPU takes the store in hand before it runs, and hears the news first. `run` and everything that needs the
//! store outside of a run come here.

use std::ops::{Deref, DerefMut};

use belljar_translate::context::{HOT_RUNS, POOL_SLOTS, SLOT_FILLS};

use crate::code::news::News;
use crate::processor::vcpu::ExactVcpu;

/// A vCPU with the translated code in hand, which it gives back at the end, however that comes.
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
    /// Does something for which the translated code must be in hand.
    pub(crate) fn with_code<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        work(&mut self.hold_code())
    }

    /// Takes the translated code in hand for as long as the answer lives.
    pub(crate) fn hold_code(&mut self) -> InHand<'_> {
        if self.store.take() {
            self.hear();
        }
        InHand(self)
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
        self.addresses.slot_asked[slot as usize] = self.retired_now().max(1);
    }

    /// Whether this vCPU fills a slot of the pool's for the first time; it may from now on.
    pub(crate) fn is_new_slot(&mut self, slot: u32) -> bool {
        let is_new = (slot as usize) < POOL_SLOTS && self.addresses.slot_asked[slot as usize] == 0;
        if is_new {
            self.begin_slot(slot);
        }
        is_new
    }
}
