//! Which block stands at a RIP, and what must be known of the code there.

use belljar_abi::{STUB_BASE, STUB_LENGTH};
use belljar_cpu::{Access, PAGE_SIZE, SegmentRegister};

use crate::block::{BlockId, Mode};
use crate::context::{ARITHMETIC, jump_index};
use crate::decode::{Decoded, GuestBlock, MAX_BYTES, MAX_INSTRUCTIONS, decode};
use crate::features::Features;
use crate::flags::dead_at;
use crate::mmu::{Request, translate};
use crate::size::CodeSize;
use crate::state::Fault;
use crate::vcpu::ExactVcpu;

impl ExactVcpu {
    /// The block at `state.rip`, translated if need be.
    pub(crate) fn find_block(&mut self, mode: Mode) -> Result<BlockId, Fault> {
        self.drop_stale_code();
        let rip = self.state.rip;
        let physical = self.fetch_address(self.state.code_address(rip))?;
        let known = self
            .store
            .find(physical, rip, mode)
            .filter(|&id| self.still_crosses(id));
        let id = match known {
            Some(id) => id,
            None => self.translate_block(rip, physical, mode)?,
        };
        if !mode.single {
            self.keep_jumps_to(mode);
            let code = self.store.block(id).indirect_entry;
            self.context.views[usize::from(mode.user)].jump[jump_index(rip)] = code;
        }
        Ok(id)
    }

    /// What decides how code is translated at this moment.
    pub(crate) fn features_now(&self) -> Features {
        Features {
            fpu: self.state.has_fpu(),
            size: self.state.code_size(),
            ..self.features
        }
    }

    /// To be called when a control register changed that decides how code is
    /// translated: what was translated otherwise is void.
    pub(crate) fn settle_features(&mut self) {
        let system = &self.state.system;
        let features = self.features.under(system.cr0, system.cr4, self.state.xcr0);
        if features != self.features {
            self.features = features;
            self.code_is_stale = true;
        }
    }

    fn drop_stale_code(&mut self) {
        if std::mem::take(&mut self.code_is_stale) {
            self.flush_code();
        }
    }

    /// Empties the jump cache of this privilege level when what it leads to was
    /// translated under other circumstances than now hold.
    fn keep_jumps_to(&mut self, mode: Mode) {
        let base = match mode.size {
            CodeSize::Long => 0,
            _ => self.state.segment(SegmentRegister::Cs).base,
        };
        let key = (mode.bits(), base);
        let view = usize::from(mode.user);
        if self.jumps_of[view] != key {
            self.jumps_of[view] = key;
            let lookup = self.store.lookup_code();
            self.context.views[view].flush_jumps(lookup);
        }
    }

    /// Whether the second page of a block that crosses is still mapped where it was.
    fn still_crosses(&mut self, id: BlockId) -> bool {
        let block = self.store.block(id);
        let Some(second) = block.pages[1] else {
            return true;
        };
        let next_page = (self.state.code_address(block.rip) | (PAGE_SIZE - 1)).wrapping_add(1);
        self.fetch_address(self.state.wrap_linear(next_page)) == Ok(second)
    }

    fn fetch_address(&mut self, linear: u64) -> Result<u64, Fault> {
        let request = Request {
            access: Access::Fetch,
            user: self.state.is_user(),
            mark: true,
        };
        translate(&self.memory, &self.state.system, linear, request)
    }

    fn translate_block(&mut self, rip: u64, physical: u64, mode: Mode) -> Result<BlockId, Fault> {
        let limit = if mode.single { 1 } else { MAX_INSTRUCTIONS };
        self.translate_up_to(limit, rip, physical, mode)
    }

    /// A block of no more instructions than the budget has left. Stops come anywhere,
    /// so it is not worth keeping: [`drop_rest`](Self::drop_rest) takes it back.
    pub(crate) fn translate_rest(&mut self, mode: Mode) -> Result<BlockId, Fault> {
        self.drop_stale_code();
        let rip = self.state.rip;
        let physical = self.fetch_address(self.state.code_address(rip))?;
        let limit = self.context.count.clamp(1, MAX_INSTRUCTIONS as i64) as usize;
        if let Some(known) = self.store.find(physical, rip, mode) {
            let clean = self.store.discard(known);
            self.unwatch(clean);
        }
        self.translate_up_to(limit, rip, physical, mode)
    }

    pub(crate) fn drop_rest(&mut self, block: BlockId) {
        let clean = self.store.take_back(block);
        self.unwatch(clean);
    }

    fn unwatch(&mut self, pages: Vec<u64>) {
        for page in pages {
            self.memory.watch(page, false);
        }
    }

    fn translate_up_to(
        &mut self,
        limit: usize,
        rip: u64,
        physical: u64,
        mode: Mode,
    ) -> Result<BlockId, Fault> {
        let (guest, pages) = self.decode_at(rip, physical, limit)?;
        if !self.store.has_room() {
            self.flush_code();
        }
        let free = mode.free_stubs && mode.user && rip.wrapping_sub(STUB_BASE) < STUB_LENGTH;
        for page in pages.into_iter().flatten() {
            self.watch_page(page);
        }
        Ok(self.store.add(&guest, pages, mode, free))
    }

    /// From now on every write to this page of RAM goes through [`Store::forget`](crate::store::Store::forget).
    fn watch_page(&mut self, physical: u64) {
        if self.memory.is_watched(physical) {
            return;
        }
        self.memory.watch(physical, true);
        if let Some(host) = self.memory.host_page(physical) {
            for view in &mut self.context.views {
                view.forbid_writes_to(host);
            }
        }
    }

    fn flush_code(&mut self) {
        for page in self.store.flush() {
            self.memory.watch(page, false);
        }
        let lookup = self.store.lookup_code();
        for view in &mut self.context.views {
            view.flush_jumps(lookup);
        }
    }

    /// Decodes at `rip`; also tells the pages that the bytes are from.
    fn decode_at(
        &mut self,
        rip: u64,
        physical: u64,
        limit: usize,
    ) -> Result<(GuestBlock, [Option<u64>; 2]), Fault> {
        let features = self.features_now();
        let mut bytes = [0u8; (MAX_INSTRUCTIONS + 1) * MAX_BYTES];
        let in_page = (PAGE_SIZE - physical % PAGE_SIZE) as usize;
        let left = in_page.min(limit * MAX_BYTES);
        if !self.memory.read(physical, &mut bytes[..left]) {
            return Err(Fault::protection(0));
        }
        if let Decoded::Block(block) = decode(rip, &bytes[..left], limit, &features) {
            return Ok((block, [Some(physical), None]));
        }
        let next = self.fetch_address(self.state.code_address(rip.wrapping_add(left as u64)))?;
        if !self.memory.read(next, &mut bytes[left..left + MAX_BYTES]) {
            return Err(Fault::protection(0));
        }
        match decode(rip, &bytes[..left + MAX_BYTES], 1, &features) {
            Decoded::Block(block) => Ok((block, [Some(physical), Some(next)])),
            Decoded::Crosses => Err(Fault::protection(0)),
        }
    }

    /// Makes dead arithmetic flags zero at `state.rip`: what they hold depends on
    /// how the code was translated, and no result may.
    pub(crate) fn settle_flags(&mut self) {
        if self.context.flags & ARITHMETIC != 0 && self.flags_are_dead() {
            self.context.flags &= !ARITHMETIC;
        }
    }

    fn flags_are_dead(&mut self) -> bool {
        let rip = self.state.rip;
        let request = Request {
            access: Access::Fetch,
            user: self.state.is_user(),
            mark: false,
        };
        let linear = self.state.code_address(rip);
        let Ok(physical) = translate(&self.memory, &self.state.system, linear, request) else {
            return false;
        };
        if !self.code_is_stale
            && let Some(id) = self.store.find(physical, rip, self.mode(false))
        {
            return self.store.block(id).flags_dead;
        }
        let mut bytes = [0u8; MAX_INSTRUCTIONS * MAX_BYTES];
        let left = bytes.len().min((PAGE_SIZE - physical % PAGE_SIZE) as usize);
        let features = self.features_now();
        self.memory.read(physical, &mut bytes[..left]) && dead_at(rip, &bytes[..left], &features)
    }

    pub(crate) fn forget_written_pages(&mut self) {
        for page in self.memory.take_written() {
            self.forget_code(page, PAGE_SIZE);
        }
    }

    /// Forgets translated code in the `bytes` bytes at `physical`, within a page.
    pub(crate) fn forget_code(&mut self, physical: u64, bytes: u64) {
        let forgotten = self.store.forget(physical, bytes);
        for page in forgotten.clean {
            self.memory.watch(page, false);
        }
        if forgotten.any {
            self.statistics.modified += 1;
            let lookup = self.store.lookup_code();
            for view in &mut self.context.views {
                view.flush_jumps(lookup);
            }
        }
    }
}
