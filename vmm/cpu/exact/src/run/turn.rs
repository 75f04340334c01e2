//! One turn of the run loop: what is decided before translated code is entered.
//!
//! A turn begins and ends at an instruction boundary. `dispatch` prepares it, `visit` carries it out, and both leave
//! in [`DispatchState`](turn::DispatchState) what the turn after it goes by.

use belljar_cpu::Probed;
use belljar_translate::architecture::flag;
use belljar_translate::guest::mode::{Mode, Pace};
use belljar_translate::host::exit_stub::BlockId;

use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::left::Next;

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
pub(crate) struct DispatchState {
    pub link: Option<PendingLink>,
    /// The jump caches do not know the next block, or lead to an entry thunk whose block
    /// is gone.
    pub unknown: bool,
    /// The next block must check each access by itself.
    pub plain: bool,
    /// The next instruction must run by itself.
    pub single: bool,
    /// A hot block's instructions are more than the budget covers: none is entered any more.
    pub slow: bool,
    /// So are a plain block's: the rest goes in pieces.
    pub rest: bool,
    /// The power of two of the largest of these.
    pub largest: u8,
    /// What the cheapest instruction costs, in units of the budget.
    cheapest: i64,
}

impl DispatchState {
    pub(super) fn new(cheapest: u32) -> Self {
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

    /// What the exit `next` says of the turn after it.
    pub(super) fn follow(&mut self, next: &Next) {
        self.plain =
            matches!(next, Next::Plain) || self.link.as_ref().is_some_and(|wanted| wanted.plain);
        self.single = matches!(next, Next::Single);
    }

    /// How to continue with a `budget`, by a `single` instruction if that is wanted.
    pub(super) fn pace(&self, single: bool, budget: i64) -> Pace {
        match (self.rest, self.slow) {
            _ if single => Pace::Piece(0),
            (true, _) => Pace::piece_of(budget / self.cheapest, self.largest),
            (_, true) => Pace::Slow,
            _ => Pace::Full,
        }
    }
}

/// What holds for the next instruction alone.
#[derive(Debug)]
pub(super) struct StepConditions {
    /// RF, which keeps a breakpoint from being hit again.
    pub(super) resumes: u64,
    /// Interrupts wait after it.
    pub(super) shadowed: bool,
    /// Breakpoints and single steps wait after it.
    pub(super) holds_traps: bool,
    /// Breakpoints that the instruction before met, as bits of DR6.
    pub(super) held_hits: u64,
    /// There are breakpoints.
    pub(super) watched: bool,
    /// A single step ends after it.
    pub(super) stepping: bool,
    /// Its accesses must be aligned.
    pub(super) checked: bool,
}

impl StepConditions {
    /// Whether it must run by itself.
    pub(super) fn wants_one(&self) -> bool {
        self.shadowed || self.stepping || self.checked || self.watched || self.held_hits != 0
    }
}

/// A turn that is about to enter translated code.
pub(super) struct Turn {
    /// Host address of the code.
    pub(super) entry: u64,
    /// What the code was translated for.
    pub(super) mode: Mode,
    pub(super) conditions: StepConditions,
    /// The instruction runs by itself.
    pub(super) single: bool,
    /// The block checks each access by itself.
    pub(super) plain: bool,
    /// Data breakpoints that the instruction meets, as bits of DR6.
    pub(super) hits: u64,
    /// The watched return address that was told of already.
    pub(super) passing: Option<u64>,
    /// The probe that stands here, and what the vCPU is at it.
    pub(super) probe: Option<Box<(u32, Probed)>>,
    /// Instructions retired before it.
    pub(super) before: u64,
}

/// How a turn begins.
pub(super) enum Beginning {
    /// Translated code is entered.
    Enter(Turn),
    /// An exception was taken instead: the next turn begins at its handler.
    Raised,
}

impl ExactVcpu {
    /// Takes from the state what concerns the next instruction alone.
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

    /// Puts back what [`take_conditions`](Self::take_conditions) took.
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
