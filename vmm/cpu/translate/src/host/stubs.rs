//! Code that all translated code shares: the entry, the exit, and the second lookup of an indirect
//! jump's target.
//!
//! It is at the beginning of each code memory and is never overwritten while there is a block. `store`
//! and `pool` place it when they are created; blocks jump to it by the addresses in `SharedCode`.

use std::mem::offset_of;

use belljar_cpu::PAGE_SIZE;

use crate::context::jumps::first_index;
use crate::context::{Context, EXIT_LOOKUP, at};
use crate::host::asm::{Asm, RAX, RCX, S0, S1};
use crate::host::cache::CodeMemory;
use crate::host::shared::{Character, Counter, SharedCode};

/// Updates of counters of conditional jumps.
mod train;

/// Places it at the beginning of `memory`.
pub fn place(memory: &mut CodeMemory, character: &Character) -> SharedCode {
    let counter = character.counter;
    let priced = character.prices.is_some() || character.follows_path;
    let mut asm = Asm::default();
    asm.restart(memory.next());
    let leave_kept = asm.here();
    give_kept_flags(&mut asm);
    let leave = asm.here();
    if counter == Counter::Xmm31 {
        asm.store_xmm31(at::COUNT);
        if priced {
            asm.store_xmm31_high(at::RETIRED);
        }
    }
    // The code being left may be of either kind, because a signal may cause the exit.
    asm.jump_slot(offset_of!(Context, settle) as i32);
    let store = asm.here();
    asm.store_mm7(at::COUNT);
    asm.jump_slot(offset_of!(Context, leave) as i32);
    let load = asm.here();
    asm.load_mm7(at::COUNT);
    asm.jump_slot(offset_of!(Context, resume) as i32);
    let enter = asm.here();
    if counter == Counter::Xmm31 {
        asm.load_xmm31(at::COUNT);
        if priced {
            asm.load_xmm31_high(at::RETIRED);
        }
    }
    asm.jump_slot(offset_of!(Context, resume) as i32);
    let unknown = asm.here();
    asm.store_imm32(at::EXIT_SITE, EXIT_LOOKUP);
    asm.jump_to(leave);
    let lookup = [false, true].map(|user| second_look(&mut asm, user, unknown));
    let train = [false, true].map(|taken| train::place(&mut asm, taken));
    memory.place(asm.code());
    SharedCode {
        train,
        leave,
        leave_kept,
        unknown,
        lookup,
        enter,
        apart: [load, store],
        counter,
    }
}

/// Restores saved flags. Clobbers no register.
fn give_kept_flags(asm: &mut Asm) {
    asm.store(at::BORROWED, RAX);
    asm.load(RAX, at::KEPT_FLAGS);
    asm.flags_from_ax();
    asm.load(RAX, at::BORROWED);
}

/// Continues at the guest address in S0, through the jump cache of a privilege level.
pub(crate) fn jump_cached(asm: &mut Asm, user: bool) {
    asm.rorx(S1, S0, 12);
    asm.lea_sum(S1, S0, S1, 0);
    asm.pext(S1, S1, at::JUMP_MASKS[0]);
    asm.jump_table8(at::first_jumps(user));
}

/// Continues at guest address `rip`, through the jump cache of a privilege level.
pub(crate) fn jump_cached_to(asm: &mut Asm, rip: u64, user: bool) {
    asm.mov_imm(S0, rip);
    asm.jump_slot(at::first_jumps(user) + first_index(rip) as i32 * 8);
}

/// Code for host address `base` that continues at guest address `rip` through the jump cache: for a
/// jump that cannot be linked, since its target may be mapped elsewhere next time.
pub fn bridge(base: u64, rip: u64, user: bool) -> Asm {
    let mut asm = Asm::default();
    asm.restart(base);
    jump_cached_to(&mut asm, rip, user);
    asm
}

/// The same for relative code, to `offset` in its page.
pub fn bridge_within(base: u64, offset: u64, user: bool) -> Asm {
    let mut asm = Asm::default();
    asm.restart(base);
    asm.load(S0, at::CODE_PAGE);
    asm.lea(S0, S0, offset as i32);
    jump_cached(&mut asm, user);
    asm
}

/// Sets RCX to the difference of S0 and `address`. S1 keeps the old RCX. Changes no flag.
pub(crate) fn distance_to_rcx(asm: &mut Asm, address: u64) {
    asm.mov(S1, RCX);
    let negative = address.wrapping_neg();
    match i32::try_from(negative as i64) {
        Ok(short) => asm.lea(RCX, S0, short),
        Err(_) => {
            asm.mov_imm(RCX, negative);
            asm.lea_sum(RCX, S0, RCX, 0);
        }
    }
}

/// Continues only if S0 is `rip`, otherwise at `lookup`. Keeps the flags: they may be live in the block
/// that is the real target.
pub(crate) fn verify_target(asm: &mut Asm, rip: u64, lookup: u64) {
    distance_to_rcx(asm, rip);
    let same = asm.jump_rcx_zero();
    asm.mov(RCX, S1);
    asm.jump_to(lookup);
    asm.land(same);
    asm.mov(RCX, S1);
}

/// Bytes of `jmp [rip + ...]`.
const JUMP_THROUGH_BYTES: u64 = 6;

/// The entry of relative code at `rip`; see [`Mode::relative`](crate::guest::mode::Mode::relative).
pub struct EntryThunk {
    /// Its code.
    pub asm: Asm,
    /// Host address of the entry without a check of the RIP.
    pub entry: u64,
}

/// Bytes from an entry thunk's entry to the `rel32` that leads to the block, initially to `unknown`.
pub const THUNK_HOLE: u64 = 10 + 9 + 1;
/// The same for a wide entry thunk, to the word with the address of the block.
pub const WIDE_THUNK_HOLE: u64 = 10 + 9 + 6;

/// Code for host address `base` that sets the running page for `rip`, and jumps to relative code. A `wide`
/// one jumps through a word after it, to any distance.
pub fn entry_thunk(base: u64, rip: u64, lookup: u64, unknown: u64, wide: bool) -> EntryThunk {
    let mut asm = Asm::default();
    asm.restart(base);
    verify_target(&mut asm, rip, lookup);
    let entry = asm.here();
    asm.mov_imm(S1, rip & !(PAGE_SIZE - 1));
    asm.store(at::CODE_PAGE, S1);
    if wide {
        asm.jump_through(asm.here() + JUMP_THROUGH_BYTES);
        debug_assert_eq!(asm.here(), entry + WIDE_THUNK_HOLE);
        asm.bytes(&unknown.to_le_bytes());
    } else {
        asm.jump_to(unknown);
        debug_assert_eq!(asm.here() - 4, entry + THUNK_HOLE);
    }
    EntryThunk { asm, entry }
}

/// Code that looks up the RIP in S0 in the second jump cache, and jumps to `unknown` on a miss.
fn second_look(asm: &mut Asm, user: bool, unknown: u64) -> u64 {
    let here = asm.here();
    asm.store(at::BORROWED, RCX);
    asm.rorx(S1, S0, 12);
    asm.lea_full(S1, Some(S0), Some((S1, 8)), 0, false);
    asm.pext(S1, S1, at::JUMP_MASKS[1]);
    asm.load_table8(RCX, at::second_negated(user));
    asm.lea_sum(RCX, RCX, S0, 0);
    let found = asm.jump_rcx_zero();
    asm.load(RCX, at::BORROWED);
    asm.jump_to(unknown);
    asm.land(found);
    asm.load(RCX, at::BORROWED);
    asm.jump_table8(at::second_jumps(user));
    here
}
