//! The entry of a block under a processor model.
//!
//! The block's slot has its ticks after the context with which it was last entered. With another context it leaves, to
//! be entered again when the slot is filled. An instruction that runs by itself is charged by the engine.

use super::super::{ColdKind, Emitter};
use crate::context::path::{PATH_ENTRIES, PathEntry, PathSlot, entry_terms};
use crate::context::{PIECE_SLOT, at};
use crate::guest::mode::Pace;
use crate::host::asm::{Hole, RCX, S0, S1};
use crate::host::exit_stub::ExitStubKind;
use crate::host::shared::Counter;

/// The low nibble of JNE.
const CONDITION_NOT_EQUAL: u8 = 5;

impl Emitter {
    /// Leaves unless the present context is the slot's. Afterwards, live flags are saved. The block begins `again`
    /// at this address when the slot is filled.
    pub(in super::super) fn check_path(&mut self, heat: Option<u32>, flags_dead: bool, again: u64) {
        if self.free {
            return;
        }
        if self.mode.pace == Pace::Piece(0) {
            self.path_slot = Some(PIECE_SLOT);
            return;
        }
        self.path_slot = heat;
        if !flags_dead && !self.flags_kept {
            self.keep_flags();
        }
        let Some(slot) = heat else {
            // Without a slot, it never runs as a whole.
            let hole = self.asm.jump();
            return self.leave_from(hole, ExitStubKind::Path { again }, false);
        };
        self.asm.load(S1, at::PATH);
        self.asm.cmp_slot(S1, at::path_expected(slot));
        let hole = self.asm.jump_if(CONDITION_NOT_EQUAL);
        let resume = self.asm.offset();
        let kind = ColdKind::Path {
            slot,
            resume,
            again,
        };
        self.put_off(hole, kind);
    }

    /// Leaves the trace after its block with the present instruction: refunds later blocks, and makes the context after
    /// the block the present one. Changes no flag, and no register but S1.
    pub(in super::super) fn leave_segment(&mut self, mispredicted: bool) {
        let Some(slot) = self.path_slot else {
            return;
        };
        let number = self.segment();
        let refund = at::segment_refund(number);
        self.asm.load(S1, at::path_segments(slot));
        if self.counter() == Counter::Xmm31 {
            self.asm.add_table_pair_to_xmm31(refund);
        } else {
            self.asm.store(at::BORROWED, RCX);
            for (counter, by) in [(at::COUNT, refund), (at::RETIRED, refund + 8)] {
                self.asm.load_table(RCX, by);
                self.asm.load(S1, counter);
                self.asm.lea_sum(S1, S1, RCX, 0);
                self.asm.store(counter, S1);
                self.asm.load(S1, at::path_segments(slot));
            }
            self.asm.load(RCX, at::BORROWED);
        }
        let end = match mispredicted {
            true => at::segment_mispredicted(number),
            false => at::segment_next(number),
        };
        self.asm.load_table(S1, end);
        self.asm.store(at::PATH, S1);
    }

    /// The last jump of a trace's block was mispredicted, and the trace was left. S1 changes.
    pub(in super::super) fn mispredict_segment(&mut self) {
        let Some(slot) = self.path_slot else {
            return;
        };
        self.asm.load(S1, at::path_segments(slot));
        self.asm
            .load_table(S1, at::segment_mispredicted(self.segment()));
        self.asm.store(at::PATH, S1);
    }

    /// Fills the slot with the content for the present context, which S1 holds, and continues at `resume`. Returns the
    /// jumps for contexts that are not in the table. Flags are dead or saved.
    pub(in super::super) fn other_path(&mut self, slot: u32, resume: u32) -> [Hole; 2] {
        let (factor, term) = entry_terms(slot);
        self.asm.multiply(S0, S1, factor);
        self.asm.lea(S0, S0, term);
        let mask = (PATH_ENTRIES - 1) * size_of::<PathEntry>();
        self.asm.and32(S0, mask as u32);
        self.asm.cmp_entry(S1, at::PATH_ENTRY_EXPECTED);
        let other = self.asm.jump_if(CONDITION_NOT_EQUAL);
        self.asm.cmp_entry_imm32(at::PATH_ENTRY_SLOT, slot);
        let another = self.asm.jump_if(CONDITION_NOT_EQUAL);
        let words = size_of::<PathSlot>() / 8;
        let mut first = 0;
        if self.counter() == Counter::Xmm31 {
            // The charge is added as a whole, so it is copied as a whole.
            self.asm.load_entry_to_xmm30(at::path_entry_word(0));
            self.asm.store_xmm30(at::path_word(slot, 0));
            first = 2;
        }
        for word in first..words {
            self.asm.load_entry(S1, at::path_entry_word(word));
            self.asm.store(at::path_word(slot, word), S1);
        }
        let resume = self.asm.address_of(resume);
        self.asm.jump_to(resume);
        [other, another]
    }

    /// Charges the block, and leaves if the budget does not cover it; otherwise its end is the present context.
    pub(super) fn count_on_path(&mut self, instructions: i32, flags_dead: bool) {
        let Some(slot) = self.path_slot.filter(|&slot| slot != PIECE_SLOT) else {
            // The engine has charged the ticks.
            return match self.counter() {
                Counter::Xmm31 => self.add_pair(0, instructions),
                _ => self.add_in_memory(at::RETIRED, instructions),
            };
        };
        let charge = at::path_charge(slot);
        if self.counter() == Counter::Xmm31 {
            self.asm.add_pair_to_xmm31(charge);
        } else {
            for (counter, by) in [(at::RETIRED, charge + 8), (at::COUNT, charge)] {
                self.asm.load(S0, counter);
                self.asm.load(S1, by);
                self.asm.lea_sum(S1, S0, S1, 0);
                self.asm.store(counter, S1);
            }
        }
        self.leave_if_overdrawn(flags_dead);
        self.asm.load(S1, at::path_next(slot));
        self.asm.store(at::PATH, S1);
    }
}
