//! A turn of the run loop: decisions before translated code is entered.
//!
//! A turn begins and ends at an instruction boundary. `dispatch` prepares it, `visit` runs it, and both store the
//! inputs of the following turn in [`DispatchState`](turn::DispatchState).

use belljar_cpu::Probed;
use belljar_translate::architecture::flag;
use belljar_translate::guest::mode::{Mode, Pace};
use belljar_translate::host::exit_stub::BlockId;

use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::left::Next;

/// A jump that is to be linked to the next block.
#[derive(Clone, Copy)]
pub(crate) struct PendingLink {
    pub from: BlockId,
    pub hole: u64,
    pub stub: u64,
    pub generation: u64,
    pub plain: bool,
    /// True if it is in relative code.
    pub relative: bool,
}

/// The state of a run between turns.
pub(crate) struct DispatchState {
    pub link: Option<PendingLink>,
    /// True if the jump caches lack the next block, or lead to an entry thunk whose block was dropped.
    pub unknown: bool,
    /// The next block must check each access by itself.
    pub plain: bool,
    /// The next instruction must run by itself.
    pub single: bool,
    /// True if the budget does not cover a hot block: no further hot block is entered.
    pub slow: bool,
    /// True if the budget does not cover a plain block: the rest runs in pieces.
    pub rest: bool,
    /// The largest power of two for such pieces.
    pub largest: u8,
    /// The cost of the cheapest instruction, in units of the budget.
    cheapest: i64,
    /// True if the rest of a budget runs instruction by instruction.
    single_rest: bool,
}

impl DispatchState {
    pub(super) fn new(cheapest: u32, single_rest: bool) -> Self {
        Self {
            link: None,
            unknown: false,
            plain: false,
            single: false,
            slow: false,
            rest: false,
            largest: u8::MAX,
            cheapest: i64::from(cheapest),
            single_rest,
        }
    }

    /// Updates the state for the next turn after the exit `next`.
    pub(super) fn follow(&mut self, next: &Next) {
        self.plain =
            matches!(next, Next::Plain) || self.link.as_ref().is_some_and(|wanted| wanted.plain);
        self.single = matches!(next, Next::Single);
    }

    /// The pace for a `budget`; a `single` instruction if requested.
    pub(super) fn pace(&self, single: bool, budget: i64) -> Pace {
        match (self.rest, self.slow) {
            _ if single => Pace::Piece(0),
            (true, _) if self.single_rest => Pace::Piece(0),
            (true, _) => Pace::piece_of(budget / self.cheapest, self.largest),
            (_, true) => Pace::Slow,
            _ => Pace::Full,
        }
    }
}

/// Conditions for the next instruction only.
#[derive(Debug)]
pub(super) struct StepConditions {
    /// RF, which prevents a breakpoint from being hit again.
    pub(super) resumes: u64,
    /// Interrupts are blocked after it.
    pub(super) shadowed: bool,
    /// Breakpoints and single steps are blocked after it.
    pub(super) holds_traps: bool,
    /// Breakpoints hit by the previous instruction, as bits of DR6.
    pub(super) held_hits: u64,
    /// Breakpoints are enabled.
    pub(super) watched: bool,
    /// A single-step trap follows it.
    pub(super) stepping: bool,
    /// Its accesses must be aligned.
    pub(super) checked: bool,
}

impl StepConditions {
    /// True if it must run by itself.
    pub(super) fn wants_one(&self) -> bool {
        self.shadowed || self.stepping || self.checked || self.watched || self.held_hits != 0
    }
}

/// A turn that is about to enter translated code.
pub(super) struct CodeTurn {
    /// Host address of the code.
    pub(super) entry: u64,
    /// The mode for which the code was translated.
    pub(super) mode: Mode,
    pub(super) conditions: StepConditions,
    /// The instruction runs by itself.
    pub(super) single: bool,
    /// The block checks each access by itself.
    pub(super) plain: bool,
    /// Data breakpoints that the instruction hits, as bits of DR6.
    pub(super) hits: u64,
    /// The watched return address that was already reported.
    pub(super) passing: Option<u64>,
    /// The probe at this instruction, and the vCPU's state at it.
    pub(super) probe: Option<Box<(u32, Probed)>>,
    /// Number of instructions retired before it.
    pub(super) before: u64,
}

/// The beginning of a turn.
pub(super) enum Beginning {
    /// Enter translated code.
    Enter(CodeTurn),
    /// An exception was delivered instead: the next turn begins at its handler.
    Raised,
}

impl ExactVcpu {
    /// Takes the conditions for the next instruction out of the state.
    pub(super) fn take_conditions(&mut self) -> StepConditions {
        let resumes = self.state.flags & flag::RF;
        self.state.flags &= !flag::RF;
        StepConditions {
            resumes,
            shadowed: std::mem::take(&mut self.state.shadow),
            holds_traps: std::mem::take(&mut self.state.holds_traps),
            held_hits: std::mem::take(&mut self.state.held_hits),
            watched: self.has_breakpoints(),
            stepping: self.state.flags & flag::TF != 0,
            checked: self.checks_alignment(),
        }
    }

    /// Restores the conditions taken by [`take_conditions`](Self::take_conditions).
    pub(super) fn give_back_conditions(&mut self, conditions: &StepConditions) {
        self.state.flags |= conditions.resumes;
        self.state.shadow = conditions.shadowed;
        self.state.holds_traps = conditions.holds_traps;
        self.state.held_hits = conditions.held_hits;
    }

    pub(super) fn breakpoint_before(&mut self, conditions: &StepConditions) -> Option<Fault> {
        if conditions.watched && conditions.resumes == 0 && !conditions.holds_traps {
            self.code_breakpoint()
        } else {
            None
        }
    }
}
