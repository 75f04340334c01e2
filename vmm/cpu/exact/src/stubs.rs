//! Code that all translated code shares: the way in, the way out, and the second look for
//! where an indirect jump leads.

use std::mem::offset_of;

use crate::asm::{Asm, RCX, S0, S1};
use crate::cache::CodeMemory;
use crate::context::{Context, EXIT_LOOKUP, at};
use crate::emit::{Counter, Shared};
use crate::pool::Character;

/// Places it at the beginning of `memory`.
pub(crate) fn place(memory: &mut CodeMemory, character: &Character) -> Shared {
    let (counter, priced) = (character.counter, character.prices.is_some());
    let mut asm = Asm::default();
    asm.restart(memory.next());
    let leave = asm.here();
    if counter == Counter::Xmm31 {
        asm.store_xmm31(at::COUNT);
        if priced {
            asm.store_xmm31_high(at::RETIRED);
        }
    }
    asm.jump_slot(offset_of!(Context, leave) as i32);
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
    memory.place(asm.code());
    Shared {
        leave,
        unknown,
        lookup,
        enter,
        counter,
    }
}

/// Goes on at the guest address in S0, by the jump cache of a privilege level.
pub(crate) fn jump_cached(asm: &mut Asm, user: bool) {
    asm.rorx(S1, S0, 12);
    asm.lea_sum(S1, S0, S1, 0);
    asm.pext(S1, S1, at::JUMP_MASKS[0]);
    asm.jump_table8(at::first_jumps(user));
}

/// Code for host address `base` that goes on at guest address `rip` by the jump cache: for a
/// jump that cannot be linked, since what it leads to may be mapped elsewhere next time.
pub(crate) fn bridge(base: u64, rip: u64, user: bool) -> Asm {
    let mut asm = Asm::default();
    asm.restart(base);
    asm.mov_imm(S0, rip);
    jump_cached(&mut asm, user);
    asm
}

/// Code that looks for the RIP in S0 in the second jump cache, and leaves by `unknown`
/// when it is not there.
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
