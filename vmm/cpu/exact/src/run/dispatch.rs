//! The run loop: find the next block, visit translated code, handle the result.
//!
//! Each turn of the loop begins and ends at an instruction boundary. If a condition applies to the next
//! instruction only, such as a breakpoint, a single step or the shadow of STI, that instruction runs by
//! itself. `interface` calls `dispatch` for every run; a run ends at the budget's end or with an exit to
//! the caller.

use belljar_abi::{STUB_BASE, STUB_LENGTH};
use belljar_cpu::{CpuError, Cycles, Exit, PAGE_SIZE, SegmentRegister, Vcpu};
use belljar_translate::architecture::flag;
use belljar_translate::guest::mode::{Mode, Pace};
use belljar_translate::guest::size::CodeSize;
use belljar_translate::host::block::Incoming;
use belljar_translate::host::exit_stub::BlockId;

use crate::code::form::Sought;
use crate::find::probed::Hit;
use crate::processor::enter::point_at;
use crate::processor::signals::Catching;
use crate::processor::state::{Entered, Fault};
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::devices::Answer;
use crate::processor::vcpu::left::Next;
use crate::run::turn::{Beginning, CodeTurn, DispatchState, PendingLink, StepConditions};

/// The fraction of a budget, as a divisor, that a run with an approximate end may leave at a hot block.
const EASE: i64 = 8;

impl ExactVcpu {
    /// Runs until the clock reaches `until` or another exit ends the run.
    pub(crate) fn dispatch(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        // Pending stores of a completed instruction to devices.
        if let Some(store) = self.pending.stores.pop() {
            return Ok(store);
        }
        self.forget_written_pages();
        if !self.watchpoints.is_empty() {
            self.find_watched_pages();
        }
        self.settle_clock();
        let grant = self
            .clock
            .ticks_until(until)
            .min(self.ticks_to_stop())
            .min(i64::MAX as u64 / 2) as i64;
        self.budget.granted = grant;
        self.context.count = grant;
        let catching = Catching::start(&mut self.context)?;
        self.settle_lines();
        point_at(&mut self.context);
        self.begin_apart();
        self.pending.refusable = None;
        let exit = match self.take_refusal() {
            Some(exit) => exit,
            None => self.run_loop(),
        };
        self.end_apart();
        drop(catching);
        self.settle_clock();
        self.settle_flags();
        // Matched by reference: moving the exit would be noticeable in a short turn.
        match exit {
            Exit::Deadline => Ok(Exit::Deadline),
            other => Ok(other),
        }
    }

    /// Handles leftovers from before the run: a refused WRMSR, an interrupt that could not be delivered.
    fn take_refusal(&mut self) -> Option<Exit> {
        if let Some(cause) = self.stops.shutdown {
            return Some(Exit::Shutdown(cause));
        }
        if std::mem::take(&mut self.pending.refused)
            && let Next::Exit(exit) = self.deliver(Fault::protection(0))
        {
            return Some(exit);
        }
        None
    }

    /// Repeats turns until one ends the run.
    fn run_loop(&mut self) -> Exit {
        let mut state = DispatchState::new(self.cheapest(), self.path_model().is_some());
        loop {
            if let Some(exit) = self.watchpoint_exit() {
                return exit;
            }
            if let Some(exit) = self.boundary() {
                return exit;
            }
            let done = match self.begin_turn(&mut state) {
                Ok(Beginning::Enter(turn)) => self.finish_turn(&turn, &mut state),
                Ok(Beginning::Raised) => Ok(()),
                Err(exit) => Err(exit),
            };
            if let Err(exit) = done {
                return exit;
            }
            if self.budget.ends_early && self.is_nearly_spent(&state) {
                return Exit::Deadline;
            }
        }
    }

    /// True if the rest of the budget is so small that it is better added to the next run: code cut to
    /// fit it would be translated for this one time.
    fn is_nearly_spent(&self, state: &DispatchState) -> bool {
        let little = self.budget.granted / EASE;
        (state.rest || state.slow && self.context.count <= little)
            && self.context.count < self.budget.granted
            && !self.state.shadow
            && !self.state.holds_traps
            && !self.in_free_stub()
            // The exit must not wait for the next run: an interrupt may come first.
            && !self.watchpoints.buffers.has_seen()
    }

    /// Handles conditions before the instruction at `state.rip`, and finds its code.
    fn begin_turn(&mut self, state: &mut DispatchState) -> Result<Beginning, Exit> {
        self.stops.uncovered_at = None;
        let passing = self.stops.passing.take();
        let passing = passing.filter(|at| *at == self.state.rip);
        let conditions = self.take_conditions();
        if let Some(fault) = self.breakpoint_before(&conditions) {
            return self.raise(fault);
        }
        let inside = self.is_inside_block() && !self.in_free_stub();
        let single = std::mem::take(&mut state.single) || conditions.wants_one() || inside;
        let mode = self.mode(state.pace(single, self.context.count));
        let plain = std::mem::take(&mut state.plain);
        let unknown = std::mem::take(&mut state.unknown);
        let (entry, hit) = match self.entry_of(mode, plain, unknown, state.link.take()) {
            Ok(arrival) => arrival,
            Err(fault) => return self.raise(fault),
        };
        if hit.is_some_and(|hit| hit.watched)
            && let Some(exit) = self.return_exit(passing)
        {
            self.give_back_conditions(&conditions);
            return Err(exit);
        }
        let probe = hit.and_then(|hit| hit.probe);
        let probe = probe.map(|probe| Box::new((probe, self.probed_now())));
        if conditions.checked
            && let Some(fault) = self.misalignment()
        {
            return self.raise(fault);
        }
        if mode.size.is_segmented() {
            self.show_segment_bases();
        }
        let hits = if conditions.watched {
            self.data_breakpoints()
        } else {
            0
        };
        let before = self.retired_now();
        if mode.is_piece() || hit.is_some() {
            self.begin_single();
        }
        Ok(Beginning::Enter(CodeTurn {
            entry,
            mode,
            conditions,
            single,
            plain,
            hits,
            passing,
            probe,
            before,
        }))
    }

    /// Runs the block of `turn`, the blocks linked to it, and the events after the last instruction.
    fn finish_turn(&mut self, turn: &CodeTurn, state: &mut DispatchState) -> Result<(), Exit> {
        let next = self.visit(turn.entry, turn.mode, state);
        let stands = self.retired_now() == turn.before;
        self.end_single(stands);
        if stands {
            // For example, the jump caches lacked the code: the address is not passed yet.
            self.stops.passing = turn.passing;
        }
        if let Next::Joined = next
            && stands
        {
            // The same instruction runs again, under the same conditions.
            state.single = turn.single;
            state.plain = turn.plain;
            self.give_back_conditions(&turn.conditions);
            return Ok(());
        }
        state.follow(&next);
        self.conclude(next, turn)?;
        match turn.probe.as_deref() {
            Some(&(probe, probed)) if self.retired_now() != turn.before => {
                self.stops.probed = Some(probed);
                Err(Exit::Probe { probe })
            }
            _ => Ok(()),
        }
    }

    /// Host address of the entry for the code at `state.rip`, to which `wanted` is linked; and a probe or
    /// watched return there, for which the instruction runs by itself.
    fn entry_of(
        &mut self,
        mode: Mode,
        plain: bool,
        unknown: bool,
        wanted: Option<PendingLink>,
    ) -> Result<(u64, Option<Hit>), Fault> {
        self.context.code_page = self.state.rip & !(PAGE_SIZE - 1);
        if wanted.is_none()
            && !plain
            && !unknown
            && let Some(code) = self.known_jump(mode)
        {
            // The register in which an indirect jump passes its target.
            self.context.scratch[0] = self.state.rip;
            return Ok((code, None));
        }
        if let Some(hit) = self.hit_here() {
            let alone = Mode {
                pace: Pace::Piece(0),
                ..mode
            };
            let found = self.find_block(alone, Sought::plain_if(plain), false)?;
            return Ok((found.entry, Some(hit)));
        }
        let found = self.find_block(mode, Sought::plain_if(plain), wanted.is_some())?;
        if let Some(wanted) = wanted {
            self.link(wanted, found.id, mode);
        }
        Ok((found.entry, None))
    }

    fn raise(&mut self, fault: Fault) -> Result<Beginning, Exit> {
        match self.deliver(fault) {
            Next::Exit(exit) => Err(exit),
            _ => Ok(Beginning::Raised),
        }
    }

    /// Handles the result of an instruction: traps, and exits to the caller.
    fn conclude(&mut self, next: Next, turn: &CodeTurn) -> Result<(), Exit> {
        let conditions = &turn.conditions;
        let stands = self.retired_now() == turn.before;
        let (hits, stepping) = self.traps_after(turn.hits, conditions);
        let traps = stepping || hits != 0;
        match next {
            Next::Exit(exit) if stands => {
                // The same instruction may run again.
                self.state.flags |= conditions.resumes;
                self.state.held_hits = conditions.held_hits;
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

    /// The breakpoint bits and the single step that are reported after an instruction, which itself hit
    /// `hits`.
    fn traps_after(&mut self, hits: u64, conditions: &StepConditions) -> (u64, bool) {
        let hits = hits | conditions.held_hits;
        match std::mem::take(&mut self.state.entered) {
            Entered::Not => (hits, conditions.stepping),
            Entered::Interrupt => (hits, false),
            Entered::Debug => (0, false),
            Entered::SystemCall => (hits, self.state.flags & flag::TF != 0),
        }
    }

    /// Handles events that are due before the next instruction.
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
            || (self.stops.nmi_window_wanted && self.takes_nmi())
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
            features: self.identity.features_number,
            relative: false,
            apart: self.is_apart(),
        }
    }

    /// Updates the segments' bases in the context.
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

    /// True if the guest is in stub instructions that are not counted.
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
            wide: false,
        };
        if target.origin.second.is_none() && target.mode.relative == wanted.relative {
            self.store.link(jump, wanted.from, block);
        } else {
            // Only the jump cache has the present mapping of its second page, or the base of its
            // addresses.
            self.store.bridge(jump, wanted.from, block);
        }
    }

    /// Takes the answer that was given and not used yet.
    pub(crate) fn take_answer(&mut self) -> Answer {
        std::mem::replace(&mut self.pending.answer, Answer::None)
    }
}
