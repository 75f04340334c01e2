//! Entry thunks of code that is relative to its page; see [`relative`](crate::find::relative).
//!
//! An entry thunk belongs to one RIP, physical address and mode; it leads to the relative block
//! there, or to the dispatcher when that was dropped. `relative` makes thunks when the dispatcher
//! needs a block, and jump caches contain them.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::guest::mode::{Mode, Pace};
use belljar_translate::host::block::Incoming;
use belljar_translate::host::cache::BLOCK_ROOM;
use belljar_translate::host::exit_stub::{BlockId, POOLED};
use belljar_translate::host::stubs;

use super::Store;
use crate::code::form::Sought;
use crate::code::index::BlockEntry;
use crate::code::relative::relative;

/// Host address of the `rel32`, or of the word of a `wide` one, by which an entry thunk jumps to its block.
fn hole_of(thunk: &BlockEntry, wide: bool) -> u64 {
    let hole = if wide {
        stubs::WIDE_THUNK_HOLE
    } else {
        stubs::THUNK_HOLE
    };
    thunk.entry + hole
}

impl Store {
    /// RIP and mode of code at `rip` in `mode`, if it is translated relative to its page.
    pub(crate) fn relative_at(&self, rip: u64, mode: Mode) -> Option<(u64, Mode)> {
        relative(rip, mode).filter(|_| !self.absolute)
    }

    /// As [`find`](Self::find), for the relative block.
    pub(crate) fn find_relative(
        &self,
        rip: u64,
        physical: u64,
        mode: Mode,
        sought: Sought,
    ) -> Option<BlockEntry> {
        let (rip, mode) = self.relative_at(rip, mode)?;
        self.find(physical, rip, mode, sought)
    }

    /// The entry thunk at `rip` to the block at `physical`, if it leads to a block.
    pub(crate) fn find_thunk(&self, rip: u64, physical: u64, mode: Mode) -> Option<BlockEntry> {
        let (_, relative) = self.relative_at(rip, mode)?;
        let thunk = self
            .thunks
            .find((rip, physical, relative.bits()), Sought::Best)?;
        let wide = self.has_wide_thunks();
        let hole = hole_of(&thunk, wide);
        let target = if wide {
            self.memory.word(hole)
        } else {
            self.memory.target(hole)
        };
        (target != self.shared.unknown).then_some(thunk)
    }

    /// True if entry thunks jump through a word: the pool's code may be too far for a `rel32`. It
    /// only changes while there are no thunks.
    fn has_wide_thunks(&self) -> bool {
        self.pool.is_some()
    }

    /// Makes an entry thunk at `rip`, a new one if necessary, lead to `found`, the relative block
    /// there. `None` if there is no room.
    pub(crate) fn add_thunk(
        &mut self,
        rip: u64,
        physical: u64,
        mode: Mode,
        found: BlockEntry,
    ) -> Option<BlockEntry> {
        let (_, relative) = self.relative_at(rip, mode)?;
        let key = (rip, physical, relative.bits());
        let wide = self.has_wide_thunks();
        let thunk = match self.thunks.find(key, Sought::Best) {
            Some(thunk) => thunk,
            None if !self.memory.has_room(BLOCK_ROOM) => return None,
            None => {
                let base = self.memory.next();
                let lookup = self.shared.lookup[usize::from(mode.user)];
                let thunk = stubs::entry_thunk(base, rip, lookup, self.shared.unknown, wide);
                self.memory.place(thunk.asm.code());
                self.thunks.add_thunk(key, thunk.entry, base)
            }
        };
        let jump = Incoming {
            hole: hole_of(&thunk, wide),
            stub: self.shared.unknown,
            plain: false,
            wide,
        };
        if found.id & POOLED != 0 {
            self.lead(jump, found.entry);
            self.pool_thunks.entry(found.id).or_default().push(jump);
        } else {
            self.patch(jump, found.id);
        }
        Some(thunk)
    }

    /// Makes `jump` of block `from` lead through the jump cache to block `id`, which must not be
    /// linked. Both run in the same mode.
    pub(crate) fn bridge(&mut self, jump: Incoming, from: BlockId, id: BlockId) {
        let (source, target) = (self.block(from), self.block(id));
        let way = source.mode.absolute() == target.mode.absolute();
        let whole = source.mode.pace == Pace::Full && source.counted != 0;
        if !way || !whole || jump.plain {
            return;
        }
        let (offset, user) = (target.rip % PAGE_SIZE, target.mode.user);
        let relative = source.mode.relative;
        let rip = if target.mode.relative {
            source.rip / PAGE_SIZE * PAGE_SIZE + offset
        } else {
            target.rip
        };
        if from & POOLED != 0 {
            return self.pool().bridge(jump, rip, user, relative);
        }
        if self.memory.has_room(BLOCK_ROOM) {
            let base = self.memory.next();
            let code = if relative {
                stubs::bridge_within(base, offset, user)
            } else {
                stubs::bridge(base, rip, user)
            };
            self.memory.place(code.code());
            self.memory.patch(jump.hole, base);
        }
    }
}
