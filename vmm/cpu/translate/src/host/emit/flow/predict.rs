//! Updates of branch predictors at jumps, under a processor model.
//!
//! A mispredicted jump changes the present context to the slot's other one. No update changes flags, which may be live
//! after the jump. Scratch registers and RCX are used.

use super::super::{ColdKind, Emitter};
use crate::context::at;
use crate::context::path::{
    COUNTERS, HISTORY_BITS, HISTORY_JUMPS, TAKEN, TARGETS, counter_term, jump_seed, jump_term,
};
use crate::host::asm::{Hole, RCX, Reg, S0, S1};
use bincode::{Decode, Encode};

/// The directions of a trace's conditional jumps since its head, which are known when it is emitted: while it runs, they
/// are not in the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct FoldedHistory {
    /// Number of jumps.
    pub count: u32,
    /// Their directions, the newest one in bit 0.
    pub bits: u64,
}

impl FoldedHistory {
    /// Adds a jump.
    pub(in super::super) fn push(&mut self, taken: bool) {
        self.count += 1;
        self.bits = self.bits << 1 | u64::from(taken);
    }

    /// The `history` at the trace's head with these jumps.
    pub fn after(self, history: u64) -> u64 {
        history.checked_shl(self.count).unwrap_or(0) | self.bits
    }
}

/// The low nibble of JNE.
const NOT_EQUAL: u8 = 5;

/// A conditional jump in one direction.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct PredictedJump {
    /// Its address.
    pub rip: u64,
    /// Its direction.
    pub taken: bool,
    pub place: JumpPlace,
}

/// The code after a conditional jump in one direction.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum JumpPlace {
    /// The jump is the last instruction.
    Last,
    /// The trace continues at guest address `next`, unless the jump was mispredicted.
    InTrace { next: u64 },
    /// The trace was left, and the context is the one after the jump's block.
    BehindTrace,
}

impl Emitter {
    /// Updates the counter of a conditional jump, in code that runs in its direction.
    pub(in super::super) fn predict_jump(&mut self, jump: PredictedJump) {
        let PredictedJump { rip, taken, .. } = jump;
        self.asm.load(S1, at::HISTORY);
        self.asm.pext(S1, S1, at::PATH_MASKS[0]);
        self.asm.mov(S0, RCX);
        self.asm
            .load_byte_to_rcx(at::COUNTERS + counter_term(rip) as i32);
        if taken {
            self.asm.lea(RCX, RCX, -i32::from(TAKEN));
        }
        let certain = self.asm.jump_rcx_zero();
        let hole = self.asm.jump();
        self.asm.land(certain);
        let resume = self.asm.offset();
        self.put_off(hole, ColdKind::Train { jump, resume });
        self.asm.mov(RCX, S0);
        self.add_direction(taken);
    }

    /// Updates the counters of a jump, the first of which does not have its highest value for this direction. S1 is
    /// its index; RCX is its value, less the highest one if the jump is taken.
    pub(in super::super) fn train(&mut self, jump: PredictedJump, resume: u32) {
        let PredictedJump { rip, taken, place } = jump;
        if let JumpPlace::InTrace { next } = place {
            return self.train_in_trace(jump, next, resume);
        }
        self.asm.store(at::BORROWED, S0);
        self.asm.lea(S1, S1, counter_term(rip) as i32);
        let back = self.asm.address_to_s0();
        self.asm.store(at::TRAIN_BACK, S0);
        self.asm.mov_imm(S0, jump_seed(rip).into());
        self.asm.jump_to(self.shared.train[usize::from(taken)]);
        self.asm.land(back);
        let predicted = self.asm.jump_rcx_zero();
        if matches!(place, JumpPlace::BehindTrace) {
            self.mispredict_segment();
            self.count_misprediction(S1);
        } else {
            self.mispredicted(S1);
        }
        self.asm.land(predicted);
        let resume = self.asm.address_of(resume);
        self.asm.jump_to(resume);
    }

    /// Checks the counter of a conditional jump in the middle of a trace, in its direction.
    pub(in super::super) fn predict_in_trace(&mut self, jump: PredictedJump) {
        let expected = if jump.taken { TAKEN } else { 0 };
        let (counter, is_known) = self.find_counter(jump.rip);
        if self.dead_after {
            match is_known {
                true => self.asm.cmp_byte(counter, expected),
                false => self.asm.cmp_counter(counter, expected),
            }
            let hole = self.asm.jump_if(NOT_EQUAL);
            return self.train_later(hole, jump);
        }
        self.asm.mov(S0, RCX);
        match is_known {
            true => self.asm.load_byte_at_to_rcx(counter),
            false => self.asm.load_byte_to_rcx(counter),
        }
        if expected > 0 {
            self.asm.lea(RCX, RCX, -i32::from(expected));
        }
        let certain = self.asm.jump_rcx_zero();
        self.asm.mov(RCX, S0);
        let hole = self.asm.jump();
        self.asm.land(certain);
        self.asm.mov(RCX, S0);
        self.train_later(hole, jump);
    }

    /// Defers the update of a jump's counters, which changes both scratch registers and continues here.
    fn train_later(&mut self, hole: Hole, jump: PredictedJump) {
        self.asm.spoil();
        let resume = self.asm.offset();
        self.put_off(hole, ColdKind::Train { jump, resume });
    }

    /// The counter of the jump at `rip`: its offset, and whether the trace determines it. Otherwise the offset is
    /// relative to S1.
    fn find_counter(&mut self, rip: u64) -> (i32, bool) {
        let FoldedHistory { count, bits } = self.folded;
        let last = bits % (COUNTERS / 2) as u64;
        let counter = at::COUNTERS + (last + counter_term(rip)) as i32;
        let is_known = count as usize >= HISTORY_JUMPS;
        if !is_known {
            self.asm.load(S1, at::HISTORY);
            self.asm.pdep(S1, S1, at::counter_mask(count));
        }
        (counter, is_known)
    }

    /// Loads the history into S1, shifted by the folded jumps.
    fn shifted_history(&mut self) {
        self.asm.load(S1, at::HISTORY);
        if self.folded.count > 0 {
            self.asm.pdep(S1, S1, at::history_mask(self.folded.count));
        }
    }

    /// Loads the history with the folded jumps into S1.
    fn load_history(&mut self) {
        let FoldedHistory { count, bits } = self.folded;
        if count as usize >= HISTORY_BITS {
            return self.asm.mov_imm(S1, bits & u64::from(u32::MAX));
        }
        self.shifted_history();
        if bits != 0 {
            self.asm.lea(S1, S1, bits as i32);
        }
    }

    /// Adds the folded jumps to the history. S1 changes, flags do not.
    pub(in super::super) fn settle_history(&mut self) {
        if self.folded.count > 0 {
            self.load_history();
            self.asm.store(at::HISTORY, S1);
            self.folded = FoldedHistory::default();
        }
    }

    /// Updates the counters of a jump in the middle of a trace, which is left if it was mispredicted.
    fn train_in_trace(&mut self, jump: PredictedJump, next: u64, resume: u32) {
        let PredictedJump { rip, taken, .. } = jump;
        self.asm.store(at::BORROWED, RCX);
        self.asm.load(S1, at::HISTORY);
        self.asm.store(at::TRAIN_HISTORY, S1);
        self.load_history();
        self.asm.store(at::HISTORY, S1);
        self.asm.pext(S1, S1, at::PATH_MASKS[0]);
        self.asm.lea(S1, S1, counter_term(rip) as i32);
        self.asm.load_byte_to_rcx(at::COUNTERS);
        if taken {
            self.asm.lea(RCX, RCX, -i32::from(TAKEN));
        }
        let back = self.asm.address_to_s0();
        self.asm.store(at::TRAIN_BACK, S0);
        self.asm.mov_imm(S0, jump_seed(rip).into());
        self.asm.jump_to(self.shared.train[usize::from(taken)]);
        self.asm.land(back);
        let predicted = self.asm.jump_rcx_zero();
        let wrong = self.asm.jump();
        self.asm.land(predicted);
        self.asm.mov(RCX, S0);
        self.asm.load(S1, at::TRAIN_HISTORY);
        self.asm.store(at::HISTORY, S1);
        let resume = self.asm.address_of(resume);
        self.asm.jump_to(resume);
        self.asm.land(wrong);
        self.asm.mov(RCX, S0);
        self.folded = FoldedHistory::default();
        self.add_direction(taken);
        self.leave_segment(true);
        self.count_misprediction(S1);
        self.jump_to_guest(next);
    }

    /// Adds a conditional jump to the history. S1 changes.
    fn add_direction(&mut self, taken: bool) {
        self.asm.load(S1, at::HISTORY);
        self.asm.lea_sum(S1, S1, S1, i32::from(taken));
        self.asm.store(at::HISTORY, S1);
    }

    /// Records the return address of a call.
    pub(super) fn expect_return_to(&mut self, address: u64) {
        self.asm.load(S1, at::RETURNS_TOP);
        self.asm.lea(S1, S1, 1);
        self.asm.pext(S1, S1, at::PATH_MASKS[2]);
        self.asm.store(at::RETURNS_TOP, S1);
        self.guest_address(S0, address);
        self.asm.store_table8(at::RETURNS, S0);
    }

    /// Compares the target of a return, in S0, with the last call's return address. A mispredicted return `in_trace`
    /// leaves it.
    pub(super) fn predict_return(&mut self, in_trace: bool) {
        self.asm.store(at::BORROWED, RCX);
        self.asm.load(S1, at::RETURNS_TOP);
        self.asm.load_table8(RCX, at::RETURNS);
        self.asm.lea(S1, S1, -1);
        self.asm.pext(S1, S1, at::PATH_MASKS[2]);
        self.asm.store(at::RETURNS_TOP, S1);
        self.distance_from_s0();
        if self.path_slot.is_some() {
            let predicted = self.asm.jump_rcx_zero();
            if in_trace {
                let hole = self.asm.jump();
                self.put_off(hole, ColdKind::WrongReturn);
            } else {
                self.mispredicted(RCX);
            }
            self.asm.land(predicted);
        }
        self.asm.load(RCX, at::BORROWED);
    }

    /// Compares the target of the indirect jump at `rip`, in S0, with its last target.
    pub(super) fn predict_target(&mut self, rip: u64) {
        if self.path_slot.is_none() {
            return;
        }
        self.settle_history();
        self.asm.store(at::BORROWED, RCX);
        self.asm.load(S1, at::HISTORY);
        self.asm.lea(S1, S1, jump_term(rip, TARGETS) as i32);
        self.asm.pext(S1, S1, at::PATH_MASKS[1]);
        self.asm.load_table8(RCX, at::TARGETS);
        self.distance_from_s0();
        let predicted = self.asm.jump_rcx_zero();
        self.asm.store_table8(at::TARGETS, S0);
        self.mispredicted(RCX);
        self.asm.land(predicted);
        self.asm.load(RCX, at::BORROWED);
    }

    /// The block's last jump was mispredicted. `register` is free.
    fn mispredicted(&mut self, register: Reg) {
        let Some(slot) = self.path_slot else {
            return;
        };
        self.asm.load(register, at::path_mispredicted(slot));
        self.asm.store(at::PATH, register);
        self.count_misprediction(register);
    }

    /// Counts a mispredicted jump. `register` is free.
    pub(in super::super) fn count_misprediction(&mut self, register: Reg) {
        self.asm.load(register, at::MISPREDICTIONS);
        self.asm.lea(register, register, 1);
        self.asm.store(at::MISPREDICTIONS, register);
    }

    /// Subtracts RCX from S0 into RCX. Changes no flag.
    fn distance_from_s0(&mut self) {
        self.asm.not(RCX);
        self.asm.lea_sum(RCX, S0, RCX, 1);
    }
}
