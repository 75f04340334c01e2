//! Looks up or translates the block at a RIP.
//!
//! A block is only found by the physical address of its bytes and its mode; every page with bytes of a block is
//! watched. `dispatch` calls `find_block` if the jump caches have no entry; `system` and `interface` report changes
//! that affect translation here.

use belljar_abi::{STUB_BASE, STUB_LENGTH};
use belljar_cpu::{Access, PAGE_SIZE, SegmentRegister};
use belljar_translate::context::ARITHMETIC;
use belljar_translate::guest::decode::{Decoded, GuestBlock, MAX_BYTES, MAX_INSTRUCTIONS, decode};
use belljar_translate::guest::features::Features;
use belljar_translate::guest::flags::{dead_at, to_rflags};
use belljar_translate::guest::mode::{Mode, Origin, Pace};
use belljar_translate::guest::size::CodeSize;
use belljar_translate::host::exit_stub::BlockId;

use crate::code::form::{Form, Sought};
use crate::code::index::BlockEntry;
use crate::code::news::News;
use crate::processor::mmu::{TranslationRequest, map, translate};
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::addresses::FETCHED;

impl ExactVcpu {
    /// The block at `state.rip`, translated if necessary. With `plain`, not a hot one; `linked` if only a jump of its
    /// page needs it.
    pub(crate) fn find_block(
        &mut self,
        mode: Mode,
        sought: Sought,
        linked: bool,
    ) -> Result<BlockEntry, Fault> {
        let rip = self.state.rip;
        let physical = self.fetch_address(self.state.code_address(rip))?;
        if let Some(found) = self.relative_block(rip, physical, mode, sought, linked) {
            return Ok(found);
        }
        let known = self.store.find(physical, rip, mode, sought);
        let known = known.filter(|found| !found.crosses || self.still_crosses(found.id));
        let found = match known {
            Some(found) => found,
            None => match self.find_shared(physical, rip, mode, sought) {
                Some(found) => found,
                None => self.translate_block(rip, physical, mode)?,
            },
        };
        if mode.pace == Pace::Full && sought == Sought::Best {
            self.show_jumps(rip, mode, &found);
        }
        Ok(found)
    }

    /// Makes indirect jumps to `rip` lead to `found`, which is for `mode`.
    pub(crate) fn show_jumps(&mut self, rip: u64, mode: Mode, found: &BlockEntry) {
        self.keep_jumps_to(mode);
        let jumps = &mut self.context.views[usize::from(mode.user)].jumps;
        jumps.set(rip, found.indirect_entry);
    }

    /// Host address of the code to which an indirect jump to `state.rip` would lead, if the jump cache has code for
    /// `mode`.
    pub(crate) fn known_jump(&self, mode: Mode) -> Option<u64> {
        let view = usize::from(mode.user);
        let holds =
            mode.size == CodeSize::Long && self.addresses.jumps_of[view] == (mode.bits(), 0);
        holds.then(|| self.context.views[view].jumps.find(self.state.rip))?
    }

    /// True if both jump caches have 64-bit code for the present `mode`.
    pub(crate) fn knows_both_sides(&self, mode: Mode) -> bool {
        let is_of = |user| {
            let mode = Mode {
                user,
                pace: Pace::Full,
                ..mode
            };
            self.addresses.jumps_of[usize::from(user)] == (mode.bits(), 0)
        };
        mode.size == CodeSize::Long && is_of(false) && is_of(true)
    }

    /// The present features.
    pub(crate) fn features_now(&self) -> Features {
        Features {
            fpu: self.state.has_fpu(),
            size: self.state.code_size(),
            nulls: self.state.nulls(),
            ..self.identity.features
        }
    }

    /// Updates the features after a change of a control register that affects translation, or after features were
    /// renumbered.
    pub(crate) fn settle_features(&mut self) {
        let system = &self.state.system;
        self.identity.features =
            self.identity
                .features
                .under(system.cr0, system.cr4, self.state.xcr0);
        self.identity.features_number = match self.store.number_of(&self.identity.features) {
            Some(number) => number,
            None => {
                self.flush_code();
                self.store.forget_features();
                self.store.number_of(&self.identity.features).unwrap_or(0)
            }
        };
    }

    /// Clears the jump cache of this privilege level if its code is for another mode than the present one.
    fn keep_jumps_to(&mut self, mode: Mode) {
        let base = match mode.size {
            CodeSize::Long => 0,
            _ => self.state.segment(SegmentRegister::Cs).base,
        };
        let key = (mode.bits(), base);
        let view = usize::from(mode.user);
        if self.addresses.jumps_of[view] != key {
            self.addresses.jumps_of[view] = key;
            self.context.views[view].jumps.flush();
        }
    }

    /// True if the second page of a block that crosses pages is still mapped to the same address.
    fn still_crosses(&mut self, id: BlockId) -> bool {
        let block = self.store.block(id);
        let Some(second) = block.origin.second else {
            return true;
        };
        let next_page = (self.state.code_address(block.rip) | (PAGE_SIZE - 1)).wrapping_add(1);
        self.fetch_address(self.state.wrap_linear(next_page)) == Ok(second)
    }

    /// The physical address of code at `linear`, if it was fetched under the present translations.
    fn known_fetch(&self, linear: u64) -> Option<u64> {
        let index = (linear >> 12) as usize % FETCHED;
        let (page, physical) = self.addresses.fetched[usize::from(self.state.is_user())][index];
        (page == linear >> 12).then_some(physical | (linear % PAGE_SIZE))
    }

    pub(crate) fn fetch_address(&mut self, linear: u64) -> Result<u64, Fault> {
        if let Some(known) = self.known_fetch(linear) {
            return Ok(known);
        }
        let user = self.state.is_user();
        let request = TranslationRequest {
            access: Access::Fetch,
            user,
            mark: true,
        };
        let mapping = map(&self.memory, &self.state.system, linear, request)?;
        self.note_mapping(linear, &mapping, request.access);
        let page = mapping.physical & !(PAGE_SIZE - 1);
        let index = (linear >> 12) as usize % FETCHED;
        self.addresses.fetched[usize::from(user)][index] = (linear >> 12, page);
        Ok(mapping.physical)
    }

    fn translate_block(
        &mut self,
        rip: u64,
        physical: u64,
        mode: Mode,
    ) -> Result<BlockEntry, Fault> {
        let (guest, origin) = self.decode_at(rip, physical, mode.pace.limit())?;
        if !self.store.has_room() {
            self.flush_code();
        }
        let free = mode.free_stubs && mode.user && rip.wrapping_sub(STUB_BASE) < STUB_LENGTH;
        let form = if free { Form::Stub } else { Form::Block };
        let shared = self.add_shared(&guest, origin, mode, form);
        for page in origin.each() {
            self.watch_page(page);
        }
        let found = match shared {
            Some(found) => found,
            None => self.store.add(&guest, origin, mode, form),
        };
        self.statistics.translated += guest.instructions.len() as u64;
        self.begin_heats();
        Ok(found)
    }

    /// From now on, every write to this page of RAM calls [`Store::forget`](crate::code::store::Store::forget).
    pub(crate) fn watch_page(&mut self, physical: u64) {
        if self.memory.is_watched(physical) {
            return;
        }
        self.memory.watch(physical);
        let second = self.memory.second_page(physical);
        for host in self.memory.host_page(physical).into_iter().chain(second) {
            for view in &mut self.context.views {
                view.forbid_writes_to(host);
            }
            self.flush_lines();
            self.flush_slots();
            self.store.tell(News::Watched(host));
        }
    }

    pub(crate) fn flush_code(&mut self) {
        self.statistics.flushes += 1;
        self.flush_slots();
        for page in self.store.flush() {
            self.memory.unwatch(page);
        }
        for view in &mut self.context.views {
            view.jumps.flush();
        }
        self.store.restart_heats();
        self.store.tell(News::Flushed);
    }

    /// Decodes a block at `rip`, and returns the addresses of its bytes as well.
    pub(crate) fn decode_at(
        &mut self,
        rip: u64,
        physical: u64,
        limit: usize,
    ) -> Result<(GuestBlock, Origin), Fault> {
        if let Some(block) = self.decode_to_probe_at(rip, physical, limit) {
            let origin = Origin {
                first: physical,
                second: None,
            };
            return Ok((block, origin));
        }
        self.decode_whole(rip, physical, limit)
    }

    /// As [`decode_at`](Self::decode_at), also beyond probes.
    pub(crate) fn decode_whole(
        &mut self,
        rip: u64,
        physical: u64,
        limit: usize,
    ) -> Result<(GuestBlock, Origin), Fault> {
        let features = self.features_now();
        let mut bytes = [0u8; (MAX_INSTRUCTIONS + 1) * MAX_BYTES];
        let in_page = (PAGE_SIZE - physical % PAGE_SIZE) as usize;
        let left = in_page.min(limit * MAX_BYTES);
        if !self.memory.read(physical, &mut bytes[..left]) {
            return Err(Fault::protection(0));
        }
        if let Decoded::Block(block) = decode(rip, &bytes[..left], limit, &features) {
            let origin = Origin {
                first: physical,
                second: None,
            };
            return Ok((block, origin));
        }
        let next = self.fetch_address(self.state.code_address(rip.wrapping_add(left as u64)))?;
        if !self.memory.read(next, &mut bytes[left..left + MAX_BYTES]) {
            return Err(Fault::protection(0));
        }
        match decode(rip, &bytes[..left + MAX_BYTES], 1, &features) {
            Decoded::Block(block) => {
                let origin = Origin {
                    first: physical,
                    second: Some(next),
                };
                Ok((block, origin))
            }
            Decoded::Crosses => Err(Fault::protection(0)),
        }
    }

    /// Sets dead arithmetic flags to zero at `state.rip`: their values depend on the translation, and results must
    /// not.
    pub(crate) fn settle_flags(&mut self) {
        if self.context.flags & ARITHMETIC != 0 {
            let dead = match self.stops.uncovered_at {
                Some((rip, dead)) if rip == self.state.rip => dead,
                _ => self.dead_flags(),
            };
            self.context.flags &= !to_rflags(dead);
        }
    }

    fn dead_flags(&mut self) -> u32 {
        let rip = self.state.rip;
        let request = TranslationRequest {
            access: Access::Fetch,
            user: self.state.is_user(),
            mark: false,
        };
        let linear = self.state.code_address(rip);
        let walk = || translate(&self.memory, &self.state.system, linear, request).ok();
        let Some(physical) = self.known_fetch(linear).or_else(walk) else {
            return 0;
        };
        let mode = self.mode(Pace::Full);
        if let Some(dead) = self.store.dead_flags(physical, rip, mode) {
            return dead;
        }
        let mut bytes = [0u8; (MAX_INSTRUCTIONS + 1) * MAX_BYTES];
        let most = MAX_INSTRUCTIONS * MAX_BYTES;
        let left = most.min((PAGE_SIZE - physical % PAGE_SIZE) as usize);
        let features = self.features_now();
        if !self.memory.read(physical, &mut bytes[..left]) {
            return 0;
        }
        let mut known = left;
        if left < MAX_BYTES {
            let next = linear.wrapping_add(left as u64);
            let next = translate(&self.memory, &self.state.system, next, request);
            let more = &mut bytes[left..left + MAX_BYTES];
            known += next.map_or(0, |next| {
                usize::from(self.memory.read(next, more)) * MAX_BYTES
            });
        }
        dead_at(rip, &bytes[..known], left, &features)
    }

    pub(crate) fn forget_written_pages(&mut self) {
        for page in self.memory.take_written() {
            self.forget_code(page, PAGE_SIZE);
        }
    }

    /// Drops translated code in the `bytes` bytes at `physical`, within a page.
    pub(crate) fn forget_code(&mut self, physical: u64, bytes: u64) {
        // A device writes whole pages, whose new contents may be shared again.
        self.leave_shared(physical, bytes < PAGE_SIZE);
        self.store.probed.forget(physical / PAGE_SIZE);
        let forgotten = self.store.forget(physical, bytes);
        for page in forgotten.clean {
            self.memory.unwatch(page);
        }
        self.statistics.modified += forgotten.blocks;
        for (rip, code, user) in forgotten.jumps {
            self.context.views[usize::from(user)]
                .jumps
                .forget(rip, code);
            self.store.tell(News::Forgotten { rip, code, user });
        }
    }
}
