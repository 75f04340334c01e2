//! Counting guest instructions, and the entry of a block.
//!
//! A block's instructions are subtracted from the budget before the first of them runs; if the
//! budget does not cover them, the block exits without executing any. Exits in the middle refund
//! the rest. `emit` begins every block with this, and `emit/cold` refunds.

use super::{CONDITION_SIGN, ColdKind, Emitter};
use crate::context::at;
use crate::guest::mode::Pace;
use crate::host::asm::{RCX, S0, S1};
use crate::host::exit_stub::ExitStubKind;
use crate::host::shared::Counter;
use crate::host::stubs::verify_target;

/// The entry of a block that follows the guest's path.
mod path;
/// The blocks of a trace.
mod segments;

pub use segments::BlockSegment;
pub(in super::super) use segments::segments_of;

impl Emitter {
    /// The entry for indirect jumps: continues only if S0 is this block's RIP.
    pub(super) fn verify_target(&mut self, rip: u64) {
        let lookup = self.shared.lookup[usize::from(self.mode.user)];
        verify_target(&mut self.asm, rip, lookup);
    }

    /// Counts a run of a block that is not hot, and leaves after many. Afterwards, live flags are
    /// saved.
    pub(super) fn count_run(&mut self, heat: u32, flags_dead: bool) {
        if !flags_dead && !self.flags_kept {
            self.keep_flags();
        }
        self.asm.decrement32(at::heat(heat));
        let hole = self.asm.jump_if(CONDITION_SIGN);
        self.leave_from(hole, ExitStubKind::Hot, false);
    }

    /// The counter of this code.
    pub(super) fn counter(&self) -> Counter {
        if self.mode.apart {
            Counter::Mm7
        } else {
            self.shared.counter
        }
    }

    /// Adds the context's value at `number` to the budget in a register. Changes no flag.
    pub(super) fn add_to_register(&mut self, number: i32) {
        match self.counter() {
            Counter::Mm7 => self.asm.add_to_mm7(number),
            _ => self.asm.add_to_xmm31(number),
        }
    }

    /// Loads the budget into S1. Changes no flag.
    pub(super) fn load_budget(&mut self) {
        match self.counter() {
            Counter::Memory => self.asm.load(S1, at::COUNT),
            Counter::Xmm31 => self.asm.move_xmm31_to_s1(),
            Counter::Mm7 => self.asm.move_mm7_to_s1(),
        }
    }

    /// Subtracts the block's instructions from the budget, or leaves if it does not cover them.
    pub(super) fn count(&mut self, instructions: i32, free: bool, flags_dead: bool) {
        if free {
            return self.count_in_memory(
                at::FREE,
                ExitStubKind::FreeSpent,
                instructions,
                flags_dead,
            );
        }
        if self.follows_path {
            return self.count_on_path(instructions, flags_dead);
        }
        if let Some(&ticks) = self.rest.first() {
            return self.count_priced(ticks, instructions, flags_dead);
        }
        if self.counter() == Counter::Memory {
            return self.count_in_memory(at::COUNT, ExitStubKind::Stop, instructions, flags_dead);
        }
        self.add_to_register(at::step(-instructions));
        self.leave_if_overdrawn(flags_dead);
    }

    /// As [`count`](Self::count), with prices. A single instruction runs to its end, even if that
    /// is after the deadline.
    fn count_priced(&mut self, ticks: i32, instructions: i32, flags_dead: bool) {
        let checked = self.mode.pace != Pace::Piece(0);
        if self.counter() == Counter::Xmm31 {
            self.add_pair(-ticks, instructions);
            if checked {
                self.leave_if_overdrawn(flags_dead);
            }
            return;
        }
        self.add_in_memory(at::RETIRED, instructions);
        if checked {
            self.count_in_memory(at::COUNT, ExitStubKind::Stop, ticks, flags_dead);
        } else {
            self.add_in_memory(at::COUNT, -ticks);
        }
    }

    /// Adds ticks and instructions to the halves of XMM31.
    fn add_pair(&mut self, ticks: i32, instructions: i32) {
        let hole = self.asm.add_constant_to_xmm31();
        self.put_off(
            hole,
            ColdKind::Pair {
                ticks,
                instructions,
            },
        );
    }

    /// Adds to a counter in memory. Clobbers S1, changes no flag.
    fn add_in_memory(&mut self, counter: i32, by: i32) {
        self.asm.load(S1, counter);
        self.asm.lea(S1, S1, by);
        self.asm.store(counter, S1);
    }

    /// Leaves if the budget in a register did not cover the block.
    fn leave_if_overdrawn(&mut self, flags_dead: bool) {
        if flags_dead {
            self.load_budget();
            self.asm.test_s1();
            let hole = self.asm.jump_if(CONDITION_SIGN);
            self.leave_from(hole, ExitStubKind::Stop, false);
            return;
        }
        self.asm.mov(S0, RCX);
        self.load_budget();
        self.asm.pext(RCX, S1, at::SIGN_MASK);
        self.leave_unless_rcx_zero(ExitStubKind::Stop);
    }

    fn count_in_memory(&mut self, counter: i32, kind: ExitStubKind, by: i32, flags_dead: bool) {
        if flags_dead {
            self.asm.sub_imm(counter, by);
            let hole = self.asm.jump_if(CONDITION_SIGN);
            self.leave_from(hole, kind, false);
            return;
        }
        self.asm.mov(S0, RCX);
        self.asm.load(S1, counter);
        self.asm.lea(S1, S1, -by);
        self.asm.store(counter, S1);
        self.asm.pext(RCX, S1, at::SIGN_MASK);
        self.leave_unless_rcx_zero(kind);
    }

    /// Leaves unless RCX is zero. S0 holds the guest's RCX.
    fn leave_unless_rcx_zero(&mut self, kind: ExitStubKind) {
        let enough = self.asm.jump_rcx_zero();
        self.asm.mov(RCX, S0);
        let hole = self.asm.jump();
        self.leave_from(hole, kind, false);
        self.asm.land(enough);
        self.asm.mov(RCX, S0);
    }

    /// Refunds the instructions from `index` on, which will not be executed. Changes no flag, and
    /// no register but S1.
    pub(super) fn give_back(&mut self, index: u16) {
        let left = i32::from(self.counted.saturating_sub(index));
        if left == 0 {
            return;
        }
        let ticks = self.rest.get(usize::from(index)).copied();
        match (self.counter(), ticks) {
            (Counter::Memory, None) => self.add_in_memory(at::COUNT, left),
            (Counter::Memory, Some(ticks)) => {
                self.add_in_memory(at::COUNT, ticks);
                self.add_in_memory(at::RETIRED, -left);
            }
            (Counter::Xmm31, Some(ticks)) => self.add_pair(ticks, -left),
            // With prices, MM7 is not used for counting.
            (Counter::Xmm31, None) | (Counter::Mm7, _) => self.add_to_register(at::step(left)),
        }
    }
}
