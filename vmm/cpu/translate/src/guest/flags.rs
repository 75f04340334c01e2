//! Which arithmetic flags are live where.
//!
//! The answer follows from the guest's bytes alone and never from how they were translated, as it
//! shows: dead flags read as zero wherever a guest is stopped. `emit` asks for whole blocks,
//! `lookup` for a single RIP at which a run ends.

use iced_x86::{Decoder, Instruction, Mnemonic, RflagsBits};

use crate::guest::analyse::{Class, classify};
use crate::guest::decode::{GuestInstruction, MAX_INSTRUCTIONS, options};
use crate::guest::features::Features;

/// Flags that manuals leave undefined: in this engine they are zero.
pub mod undefined;

use undefined::{ALL_FLAGS, Count};

/// For each instruction: the flags that are dead before it, in iced's bits. A flag is
/// dead where the instructions from here to the block's end overwrite it before any
/// reads it. What follows the block is assumed to read them all.
///
/// Wherever a guest is stopped, its dead flags show as zero. That, and not what
/// translated code left there, is what they are: so code may change them freely where
/// all are dead, and no stop on the way to where they are overwritten tells.
///
/// Processors differ in flags that manuals leave undefined. They are [zero](undefined::zeroed),
/// which code sees to where they are not dead, unless the host's own are asked for.
pub(crate) fn dead_flags(instructions: &[GuestInstruction], host_results: bool) -> Flags {
    let mut flags = Flags {
        dead: vec![0; instructions.len()],
        zeroes: vec![false; instructions.len()],
    };
    let mut live = ALL_FLAGS;
    for (index, guest) in instructions.iter().enumerate().rev() {
        let opaque = guest.class.is_opaque();
        if guest.follow.ends_block() || opaque {
            live = ALL_FLAGS;
        }
        if !opaque && guest.class != Class::Nop {
            let instruction = &guest.instruction;
            flags.zeroes[index] = !host_results && live & undefined::zeroed(instruction) != 0;
            live = (live & !flags_killed(instruction, host_results)) | flags_read(instruction);
        }
        flags.dead[index] = ALL_FLAGS & !live;
    }
    flags
}

/// What is known of flags at the instructions of a block.
#[derive(Debug)]
pub(crate) struct Flags {
    /// Those that are dead before each, in iced's bits.
    pub dead: Vec<u32>,
    /// Whether those that each leaves undefined have to be made zero.
    pub zeroes: Vec<bool>,
}

/// Whether `dead` are all flags.
pub(crate) fn are_all(dead: u32) -> bool {
    dead == ALL_FLAGS
}

/// The flags that are dead at `rip`: what [`dead_flags`] says of the first instruction
/// of the block there, found by looking no further than needed. The first `in_page` of
/// `bytes` are in its page, in which all but a block's first instruction must end.
pub fn dead_at(rip: u64, bytes: &[u8], in_page: usize, features: &Features) -> u32 {
    let mut decoder = Decoder::with_ip(features.size.bits(), bytes, rip, options(features));
    let (mut dead, mut live) = (0, 0);
    for _ in 0..MAX_INSTRUCTIONS {
        if decoder.position() >= in_page || dead | live == ALL_FLAGS {
            break;
        }
        let first = decoder.position() == 0;
        let instruction = decoder.decode();
        let crosses = decoder.position() > in_page;
        if crosses && !first {
            break;
        }
        let class = classify(&instruction, features);
        if class.is_opaque() {
            break;
        }
        if class != Class::Nop {
            live |= flags_read(&instruction) & !dead;
            dead |= flags_killed(&instruction, features.host_results) & !live;
        }
        if crosses || class.ends_block() {
            break;
        }
    }
    dead
}

/// Flags in iced's bits as bits of RFLAGS.
#[inline]
pub fn to_rflags(flags: u32) -> u64 {
    [
        (RflagsBits::CF, 0),
        (RflagsBits::PF, 2),
        (RflagsBits::AF, 4),
        (RflagsBits::ZF, 6),
        (RflagsBits::SF, 7),
        (RflagsBits::OF, 11),
    ]
    .iter()
    .filter(|(bit, _)| flags & bit != 0)
    .map(|(_, position)| 1 << position)
    .sum()
}

/// Flags that an instruction replaces whatever its operands, those among them that it leaves
/// undefined and that are made zero, or that are so by themselves: AF after AND, OR, XOR and TEST. The
/// host's own undefined flags are often left as they were, and so count as kept. A shift or rotate
/// by a count of zero leaves all flags, so one by CL replaces none.
fn flags_killed(instruction: &Instruction, host_results: bool) -> u32 {
    if undefined::shifts(instruction.mnemonic())
        && !matches!(undefined::count(instruction), Count::Known(1..))
    {
        return 0;
    }
    let defined =
        instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set();
    let undefined = if is_logic(instruction.mnemonic()) {
        instruction.rflags_undefined()
    } else if host_results {
        0
    } else {
        undefined::zeroed(instruction)
    };
    (defined | undefined) & ALL_FLAGS
}

/// Whether an instruction clears AF on every processor, though manuals don't say so.
fn is_logic(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test
    )
}

/// Arithmetic flags that an instruction reads. A rotate through the carry counts as
/// reading it even where a full round leaves the operand as it was, as processors
/// compute the overflow flag, which is undefined then, from the carry.
fn flags_read(instruction: &Instruction) -> u32 {
    let through_carry = matches!(instruction.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr);
    let carry = if through_carry { RflagsBits::CF } else { 0 };
    (instruction.rflags_read() | carry) & ALL_FLAGS
}

/// Whether an instruction neither reads arithmetic flags nor changes any flag.
pub(crate) fn names_no_flag(instruction: &Instruction) -> bool {
    flags_read(instruction) | instruction.rflags_modified() == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_cpu::InstructionSet;

    fn live(code: &[u8]) -> u64 {
        let features = Features::new(&InstructionSet::default());
        to_rflags(ALL_FLAGS & !dead_at(0, code, code.len(), &features))
    }

    #[test]
    fn what_is_overwritten_unread_is_dead_flag_by_flag() {
        // inc eax; cmc; shl eax, 1
        assert_eq!(live(&[0xff, 0xc0, 0xf5, 0xd1, 0xe0]), 1);
        // add eax, eax
        assert_eq!(live(&[0x01, 0xc0]), 0);
        // A shift by CL may leave all flags; one by 32 leaves them for sure.
        assert_eq!(live(&[0xd3, 0xe0, 0xf4]), 0x8d5);
        assert_eq!(live(&[0xc1, 0xe0, 0x20, 0xf4]), 0x8d5);
        // What the dispatcher may carry out counts as reading all: rep stosb, or cld, before
        // the addition.
        assert_eq!(live(&[0xf3, 0xaa, 0x01, 0xc0]), 0x8d5);
        assert_eq!(live(&[0xfc, 0x01, 0xc0]), 0x8d5);
        // imul eax, ecx, and what a processor leaves of its flags, is overwritten by the addition.
        assert_eq!(live(&[0x0f, 0xaf, 0xc1, 0xf4]), 0);
        // bt eax, 3 leaves all but the carry as they are.
        assert_eq!(live(&[0x0f, 0xba, 0xe0, 3, 0xf4]), 0x8d4);
        // rcl byte [rbx], 27: three full rounds through the carry; btc r13, 0.
        let rounds = [0xc0, 0x13, 27, 0x49, 0x0f, 0xba, 0xfd, 0];
        assert_eq!(live(&rounds), 0xd5);
    }
}
