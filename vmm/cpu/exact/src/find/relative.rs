//! Code that is translated once for all of its mappings.
//!
//! Processes run the same pages of programs and libraries at different addresses (address space layout
//! randomization, position-independent executables). User code beyond the first 4 GiB is translated as if
//! its page began at address zero: its addresses are relative to the page's beginning, and the context has
//! the page's address, [`code_page`](belljar_translate::context::Context::code_page). Jumps within the
//! page are linked, as the page stays the same. All other jumps enter through an entry thunk: a few
//! instructions for one RIP that verify the RIP, as blocks with absolute addresses do, set the page's
//! address, and jump to the block.
//!
//! Blocks that extend into a second page have absolute addresses, and so have blocks with addresses that
//! do not move with them. Nodes that share code share relative code in the same way; their entry thunks
//! are their own.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::guest::decode::{Decoded, GuestBlock, MAX_BYTES, MAX_INSTRUCTIONS, decode};
use belljar_translate::guest::mode::{Mode, Origin, Pace};

use crate::code::form::{Form, Sought};
use crate::code::index::BlockEntry;
use crate::code::relative::moves_as_one;
use crate::processor::vcpu::ExactVcpu;

impl ExactVcpu {
    /// The base of the running code's addresses.
    pub(crate) fn origin_of(&self, relative: bool) -> u64 {
        if relative { self.context.code_page } else { 0 }
    }

    /// The block at `rip` and `physical`, relative to its page, translated if necessary; `None` if there
    /// is none. As [`find_block`](Self::find_block).
    pub(crate) fn relative_block(
        &mut self,
        rip: u64,
        physical: u64,
        mode: Mode,
        sought: Sought,
        linked: bool,
    ) -> Option<BlockEntry> {
        let wants_thunk = mode.pace == Pace::Full && sought == Sought::Best && !linked;
        if wants_thunk && let Some(thunk) = self.store.find_thunk(rip, physical, mode) {
            self.show_jumps(rip, mode, &thunk);
            return Some(thunk);
        }
        let known = self.store.find_relative(rip, physical, mode, sought);
        let found = match known {
            Some(found) => found,
            None => match self.share_relative(rip, physical, mode, sought) {
                Some(found) => found,
                None => self.translate_relative(rip, physical, mode)?,
            },
        };
        if wants_thunk && let Some(thunk) = self.store.add_thunk(rip, physical, mode, found) {
            self.show_jumps(rip, mode, &thunk);
        }
        Some(found)
    }

    /// As [`find_shared`](Self::find_shared), for the relative block.
    fn share_relative(
        &mut self,
        rip: u64,
        physical: u64,
        mode: Mode,
        sought: Sought,
    ) -> Option<BlockEntry> {
        let (rip, mode) = self.store.relative_at(rip, mode)?;
        self.find_shared(physical, rip, mode, sought)
    }

    fn translate_relative(&mut self, rip: u64, physical: u64, mode: Mode) -> Option<BlockEntry> {
        let (rip, mode) = self.store.relative_at(rip, mode)?;
        let guest = self.decode_within(rip, physical, mode)?;
        if !self.store.has_room() {
            self.flush_code();
        }
        let origin = Origin {
            first: physical,
            second: None,
        };
        let shared = self.add_shared(&guest, origin, mode, Form::Block);
        self.watch_page(physical);
        let found = match shared {
            Some(found) => found,
            None => self.store.add(&guest, origin, mode, Form::Block),
        };
        self.statistics.translated += guest.instructions.len() as u64;
        self.begin_heats();
        Some(found)
    }

    /// Decodes a block at `rip` in `mode` that lies within its page. If the mode is relative, the block
    /// must be relocatable.
    pub(crate) fn decode_within(&self, rip: u64, physical: u64, mode: Mode) -> Option<GuestBlock> {
        let limit = mode.pace.limit();
        let mut bytes = [0u8; MAX_INSTRUCTIONS * MAX_BYTES];
        let left = ((PAGE_SIZE - physical % PAGE_SIZE) as usize).min(limit * MAX_BYTES);
        if !self.memory.read(physical, &mut bytes[..left]) {
            return None;
        }
        let short = self.decode_to_probe(rip, physical, &bytes[..left], limit);
        if short.is_some() {
            return short.filter(|block| !mode.relative || moves_as_one(block));
        }
        match decode(rip, &bytes[..left], limit, &self.features_now()) {
            Decoded::Block(block) if !mode.relative || moves_as_one(&block) => Some(block),
            _ => None,
        }
    }
}
