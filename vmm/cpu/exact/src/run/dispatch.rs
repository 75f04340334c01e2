//! The run loop: find the next block, visit translated code, see what comes after it.
//!
//! Each turn of the loop begins and ends at an instruction boundary. Where something waits for the
//! next instruction alone, such as a breakpoint, a single step or the shadow of STI, it runs by
//! itself. `interface` calls `dispatch` for every run; a run ends at the budget's end or with the
//! exit that the caller has to see to.

use belljar_abi::{STUB_BASE, STUB_LENGTH};
use belljar_cpu::{CpuError, Cycles, Exit, PAGE_SIZE, SegmentRegister, Vcpu};
use belljar_translate::architecture::flag;
use belljar_translate::guest::mode::{Mode, Pace};
use belljar_translate::guest::size::CodeSize;
use belljar_translate::host::block::Incoming;
use belljar_translate::host::site::BlockId;

use crate::find::probed::Hit;
use crate::processor::devices::Answer;
use crate::processor::enter::point_at;
use crate::processor::left::Next;
use crate::processor::signals::Catching;
use crate::processor::state::{Entered, Fault};
use crate::processor::vcpu::ExactVcpu;

/// The part of a budget that a run at ease may leave when it comes to a hot block.
const EASE: i64 = 8;

/// A jump that wants to be linked to the block found next.
#[derive(Clone, Copy)]
pub(crate) struct PendingLink {
    pub from: BlockId,
    pub hole: u64,
    pub stub: u64,
    pub generation: u64,
    pub plain: bool,
    /// It stands in relative code.
    pub relative: bool,
}

/// Where a run continues, and how.
pub(crate) struct Course {
    pub link: Option<PendingLink>,
    /// The jump caches do not know the next block, or lead to an entry thunk whose block
    /// is gone.
    pub unknown: bool,
    /// The next block must check each access by itself.
    plain: bool,
    /// The next instruction must run by itself.
    single: bool,
    /// A hot block's instructions are more than the budget covers: none is entered any more.
    pub slow: bool,
    /// So are a plain block's: the rest goes in pieces.
    pub rest: bool,
    /// The power of two of the largest of these.
    pub largest: u8,
    /// What the cheapest instruction costs, in units of the budget.
    cheapest: i64,
}

impl Course {
    fn new(cheapest: u32) -> Self {
        Self {
            link: None,
            unknown: false,
            plain: false,
            single: false,
            slow: false,
            rest: false,
            largest: u8::MAX,
            cheapest: i64::from(cheapest),
        }
    }

    /// How to continue with a `budget`, by a `single` instruction if that is wanted.
    fn pace(&self, single: bool, budget: i64) -> Pace {
        match (self.rest, self.slow) {
            _ if single => Pace::Piece(0),
            (true, _) => Pace::piece_of(budget / self.cheapest, self.largest),
            (_, true) => Pace::Slow,
            _ => Pace::Full,
        }
    }
}

/// What concerns the next instruction alone.
#[derive(Debug)]
struct Care {
    /// RF, which keeps a breakpoint from being hit again.
    resumes: u64,
    /// Interrupts wait after it.
    shadowed: bool,
    /// Breakpoints and single steps wait after it.
    holds_traps: bool,
    /// Breakpoints that the instruction before met, as bits of DR6.
    held_hits: u64,
    /// There are breakpoints.
    watched: bool,
    /// A single step ends after it.
    stepping: bool,
    /// Its accesses must be aligned.
    checked: bool,
}

impl Care {
    /// Whether it must run by itself.
    fn wants_one(&self) -> bool {
        self.shadowed || self.stepping || self.checked || self.watched || self.held_hits != 0
    }
}

impl ExactVcpu {
    /// Runs until the clock shows `until` or something else ends the run.
    pub(crate) fn dispatch(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        // What an instruction that is done has yet to tell devices.
        if let Some(store) = self.pending.stores.pop() {
            return Ok(store);
        }
        self.forget_written_pages();
        self.settle_clock();
        let grant = self
            .clock
            .ticks_until(until)
            .min(self.ticks_to_stop())
            .min(i64::MAX as u64 / 2) as i64;
        self.granted = grant;
        self.context.count = grant;
        let catching = Catching::start(&mut self.context)?;
        self.flush_lines();
        point_at(&mut self.context);
        self.begin_apart();
        self.refusable = None;
        let exit = match self.take_refusal() {
            Some(exit) => exit,
            None => self.run_loop(),
        };
        self.end_apart();
        drop(catching);
        self.settle_clock();
        self.settle_flags();
        // Not moved before it is looked at: in a short turn that counts.
        match exit {
            Exit::Deadline => Ok(Exit::Deadline),
            other => Ok(other),
        }
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
        let mut course = Course::new(self.cheapest());
        loop {
            if let Some(exit) = self.boundary() {
                return exit;
            }
            if let Err(exit) = self.go_on(&mut course) {
                return exit;
            }
            if self.at_ease && self.is_nearly_spent(&course) {
                return Exit::Deadline;
            }
        }
    }

    /// Whether so little of the budget is left that the rest is better run together with
    /// what comes next: what is cut to measure is translated for this one time.
    fn is_nearly_spent(&self, course: &Course) -> bool {
        let little = self.granted / EASE;
        (course.rest || course.slow && self.context.count <= little)
            && self.context.count < self.granted
            && !self.state.shadow
            && !self.state.holds_traps
            && !self.in_free_stub()
    }

    /// Continues with the block at `state.rip`, and with what is linked to it.
    fn go_on(&mut self, course: &mut Course) -> Result<(), Exit> {
        self.stopped_before = None;
        let passing = self.passing.take().filter(|at| *at == self.state.rip);
        let care = self.take_care();
        if let Some(fault) = self.breakpoint_before(&care) {
            return self.raise(fault);
        }
        let single = std::mem::take(&mut course.single) || care.wants_one();
        let mode = self.mode(course.pace(single, self.context.count));
        let plain = std::mem::take(&mut course.plain);
        let unknown = std::mem::take(&mut course.unknown);
        let (entry, hit) = match self.entry_of(mode, (plain, unknown), course.link.take()) {
            Ok(arrival) => arrival,
            Err(fault) => return self.raise(fault),
        };
        let probed = match hit {
            Some(Hit::Probe(probe)) => Some((probe, self.probed_now())),
            Some(Hit::Return) if let Some(exit) = self.return_exit(passing) => {
                self.give_back_care(&care);
                return Err(exit);
            }
            _ => None,
        };
        if care.checked
            && let Some(fault) = self.misalignment()
        {
            return self.raise(fault);
        }
        if mode.size.is_segmented() {
            self.show_segment_bases();
        }
        let hits = if care.watched {
            self.data_breakpoints()
        } else {
            0
        };
        let before = self.retired_now();
        let next = self.visit(entry, mode, course);
        if self.retired_now() == before {
            // The code was not found where the jump caches had it, say: nothing is passed yet.
            self.passing = passing;
        }
        if let Next::Joined = next
            && self.retired_now() == before
        {
            // The same instruction runs again, with the same care.
            course.single = single;
            course.plain = plain;
            self.give_back_care(&care);
            return Ok(());
        }
        course.plain =
            matches!(next, Next::Plain) || course.link.as_ref().is_some_and(|wanted| wanted.plain);
        course.single = matches!(next, Next::Single);
        self.conclude(next, &care, hits, before)?;
        match probed {
            Some((probe, state)) if self.retired_now() != before => {
                self.probed = Some(state);
                Err(Exit::Probe { probe })
            }
            _ => Ok(()),
        }
    }

    /// Host address at which the code for `state.rip` is entered, which `wanted` is linked to;
    /// and what is to be seen there, for which the instruction runs by itself.
    fn entry_of(
        &mut self,
        mode: Mode,
        (plain, unknown): (bool, bool),
        wanted: Option<PendingLink>,
    ) -> Result<(u64, Option<Hit>), Fault> {
        self.context.code_page = self.state.rip & !(PAGE_SIZE - 1);
        if wanted.is_none()
            && !plain
            && !unknown
            && let Some(code) = self.known_jump(mode)
        {
            // Where an indirect jump says where it leads.
            self.context.scratch[0] = self.state.rip;
            return Ok((code, None));
        }
        if let Some(hit) = self.hit_here() {
            let alone = Mode {
                pace: Pace::Piece(0),
                ..mode
            };
            let found = self.find_block(alone, plain, false)?;
            return Ok((found.entry, Some(hit)));
        }
        let found = self.find_block(mode, plain, wanted.is_some())?;
        if let Some(wanted) = wanted {
            self.link(wanted, found.id, mode);
        }
        Ok((found.entry, None))
    }

    /// Takes from the state what concerns the next instruction alone.
    fn take_care(&mut self) -> Care {
        let resumes = self.state.flags & flag::RF;
        self.state.flags &= !flag::RF;
        Care {
            resumes,
            shadowed: std::mem::take(&mut self.state.shadow),
            holds_traps: std::mem::take(&mut self.state.holds_traps),
            held_hits: std::mem::take(&mut self.state.held_hits),
            watched: self.has_breakpoints(),
            stepping: self.state.flags & flag::TF != 0,
            checked: self.checks_alignment(),
        }
    }

    /// Puts back what [`take_care`](Self::take_care) took.
    fn give_back_care(&mut self, care: &Care) {
        self.state.flags |= care.resumes;
        self.state.shadow = care.shadowed;
        self.state.holds_traps = care.holds_traps;
        self.state.held_hits = care.held_hits;
    }

    fn breakpoint_before(&mut self, care: &Care) -> Option<Fault> {
        if care.watched && care.resumes == 0 && !care.holds_traps {
            self.code_breakpoint()
        } else {
            None
        }
    }

    fn raise(&mut self, fault: Fault) -> Result<(), Exit> {
        match self.deliver(fault) {
            Next::Exit(exit) => Err(exit),
            _ => Ok(()),
        }
    }

    /// What comes after an instruction: traps, and what the caller is needed for.
    fn conclude(&mut self, next: Next, care: &Care, hits: u64, before: u64) -> Result<(), Exit> {
        let stands = self.retired_now() == before;
        let (hits, stepping) = self.traps_behind(hits, care);
        let traps = stepping || hits != 0;
        match next {
            Next::Exit(exit) if stands => {
                // The same instruction may run again.
                self.state.flags |= care.resumes;
                self.state.held_hits = care.held_hits;
                Err(exit)
            }
            Next::Exit(exit) if traps => self.trap_behind(exit, hits, stepping).map_or(Ok(()), Err),
            Next::Exit(exit) => Err(exit),
            _ if self.state.holds_traps => {
                self.state.held_hits = hits;
                Ok(())
            }
            _ if traps && !stands => match self.trap(hits, stepping) {
                Next::Exit(exit) => Err(exit),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The breakpoints' bits and the single step that are told after an instruction, which
    /// itself met `hits`.
    fn traps_behind(&mut self, hits: u64, care: &Care) -> (u64, bool) {
        let hits = hits | care.held_hits;
        match std::mem::take(&mut self.state.entered) {
            Entered::Not => (hits, care.stepping),
            Entered::Interrupt => (hits, false),
            Entered::Debug => (0, false),
            Entered::SystemCall => (hits, self.state.flags & flag::TF != 0),
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
            nulls: self.state.nulls(),
            skew: skew as u16,
            user: self.state.is_user(),
            fpu: self.state.has_fpu(),
            pace,
            free_stubs: self.guards.free_stubs,
            features: self.features_number,
            relative: false,
            apart: self.is_apart(),
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
        self.guards.free_stubs && rip.wrapping_sub(STUB_BASE) < STUB_LENGTH && self.state.is_user()
    }

    fn link(&mut self, wanted: PendingLink, block: BlockId, mode: Mode) {
        let target = self.store.block(block);
        if mode.is_piece() || wanted.generation != self.store.generation() {
            return;
        }
        let jump = Incoming {
            hole: wanted.hole,
            stub: wanted.stub,
            plain: wanted.plain,
        };
        if target.origin.second.is_none() && target.mode.relative == wanted.relative {
            self.store.link(jump, wanted.from, block);
        } else {
            // Only the jump cache knows where its second page is now, or what its addresses
            // count from.
            self.store.bridge(jump, wanted.from, block);
        }
    }

    /// Whether a question was answered that has not been consumed.
    pub(crate) fn take_answer(&mut self) -> Answer {
        std::mem::replace(&mut self.pending.answer, Answer::None)
    }
}
