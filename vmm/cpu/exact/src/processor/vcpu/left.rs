//! Results of leaving translated code: the next step, and data on a block that the budget did not cover, for the
//! next turn.
//!
//! `visit` and the handlers of exit stubs return it; `dispatch` acts on it.

use belljar_cpu::Exit;
use belljar_translate::guest::mode::Pace;
use belljar_translate::host::allocation::Allocation;
use belljar_translate::host::block::{Block, Charge};
use belljar_translate::host::exit_stub::ExitStubId;

/// The result of an exit from translated code.
pub(crate) enum Next {
    /// The guest is at an instruction boundary, `state.rip`.
    Boundary,
    /// As `Boundary`, and the block there must check each access by itself.
    Plain,
    /// As `Boundary`, and the budget may only cover the next instruction.
    Single,
    /// As `Boundary`, after merely loading the x87 for the instruction there.
    Joined,
    /// Continue in the middle of a block, at this host address.
    Resume(u64),
    /// Exit to the caller; the guest is at `state.rip`.
    Exit(Exit),
}

/// A copy of the data of a block that the budget did not cover, for short turns: if nodes take turns, the block
/// itself is in no cache, and the next turn usually ends in the same loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uncovered {
    pub(crate) site: ExitStubId,
    pub(crate) generation: u64,
    pub(crate) rip: u64,
    pub(crate) relative: bool,
    pub(crate) charge: Charge,
    /// The block's path slot, which has its charge under a processor model.
    pub(crate) path_slot: Option<u32>,
    pub(crate) allocation: Allocation,
    pub(crate) dead_flags: u32,
    pub(crate) pace: Pace,
    pub(crate) hot: bool,
}

impl Uncovered {
    /// The data for ending a turn at an exit stub of `block`.
    pub(crate) fn new(
        block: &Block,
        site: ExitStubId,
        generation: u64,
        allocation: Allocation,
    ) -> Self {
        Self {
            site,
            generation,
            rip: block.rip,
            relative: block.mode.relative,
            charge: block.charge_from(0),
            path_slot: None,
            allocation,
            dead_flags: block.dead_flags,
            pace: block.mode.pace,
            hot: block.hot,
        }
    }
}
