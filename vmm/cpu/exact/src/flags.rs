//! Which arithmetic flags are live where.

use iced_x86::{Decoder, Instruction, Mnemonic, OpKind, RflagsBits};

use crate::analyse::{Class, classify};
use crate::decode::{GuestInstruction, MAX_INSTRUCTIONS, options};
use crate::features::Features;

/// The arithmetic flags in iced's bits.
const ALL_FLAGS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// For each instruction: whether all arithmetic flags are dead before it, that is,
/// whether the instructions from here to the block's end overwrite every one of
/// them before any reads it. What follows the block is assumed to read them all.
pub(crate) fn flags_dead(instructions: &[GuestInstruction]) -> Vec<bool> {
    let mut dead = vec![false; instructions.len()];
    let mut live = ALL_FLAGS;
    for (index, guest) in instructions.iter().enumerate().rev() {
        if matches!(guest.class, Class::Helper | Class::Fault(_)) {
            live = ALL_FLAGS;
        } else if guest.class != Class::Nop {
            live = (live & !flags_killed(&guest.instruction))
                | (guest.instruction.rflags_read() & ALL_FLAGS);
        }
        dead[index] = live == 0;
    }
    dead
}

/// Whether all arithmetic flags are dead at `rip`, whose bytes up to the page's
/// end are `bytes`: what [`flags_dead`] says of the first instruction of the block
/// there, found by looking no further than needed.
pub(crate) fn dead_at(rip: u64, bytes: &[u8], features: &Features) -> bool {
    let mut decoder = Decoder::with_ip(features.size.bits(), bytes, rip, options(features));
    let mut overwritten = 0;
    for _ in 0..MAX_INSTRUCTIONS {
        if !decoder.can_decode() {
            return false;
        }
        let instruction = decoder.decode();
        let class = classify(&instruction, features);
        if matches!(class, Class::Helper | Class::Fault(_)) {
            return false;
        }
        if class != Class::Nop {
            if instruction.rflags_read() & ALL_FLAGS & !overwritten != 0 {
                return false;
            }
            overwritten |= flags_killed(&instruction);
        }
        if overwritten == ALL_FLAGS {
            return true;
        }
        if class.ends_block() {
            return false;
        }
    }
    false
}

/// Flags that an instruction replaces whatever its operands. A flag that is left
/// undefined is often left as it was, and so counts as kept, but for AF behind
/// AND, OR, XOR and TEST, which processors clear. A shift or rotate by
/// a count of zero leaves them all, so one by CL replaces none.
fn flags_killed(instruction: &Instruction) -> u32 {
    let counted = matches!(
        instruction.mnemonic(),
        Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Sal
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
            | Mnemonic::Shld
            | Mnemonic::Shrd
    );
    if counted && !has_nonzero_count(instruction) {
        return 0;
    }
    let defined =
        instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set();
    let logic = matches!(
        instruction.mnemonic(),
        Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test
    );
    let undefined = if logic {
        instruction.rflags_undefined()
    } else {
        0
    };
    (defined | undefined) & ALL_FLAGS
}

fn has_nonzero_count(instruction: &Instruction) -> bool {
    let last = instruction.op_count() - 1;
    instruction.op_kind(last) == OpKind::Immediate8 && {
        let mask =
            if instruction.op0_register().size() == 8 || instruction.memory_size().size() == 8 {
                63
            } else {
                31
            };
        instruction.immediate8() & mask != 0
    }
}
