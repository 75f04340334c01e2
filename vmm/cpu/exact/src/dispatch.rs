//! The run loop: find the next block, visit translated code, see why it came back.

use belljar_abi::{STUB_BASE, STUB_LENGTH};
use belljar_cpu::{Access, CpuError, Cycles, Exit, PAGE_SIZE};

use crate::analyse::Features;
use crate::block::{BlockId, Mode, SiteKind};
use crate::context::{ARITHMETIC, EXIT_LOOKUP, EXIT_SIGNAL, jump_index};
use crate::decode::{Decoded, GuestBlock, MAX_BYTES, MAX_INSTRUCTIONS, decode};
use crate::enter::{begin_run, end_run, enter};
use crate::flags::dead_at;
use crate::mmu::{Request, translate};
use crate::signals::Catching;
use crate::state::{Fault, flag, vector};
use crate::vcpu::{Answer, ExactVcpu};

/// Stub instructions that a magic call may take before they count after all.
pub(crate) const FREE_INSTRUCTIONS: i64 = 4096;

/// A jump that wants to be linked to the block found next.
#[derive(Clone, Copy)]
struct PendingLink {
    hole: u64,
    stub: u64,
    generation: u64,
}

/// What became of an exit from translated code.
pub(crate) enum Next {
    /// The guest stands at an instruction boundary, `state.rip`.
    Boundary,
    /// Go on in the middle of a block, at this host address.
    Resume(u64),
    /// The caller is needed; the guest stands at `state.rip`.
    Exit(Exit),
}

impl ExactVcpu {
    /// Runs until the clock shows `until` or something else ends the run.
    pub(crate) fn dispatch(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        self.forget_written_pages();
        let grant = self
            .clock
            .instructions_until(until)
            .min(i64::MAX as u64 / 2) as i64;
        self.granted = grant;
        self.context.count = grant;
        let catching = Catching::start(self.store.range(), &mut self.context)?;
        begin_run(&mut self.context, &self.fx);
        self.refusable = None;
        let exit = match self.take_refusal() {
            Some(exit) => exit,
            None => self.run_loop(),
        };
        end_run(&mut self.fx);
        drop(catching);
        self.clock.retired = self.retired_now();
        self.granted = 0;
        self.context.count = 0;
        self.settle_flags();
        Ok(exit)
    }

    /// What the caller left behind: a refused WRMSR, an interrupt that found no way
    /// into the guest.
    fn take_refusal(&mut self) -> Option<Exit> {
        if let Some(cause) = self.shutdown {
            return Some(Exit::Shutdown(cause));
        }
        if std::mem::take(&mut self.refused)
            && let Next::Exit(exit) = self.deliver(Fault::protection(0))
        {
            return Some(exit);
        }
        None
    }

    fn run_loop(&mut self) -> Exit {
        let mut link: Option<PendingLink> = None;
        let mut single = false;
        loop {
            if let Some(exit) = self.boundary() {
                return exit;
            }
            let shadowed = std::mem::take(&mut self.state.shadow);
            let stepping = self.state.flags & flag::TF != 0;
            let one = shadowed || stepping;
            // The rest of a budget that no whole block fits into.
            let rest = std::mem::take(&mut single) && !one;
            let mode = self.mode(rest || one);
            let found = if rest {
                self.translate_rest(mode)
            } else {
                self.find_block(mode)
            };
            let block = match found {
                Ok(block) => block,
                Err(fault) => {
                    link = None;
                    match self.deliver(fault) {
                        Next::Exit(exit) => return exit,
                        _ => continue,
                    }
                }
            };
            if let Some(wanted) = link.take() {
                self.link(wanted, block, mode);
            }
            let before = self.context.count;
            let entry = self.store.block(block).entry;
            let next = self.visit(entry, &mut link, &mut single);
            if rest {
                self.drop_rest(block);
            }
            match next {
                Next::Exit(exit) => return exit,
                _ if stepping && self.context.count < before => {
                    if let Next::Exit(exit) = self.deliver(Fault::plain(vector::DEBUG)) {
                        return exit;
                    }
                }
                _ => {}
            }
        }
    }

    /// What must happen before the next instruction.
    fn boundary(&mut self) -> Option<Exit> {
        if self.state.halted {
            return Some(Exit::Halt);
        }
        if self.in_free_stub() {
            return None;
        }
        if self.context.count <= 0 {
            return Some(Exit::Deadline);
        }
        if self.window_wanted && belljar_cpu::Vcpu::interruptible(self) {
            return Some(Exit::InterruptWindow);
        }
        None
    }

    fn mode(&self, single: bool) -> Mode {
        Mode {
            user: self.state.is_user(),
            fpu: self.state.has_fpu(),
            single,
            free_stubs: self.free_stubs,
        }
    }

    /// Whether the guest stands among stub instructions that do not count.
    pub(crate) fn in_free_stub(&self) -> bool {
        self.in_free_stub_at(self.state.rip)
    }

    pub(crate) fn in_free_stub_at(&self, rip: u64) -> bool {
        self.free_stubs && rip.wrapping_sub(STUB_BASE) < STUB_LENGTH && self.state.is_user()
    }

    fn link(&mut self, wanted: PendingLink, block: BlockId, mode: Mode) {
        let target = self.store.block(block);
        let chainable = target.pages[1].is_none() && !mode.single;
        if chainable && wanted.generation == self.store.generation() {
            self.store.link(wanted.hole, wanted.stub, block);
        }
    }

    /// The block at `state.rip`, translated if need be.
    fn find_block(&mut self, mode: Mode) -> Result<BlockId, Fault> {
        let rip = self.state.rip;
        let physical = self.fetch_address(rip)?;
        let known = self
            .store
            .find(physical, rip, mode)
            .filter(|&id| self.still_crosses(id));
        let id = match known {
            Some(id) => id,
            None => self.translate_block(rip, physical, mode)?,
        };
        if !mode.single {
            let code = self.store.block(id).indirect_entry;
            self.context.views[usize::from(mode.user)].jump[jump_index(rip)] = code;
        }
        Ok(id)
    }

    /// Whether the second page of a block that crosses is still mapped where it was.
    fn still_crosses(&mut self, id: BlockId) -> bool {
        let block = self.store.block(id);
        let Some(second) = block.pages[1] else {
            return true;
        };
        let next_page = (block.rip | (PAGE_SIZE - 1)).wrapping_add(1);
        self.fetch_address(next_page) == Ok(second)
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
    fn translate_rest(&mut self, mode: Mode) -> Result<BlockId, Fault> {
        let rip = self.state.rip;
        let physical = self.fetch_address(rip)?;
        let limit = self.context.count.clamp(1, MAX_INSTRUCTIONS as i64) as usize;
        if let Some(known) = self.store.find(physical, rip, mode) {
            let clean = self.store.discard(known);
            self.unwatch(clean);
        }
        self.translate_up_to(limit, rip, physical, mode)
    }

    fn drop_rest(&mut self, block: BlockId) {
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
        let features = Features {
            fpu: self.state.has_fpu(),
        };
        let mut bytes = [0u8; (MAX_INSTRUCTIONS + 1) * MAX_BYTES];
        let in_page = (PAGE_SIZE - physical % PAGE_SIZE) as usize;
        let left = in_page.min(limit * MAX_BYTES);
        if !self.memory.read(physical, &mut bytes[..left]) {
            return Err(Fault::protection(0));
        }
        if let Decoded::Block(block) = decode(rip, &bytes[..left], limit, features) {
            return Ok((block, [Some(physical), None]));
        }
        let next = self.fetch_address(rip.wrapping_add(left as u64))?;
        if !self.memory.read(next, &mut bytes[left..left + MAX_BYTES]) {
            return Err(Fault::protection(0));
        }
        match decode(rip, &bytes[..left + MAX_BYTES], 1, features) {
            Decoded::Block(block) => Ok((block, [Some(physical), Some(next)])),
            Decoded::Crosses => Err(Fault::protection(0)),
        }
    }

    /// Visits translated code at `entry`, and again as long as it only needs help
    /// in the middle of a block.
    fn visit(&mut self, entry: u64, link: &mut Option<PendingLink>, single: &mut bool) -> Next {
        let mut at = entry;
        loop {
            self.context.target = at;
            self.statistics.visits += 1;
            enter_translated();
            let next = match self.context.exit_site {
                EXIT_LOOKUP => {
                    self.statistics.lookups += 1;
                    self.state.rip = self.context.scratch[0];
                    Next::Boundary
                }
                EXIT_SIGNAL => self.host_fault(),
                site => self.leave_site(site, link, single),
            };
            match next {
                Next::Resume(address) => at = address,
                other => return other,
            }
        }
    }

    fn leave_site(&mut self, id: u32, link: &mut Option<PendingLink>, single: &mut bool) -> Next {
        let site = self.store.site(id);
        let (block, index) = (site.block, site.index);
        match &site.kind {
            SiteKind::Stop => {
                let block = self.store.block(block);
                self.context.count += i64::from(block.counted);
                self.state.rip = block.rip;
                *single = self.context.count > 0;
                Next::Boundary
            }
            SiteKind::FreeSpent => {
                self.free_stubs = false;
                self.state.rip = self.store.block(block).rip;
                self.flush_translations();
                Next::Boundary
            }
            &SiteKind::Link { target, hole, stub } => {
                self.state.rip = target;
                *link = Some(PendingLink {
                    hole,
                    stub,
                    generation: self.store.generation(),
                });
                Next::Boundary
            }
            &SiteKind::Miss {
                size,
                write,
                form,
                resume,
                bounce,
            } => self.miss(block, index, (size, write, form), (resume, bounce)),
            &SiteKind::Commit { size, resume } => self.commit(block, index, size, resume),
            SiteKind::Helper(instruction) => {
                let instruction = **instruction;
                self.statistics.helpers += 1;
                self.help(block, index, &instruction)
            }
            &SiteKind::Fault { vector } => {
                self.refund(block, index);
                if vector == vector::INVALID_OPCODE {
                    self.note_unimplemented();
                }
                self.deliver(Fault::plain(vector))
            }
        }
    }

    /// Gives back what the block's entry took off for instruction `index` and
    /// those behind it, and puts RIP on it.
    pub(crate) fn refund(&mut self, block: BlockId, index: u8) {
        let block = self.store.block(block);
        if block.counted > 0 {
            self.context.count += i64::from(block.counted - index);
        }
        self.state.rip = block.rip_of(index);
    }

    /// As [`refund`](Self::refund), but instruction `index` is done.
    pub(crate) fn refund_behind(&mut self, block: BlockId, index: u8) {
        let block = self.store.block(block);
        if block.counted > 0 {
            self.context.count += i64::from(block.counted - index) - 1;
        }
        let next = usize::from(index) + 1;
        let offset = block.offsets.get(next).copied().unwrap_or(block.length);
        self.state.rip = block.rip.wrapping_add(u64::from(offset));
    }

    fn host_fault(&mut self) -> Next {
        let pc = self.context.fault_pc;
        let found = self
            .store
            .block_at(pc)
            .and_then(|id| Some((id, self.store.block(id).instruction_at(pc)?)));
        let Some((block, index)) = found else {
            unreachable!("a host fault outside every block, at {pc:#x}");
        };
        self.refund(block, index);
        let fault = match self.context.fault_trap {
            0 => Fault::plain(vector::DIVIDE),
            6 => Fault::invalid_opcode(),
            16 => Fault::plain(vector::X87),
            17 => Fault {
                vector: vector::ALIGNMENT,
                error: Some(0),
                address: None,
            },
            19 => Fault::plain(vector::SIMD),
            _ => Fault::protection(0),
        };
        self.deliver(fault)
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
        let Ok(physical) = translate(&self.memory, &self.state.system, rip, request) else {
            return false;
        };
        if let Some(id) = self.store.find(physical, rip, self.mode(false)) {
            return self.store.block(id).flags_dead;
        }
        let mut bytes = [0u8; MAX_INSTRUCTIONS * MAX_BYTES];
        let left = bytes.len().min((PAGE_SIZE - physical % PAGE_SIZE) as usize);
        let features = Features {
            fpu: self.state.has_fpu(),
        };
        self.memory.read(physical, &mut bytes[..left]) && dead_at(rip, &bytes[..left], features)
    }

    fn forget_written_pages(&mut self) {
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

    /// Whether a question was answered that has not been consumed.
    pub(crate) fn take_answer(&mut self) -> Answer {
        std::mem::replace(&mut self.answer, Answer::None)
    }
}

#[allow(unsafe_code)]
fn enter_translated() {
    // SAFETY: only called between `begin_run` and `end_run`, which point GS at the
    // context, with a target in translated code and the signal stack in place.
    unsafe { enter() };
}
