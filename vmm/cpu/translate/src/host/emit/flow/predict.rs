//! Updates of branch predictors at jumps, under a processor model.
//!
//! A mispredicted jump changes the present context to the slot's other one. No update changes flags, which may be live
//! after the jump. Scratch registers and RCX are used.

use super::super::{ColdKind, Emitter};
use crate::context::at;
use crate::context::path::{COUNTERS, TAKEN, TARGETS, jump_seed, jump_term};
use crate::host::asm::{RCX, Reg, S0, S1};

impl Emitter {
    /// Updates the counter of the conditional jump at `rip`, in code that runs if it is `taken` or if it is not.
    pub(super) fn predict_jump(&mut self, slot: u32, rip: u64, taken: bool) {
        self.asm.load(S1, at::HISTORY);
        self.asm.lea(S1, S1, jump_term(rip, COUNTERS) as i32);
        self.asm.pext(S1, S1, at::PATH_MASKS[0]);
        self.asm.mov(S0, RCX);
        self.asm.load_byte_to_rcx(at::COUNTERS);
        if taken {
            self.asm.lea(RCX, RCX, -i32::from(TAKEN));
        }
        let certain = self.asm.jump_rcx_zero();
        let hole = self.asm.jump();
        self.asm.land(certain);
        let resume = self.asm.offset();
        let kind = ColdKind::Train {
            slot,
            rip,
            taken,
            resume,
        };
        self.put_off(hole, kind);
        self.asm.mov(RCX, S0);
        self.asm.load(S1, at::HISTORY);
        self.asm.lea_sum(S1, S1, S1, i32::from(taken));
        self.asm.store(at::HISTORY, S1);
    }

    /// Updates the counters of the jump at `rip`, the first of which does not have its highest value for this
    /// direction. S1 is its index; RCX is its value, less the highest one if the jump is `taken`.
    pub(in super::super) fn train(&mut self, slot: u32, rip: u64, taken: bool, resume: u32) {
        self.asm.store(at::BORROWED, S0);
        let back = self.asm.address_to_s0();
        self.asm.store(at::TRAIN_BACK, S0);
        self.asm.mov_imm(S0, jump_seed(rip).into());
        self.asm.jump_to(self.shared.train[usize::from(taken)]);
        self.asm.land(back);
        let predicted = self.asm.jump_rcx_zero();
        self.mispredicted(slot, S1);
        self.asm.land(predicted);
        let resume = self.asm.address_of(resume);
        self.asm.jump_to(resume);
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

    /// Compares the target of a return, in S0, with the last call's return address.
    pub(super) fn predict_return(&mut self) {
        self.asm.store(at::BORROWED, RCX);
        self.asm.load(S1, at::RETURNS_TOP);
        self.asm.load_table8(RCX, at::RETURNS);
        self.asm.lea(S1, S1, -1);
        self.asm.pext(S1, S1, at::PATH_MASKS[2]);
        self.asm.store(at::RETURNS_TOP, S1);
        self.distance_from_s0();
        if let Some(slot) = self.path_slot {
            let predicted = self.asm.jump_rcx_zero();
            self.mispredicted(slot, RCX);
            self.asm.land(predicted);
        }
        self.asm.load(RCX, at::BORROWED);
    }

    /// Compares the target of the indirect jump at `rip`, in S0, with its last target.
    pub(super) fn predict_target(&mut self, rip: u64) {
        let Some(slot) = self.path_slot else {
            return;
        };
        self.asm.store(at::BORROWED, RCX);
        self.asm.load(S1, at::HISTORY);
        self.asm.lea(S1, S1, jump_term(rip, TARGETS) as i32);
        self.asm.pext(S1, S1, at::PATH_MASKS[1]);
        self.asm.load_table8(RCX, at::TARGETS);
        self.distance_from_s0();
        let predicted = self.asm.jump_rcx_zero();
        self.asm.store_table8(at::TARGETS, S0);
        self.mispredicted(slot, RCX);
        self.asm.land(predicted);
        self.asm.load(RCX, at::BORROWED);
    }

    /// The block's last jump was mispredicted. `register` is free.
    fn mispredicted(&mut self, slot: u32, register: Reg) {
        self.asm.load(register, at::path_mispredicted(slot));
        self.asm.store(at::PATH, register);
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
