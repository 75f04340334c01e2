//! Lookups of blocks by RIP, physical address and mode.
//!
//! The pool's blocks come first, then the node's own. Results for code at the ends of runs are kept, as the next turn of another vCPU
//! often needs the same. `find::lookup` calls this whenever the jump caches lack a RIP.

use belljar_translate::guest::mode::{Mode, Pace};

use super::Store;
use crate::code::form::Sought;
use crate::code::index::BlockEntry;
use crate::code::recent::RecentResults;

/// Number of recent lookups of a kind that are kept.
const RECENT: usize = 4096;

/// Recent results of lookups.
#[derive(Debug, Default)]
pub(super) struct RecentLookups {
    /// Code of paces at the ends of runs.
    blocks: RecentResults<BlockEntry, RECENT>,
    /// Dead flags of plain blocks.
    dead_flags: RecentResults<u32, RECENT>,
}

impl RecentLookups {
    /// Discards all results: blocks are gone, or others come first.
    pub(super) fn forget(&mut self) {
        self.blocks.change();
        self.dead_flags.change();
    }
}

impl Store {
    /// The block for `rip` in `mode` whose first byte is at `physical`, of the `sought` form.
    pub(crate) fn find(
        &self,
        physical: u64,
        rip: u64,
        mode: Mode,
        sought: Sought,
    ) -> Option<BlockEntry> {
        let key = (rip, physical, mode.bits());
        let search = || {
            self.find_pooled(physical, rip, mode, sought)
                .or_else(|| self.index.find(key, sought))
        };
        // Code of these paces has no hot form, which a later lookup would have to find.
        match mode.pace {
            Pace::Full => search(),
            Pace::Slow | Pace::Piece(_) => self.recent.blocks.find(key, search),
        }
    }

    /// The dead flags of the plain block for `rip` in `mode` at `physical`, if it exists and lies in one page.
    pub(crate) fn dead_flags(&self, physical: u64, rip: u64, mode: Mode) -> Option<u32> {
        let relative = self.relative_at(rip, mode);
        let known = relative.and_then(|(rip, mode)| self.dead_flags_of(physical, rip, mode));
        known.or_else(|| self.dead_flags_of(physical, rip, mode))
    }

    fn dead_flags_of(&self, physical: u64, rip: u64, mode: Mode) -> Option<u32> {
        let key = (rip, physical, mode.bits());
        self.recent.dead_flags.find(key, || {
            let known = self.find(physical, rip, mode, Sought::Plain);
            // The second page of another block may have been mapped anew.
            let known = known.filter(|found| !found.crosses)?;
            Some(self.block(known.id).dead_flags)
        })
    }
}
