//! How translated code was left: what comes next, and what the next turn needs of a block that the budget did not
//! cover.
//!
//! `visit` and the parts that serve exit stubs answer by it; `dispatch` goes by the answer.

use belljar_cpu::Exit;
use belljar_translate::guest::mode::Pace;
use belljar_translate::host::allocation::Allocation;
use belljar_translate::host::block::{Block, Charge};
use belljar_translate::host::exit_stub::ExitStubId;

/// What became of an exit from translated code.
pub(crate) enum Next {
    /// The guest stands at an instruction boundary, `state.rip`.
    Boundary,
    /// As `Boundary`, and the block there must check each access by itself.
    Plain,
    /// As `Boundary`, and the budget may cover the next instruction alone.
    Single,
    /// As `Boundary`, where nothing was done but to bring the x87 that the instruction there
    /// takes.
    Joined,
    /// Continue in the middle of a block, at this host address.
    Resume(u64),
    /// The caller is needed; the guest stands at `state.rip`.
    Exit(Exit),
}

/// A block that the budget did not cover, as a short turn needs it: where nodes take turns, the
/// block itself is in nobody's caches, and its loop is the one in which the next turn ends, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uncovered {
    pub(crate) site: ExitStubId,
    pub(crate) generation: u64,
    pub(crate) rip: u64,
    pub(crate) relative: bool,
    pub(crate) charge: Charge,
    pub(crate) allocation: Allocation,
    pub(crate) dead_flags: u32,
    pub(crate) pace: Pace,
    pub(crate) hot: bool,
}

impl Uncovered {
    /// What a turn's end at an exit stub of `block` needs.
    pub(crate) fn new(
        block: &Block,
        (site, generation): (ExitStubId, u64),
        allocation: Allocation,
    ) -> Self {
        Self {
            site,
            generation,
            rip: block.rip,
            relative: block.mode.relative,
            charge: block.charge_from(0),
            allocation,
            dead_flags: block.dead_flags,
            pace: block.mode.pace,
            hot: block.hot,
        }
    }
}
