//! The run loop: find the next block, visit translated code, see why it came back.

use belljar_abi::{STUB_BASE, STUB_LENGTH};
use belljar_cpu::{CpuError, Cycles, Exit, PAGE_SIZE, SegmentRegister, Vcpu};

use crate::block::{BlockId, Incoming, Mode, Pace, SiteId, SiteKind};
use crate::context::{EXIT_LOOKUP, EXIT_SIGNAL};
use crate::enter::{Door, begin_run, end_run};
use crate::rename::Renamed;
use crate::signals::Catching;
use crate::size::CodeSize;
use crate::state::{Fault, cr4, flag, vector};
use crate::vcpu::{Answer, ExactVcpu};

/// A jump that wants to be linked to the block found next.
#[derive(Clone, Copy)]
struct PendingLink {
    hole: u64,
    stub: u64,
    generation: u64,
    plain: bool,
}

/// Where a run goes on, and how.
struct Course {
    link: Option<PendingLink>,
    /// The next block must check each access by itself.
    plain: bool,
    /// The next instruction must run by itself.
    single: bool,
    /// A hot block's instructions are more than the budget covers: none is entered any more.
    slow: bool,
    /// So are a plain block's: the rest goes in pieces.
    rest: bool,
    /// The power of two of the largest of these.
    largest: u8,
}

impl Course {
    fn new() -> Self {
        Self {
            link: None,
            plain: false,
            single: false,
            slow: false,
            rest: false,
            largest: u8::MAX,
        }
    }

    /// How to go on with a budget that covers so many instructions, if they are cheap.
    fn pace(&self, budget: i64) -> Pace {
        match (self.rest, self.slow) {
            (true, _) => Pace::piece_of(budget, self.largest),
            (_, true) => Pace::Slow,
            _ => Pace::Full,
        }
    }
}

/// What became of an exit from translated code.
pub(crate) enum Next {
    /// The guest stands at an instruction boundary, `state.rip`.
    Boundary,
    /// As `Boundary`, and the block there must check each access by itself.
    Plain,
    /// As `Boundary`, and the budget may cover the next instruction alone.
    Single,
    /// Go on in the middle of a block, at this host address.
    Resume(u64),
    /// The caller is needed; the guest stands at `state.rip`.
    Exit(Exit),
}

impl ExactVcpu {
    /// Runs until the clock shows `until` or something else ends the run.
    pub(crate) fn dispatch(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        self.forget_written_pages();
        self.settle_clock();
        let grant = self
            .clock
            .ticks_until(until)
            .min(self.ticks_to_stop())
            .min(i64::MAX as u64 / 2) as i64;
        self.granted = grant;
        self.context.count = grant;
        let catching = Catching::start(
            self.store.range(),
            self.store.leave_code(),
            &mut self.context,
        )?;
        self.flush_lines();
        begin_run(&mut self.context, &self.fx);
        self.refusable = None;
        let exit = match self.take_refusal() {
            Some(exit) => exit,
            None => self.run_loop(),
        };
        end_run(&mut self.fx);
        drop(catching);
        self.settle_clock();
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
        let cheapest = i64::from(self.cheapest());
        let mut course = Course::new();
        loop {
            if let Some(exit) = self.boundary() {
                return exit;
            }
            let shadowed = std::mem::take(&mut self.state.shadow);
            let holds_traps = std::mem::take(&mut self.state.holds_traps);
            let resumes = self.state.flags & flag::RF;
            self.state.flags &= !flag::RF;
            let watched = self.has_breakpoints();
            if watched
                && resumes == 0
                && !holds_traps
                && let Some(fault) = self.code_breakpoint()
            {
                match self.deliver(fault) {
                    Next::Exit(exit) => return exit,
                    _ => continue,
                }
            }
            let stepping = self.state.flags & flag::TF != 0;
            let checked = self.checks_alignment();
            let single = std::mem::take(&mut course.single);
            let mode = self.mode(if shadowed || stepping || checked || watched || single {
                Pace::Piece(0)
            } else {
                course.pace(self.context.count / cheapest)
            });
            let plain = std::mem::take(&mut course.plain);
            let found = self.find_block(mode, plain);
            let found = match found {
                Ok(found) => found,
                Err(fault) => {
                    course.link = None;
                    match self.deliver(fault) {
                        Next::Exit(exit) => return exit,
                        _ => continue,
                    }
                }
            };
            if let Some(wanted) = course.link.take() {
                self.link(wanted, found.id, mode);
            }
            if checked && let Some(fault) = self.misalignment() {
                match self.deliver(fault) {
                    Next::Exit(exit) => return exit,
                    _ => continue,
                }
            }
            if mode.size.is_segmented() {
                self.show_segment_bases();
            }
            let hits = if watched { self.data_breakpoints() } else { 0 };
            let traps = stepping || hits != 0;
            let before = self.retired_now();
            let next = self.visit(found.entry, &mut course);
            course.plain = matches!(next, Next::Plain)
                || course.link.as_ref().is_some_and(|wanted| wanted.plain);
            course.single = matches!(next, Next::Single);
            match next {
                Next::Exit(exit) if self.retired_now() == before => {
                    // The same instruction may run again.
                    self.state.flags |= resumes;
                    return exit;
                }
                Next::Exit(exit) if traps => {
                    if let Some(exit) = self.trap_behind(exit, hits, stepping) {
                        return exit;
                    }
                }
                Next::Exit(exit) => return exit,
                _ if traps && self.retired_now() != before && !self.state.holds_traps => {
                    if let Next::Exit(exit) = self.trap(hits, stepping) {
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
        if (self.context.window_wanted != 0 && self.interruptible())
            || (self.nmi_window_wanted && self.takes_nmi())
        {
            return Some(Exit::InterruptWindow);
        }
        None
    }

    pub(crate) fn mode(&self, pace: Pace) -> Mode {
        let size = self.state.code_size();
        let skew = match size {
            CodeSize::Long | CodeSize::Flat32 => 0,
            _ => self.state.segment(SegmentRegister::Cs).base % PAGE_SIZE,
        };
        Mode {
            size,
            skew: skew as u16,
            user: self.state.is_user(),
            fpu: self.state.has_fpu(),
            pace,
            free_stubs: self.free_stubs,
        }
    }

    /// Puts the segments' bases where translated code looks for them.
    fn show_segment_bases(&mut self) {
        for (slot, segment) in self
            .context
            .segment_bases
            .iter_mut()
            .zip(&self.state.system.segments)
        {
            *slot = segment.base;
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
        let chainable = target.origin.second.is_none() && !mode.is_piece();
        if chainable && wanted.generation == self.store.generation() {
            let jump = Incoming {
                hole: wanted.hole,
                stub: wanted.stub,
                plain: wanted.plain,
            };
            self.store.link(jump, block);
        }
    }

    /// Visits translated code at `entry`, and again as long as it only needs help
    /// in the middle of a block.
    fn visit(&mut self, entry: u64, course: &mut Course) -> Next {
        let mut at = entry;
        self.context.pushed_flags = self.state.flags & !(flag::RF | flag::VM);
        loop {
            self.context.target = self.store.enter_code();
            self.context.resume = at;
            self.statistics.visits += 1;
            enter_translated(self.door);
            let next = match self.context.exit_site {
                EXIT_LOOKUP => {
                    self.statistics.lookups += 1;
                    self.state.rip = self.context.scratch[0];
                    Next::Boundary
                }
                EXIT_SIGNAL => self.host_fault(),
                site => {
                    let names = self.names_of(site);
                    self.exchange(names);
                    let next = self.leave_site(site, course);
                    if let Next::Resume(_) = next {
                        self.exchange(names);
                    }
                    next
                }
            };
            match next {
                Next::Resume(address) => at = address,
                other => return other,
            }
        }
    }

    /// What stands in for R14 and R15 where a site leaves its block. Jumps to other
    /// blocks have put them back.
    fn names_of(&self, site: SiteId) -> Renamed {
        let site = self.store.site(site);
        match site.kind {
            SiteKind::Link { .. } => None,
            _ if !site.renames => None,
            _ => self.store.block(site.block).renamed,
        }
    }

    fn exchange(&mut self, names: Renamed) {
        if let Some([first, second]) = names {
            self.context.gpr.swap(14, usize::from(first));
            self.context.gpr.swap(15, usize::from(second));
        }
    }

    fn leave_site(&mut self, id: u32, course: &mut Course) -> Next {
        let site = self.store.site(id);
        let (block, index) = (site.block, site.index);
        match &site.kind {
            SiteKind::Stop => {
                self.refund(block, 0);
                let block = self.store.block(block);
                match block.mode.pace {
                    _ if block.hot => course.slow = true,
                    Pace::Piece(power) => course.largest = power.saturating_sub(1),
                    _ => course.rest = true,
                }
                Next::Boundary
            }
            SiteKind::FreeSpent => {
                self.free_stubs = false;
                self.state.rip = self.store.block(block).rip;
                self.flush_translations();
                Next::Boundary
            }
            &SiteKind::Link {
                target,
                hole,
                stub,
                plain,
            } => {
                self.state.rip = target;
                course.link = Some(PendingLink {
                    hole,
                    stub,
                    generation: self.store.generation(),
                    plain,
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
            &SiteKind::Commit { size, resume, call } => {
                self.commit((block, index), size, (resume, call))
            }
            SiteKind::Hot => {
                self.state.rip = self.store.block(block).rip;
                self.promote(block);
                Next::Boundary
            }
            &SiteKind::Group {
                span,
                write,
                resume,
            } => self.group_miss((block, index), span, write, resume),
            &SiteKind::Refilled { slot } => self.refilled((block, index), slot),
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

    fn host_fault(&mut self) -> Next {
        let pc = self.context.fault_pc;
        let found = self
            .store
            .block_at(pc)
            .and_then(|id| Some((id, self.store.block(id).instruction_at(pc)?)));
        let Some((block, index)) = found else {
            unreachable!("a host fault outside every block, at {pc:#x}");
        };
        self.exchange(self.store.block(block).renamed);
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
            19 if self.state.system.cr4 & cr4::OSXMMEXCPT == 0 => Fault::invalid_opcode(),
            19 => Fault::plain(vector::SIMD),
            _ => Fault::protection(0),
        };
        self.deliver(fault)
    }

    /// Whether a question was answered that has not been consumed.
    pub(crate) fn take_answer(&mut self) -> Answer {
        std::mem::replace(&mut self.answer, Answer::None)
    }
}

#[allow(unsafe_code)]
fn enter_translated(door: Door) {
    // SAFETY: only called between `begin_run` and `end_run`, which point GS at the
    // context, with a target in translated code and the signal stack in place; the
    // vCPU's construction checked that the host has the guest's registers.
    unsafe { door.pass() };
}
