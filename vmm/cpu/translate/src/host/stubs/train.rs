//! Updates of the counters of a conditional jump, under a processor model.
//!
//! Jumps whose counter does not expect their direction with certainty come here, once for each direction, as do those
//! whose counter is marked: a counter that is tagged with a longer history may predict them otherwise. A tagged
//! counter predicts unless it is new; without one, the jump's own counter does. A jump that is mispredicted without
//! one takes a tagged counter. `emit/flow/predict` jumps here.

use crate::context::at;
use crate::context::path::{MARKED, TAGGED, TAKEN};
use crate::host::asm::{Asm, Hole, RAX, RCX, S0, S1};

/// Low nibbles of conditional jumps.
const BELOW: u8 = 2;
const NOT_BELOW: u8 = 3;
const EQUAL: u8 = 4;
const NOT_EQUAL: u8 = 5;
/// The lowest tagged counter of a jump that is taken, and the highest one.
const TAGGED_TAKEN: u8 = 4;
const TAGGED_MOST: u8 = 7;
const MOST_USEFUL: u8 = 3;
/// The lowest counter without a tag of a jump that is taken.
const COUNTER_TAKEN: i32 = 2;

/// Places the update for jumps that are `taken` or not. At its beginning, S0 is the jump's seed, S1 the index of its
/// counter, and RCX the counter, less the highest one if it is taken. It continues at `TRAIN_BACK` with RCX zero if the
/// jump was predicted, and S0 the guest's RCX, which was in `BORROWED`. S1 and RCX change, flags do not.
pub(super) fn place(asm: &mut Asm, taken: bool) -> u64 {
    let here = asm.here();
    asm.store(at::TRAIN_RAX, RAX);
    asm.flags_to_ax();
    asm.store(at::KEPT_FLAGS, RAX);
    asm.store(at::TRAIN_INDEX, S1);
    if taken {
        asm.lea(RCX, RCX, TAKEN.into());
    }
    asm.mov(RAX, RCX);
    asm.and32(RAX, TAKEN.into());
    asm.cmp(RAX, if taken { TAKEN.into() } else { 0 });
    let last = asm.jump_if(EQUAL);
    asm.step_counter(at::COUNTERS, taken);
    asm.land(last);
    // RAX becomes zero if the counter without a tag predicted the jump.
    asm.cmp(RAX, COUNTER_TAKEN);
    asm.spread_carry_to_rax();
    if !taken {
        asm.not(RAX);
    }
    asm.hash_to_s0(at::HISTORY);
    asm.mov32(S1, S0);
    asm.and32(S1, TAGGED as u32 - 1);
    asm.cmp_tagged_s0(at::TAGS);
    let missing = asm.jump_if(NOT_EQUAL);
    let done = place_hit(asm, taken);
    asm.land(missing);
    place_miss(asm, taken);
    for hole in done {
        asm.land(hole);
    }
    asm.load(RAX, at::KEPT_FLAGS);
    asm.flags_from_ax();
    asm.load(RAX, at::TRAIN_RAX);
    asm.load(S0, at::BORROWED);
    asm.jump_slot(at::TRAIN_BACK);
    here
}

/// The update of a tagged counter. Returns the jumps to the end.
fn place_hit(asm: &mut Asm, taken: bool) -> [Hole; 4] {
    asm.load_tagged_to_rcx(at::TAGGED_COUNTERS);
    asm.cmp(RCX, TAGGED_TAKEN.into());
    let wrong = asm.jump_if(if taken { BELOW } else { NOT_BELOW });
    let new = place_new(asm, taken, true);
    asm.cmp(RCX, if taken { TAGGED_MOST.into() } else { 0 });
    let last = asm.jump_if(EQUAL);
    asm.step_tagged(at::TAGGED_COUNTERS, taken);
    asm.land(last);
    // It was more useful if the other counter was wrong.
    asm.cmp(RAX, 0);
    let unneeded = asm.jump_if(EQUAL);
    asm.cmp_tagged(at::USEFUL, MOST_USEFUL);
    let most = asm.jump_if(EQUAL);
    asm.step_tagged(at::USEFUL, true);
    asm.land(unneeded);
    asm.land(most);
    asm.mov_imm(RCX, 0);
    let right = asm.jump();
    asm.land(wrong);
    let new_and_wrong = place_new(asm, taken, false);
    asm.step_tagged(at::TAGGED_COUNTERS, taken);
    asm.cmp(RAX, 0);
    let both = asm.jump_if(NOT_EQUAL);
    asm.cmp_tagged(at::USEFUL, 0);
    let least = asm.jump_if(EQUAL);
    asm.step_tagged(at::USEFUL, false);
    asm.land(both);
    asm.land(least);
    asm.mov_imm(RCX, 1);
    [new, right, new_and_wrong, asm.jump()]
}

/// Leaves the prediction to the other counter if the tagged one, which is in RCX, is new; it is `right` or wrong.
/// Returns the jump to the end.
fn place_new(asm: &mut Asm, taken: bool, right: bool) -> Hole {
    let weak = TAGGED_TAKEN - u8::from(taken != right);
    asm.cmp(RCX, weak.into());
    let strong = asm.jump_if(NOT_EQUAL);
    asm.cmp_tagged(at::USEFUL, 0);
    let useful = asm.jump_if(NOT_EQUAL);
    asm.step_tagged(at::TAGGED_COUNTERS, taken);
    asm.mov(RCX, RAX);
    if right {
        let both = asm.jump_rcx_zero();
        asm.step_tagged(at::USEFUL, true);
        asm.land(both);
    }
    let end = asm.jump();
    asm.land(strong);
    asm.land(useful);
    end
}

/// A jump without a tagged counter, which takes one if it was mispredicted.
fn place_miss(asm: &mut Asm, taken: bool) {
    asm.mov(RCX, RAX);
    let predicted = asm.jump_rcx_zero();
    asm.cmp_tagged(at::USEFUL, 0);
    let free = asm.jump_if(EQUAL);
    asm.step_tagged(at::USEFUL, false);
    let kept = asm.jump();
    asm.land(free);
    asm.store_tagged_s0(at::TAGS);
    asm.store_tagged(at::TAGGED_COUNTERS, TAGGED_TAKEN - u8::from(!taken));
    asm.load(S1, at::TRAIN_INDEX);
    asm.mark_counter(at::COUNTERS, MARKED);
    let marked = asm.jump();
    asm.land(predicted);
    asm.load(S1, at::TRAIN_INDEX);
    asm.clear_counter(at::COUNTERS, TAKEN);
    asm.land(kept);
    asm.land(marked);
}
