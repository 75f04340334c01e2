//! Liveness of arithmetic flags.
//!
//! Liveness follows from the guest's bytes alone, and never from their translation, because it is
//! visible: dead flags read as zero at any stop of a guest. `emit` queries it for whole blocks,
//! `lookup` for a single RIP at which a run ends.

use iced_x86::{Decoder, Instruction, Mnemonic, RflagsBits};

use crate::guest::analyse::{InstructionClass, classify};
use crate::guest::decode::{GuestInstruction, MAX_INSTRUCTIONS, options};
use crate::guest::features::Features;

/// Flags that manuals leave undefined: this engine sets them to zero.
pub mod undefined;

use undefined::{ALL_FLAGS, Count};

/// For each instruction, the flags that are dead before it, in iced's bits. A flag is dead if the
/// instructions from here to the block's end overwrite it before reading it. Code after the block is
/// assumed to read them all.
///
/// At any stop of a guest, its dead flags read as zero. That is their value by definition, regardless
/// of the bits that translated code left: so code may change flags freely where all are dead, without
/// a visible effect at any stop before they are overwritten.
///
/// Processors differ in flags that manuals leave undefined. If such flags are live, code makes them
/// [zero](undefined::zeroed), unless the host's own results are requested.
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
        if !opaque && guest.class != InstructionClass::Nop {
            let instruction = &guest.instruction;
            flags.zeroes[index] = !host_results && live & undefined::zeroed(instruction) != 0;
            live = (live & !flags_killed(instruction, host_results)) | flags_read(instruction);
        }
        flags.dead[index] = ALL_FLAGS & !live;
    }
    flags
}

/// Flag analysis of a block's instructions.
#[derive(Debug)]
pub(crate) struct Flags {
    /// The flags that are dead before each instruction, in iced's bits.
    pub dead: Vec<u32>,
    /// True if the flags that the instruction leaves undefined must be set to zero.
    pub zeroes: Vec<bool>,
}

/// True if `dead` contains all flags.
pub(crate) fn are_all(dead: u32) -> bool {
    dead == ALL_FLAGS
}

/// The flags that are dead at `rip`, equal to [`dead_flags`] of the first instruction of the block
/// there, but decoding no further than needed. The first `in_page` of `bytes` are in its page, in
/// which all but a block's first instruction must end.
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
        if class != InstructionClass::Nop {
            live |= flags_read(&instruction) & !dead;
            dead |= flags_killed(&instruction, features.host_results) & !live;
        }
        if crosses || class.ends_block() {
            break;
        }
    }
    dead
}

/// Converts flags in iced's bits to bits of RFLAGS.
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

/// Flags that an instruction replaces regardless of its operands. Undefined ones among them count if
/// they are set to zero, or always become zero: AF after AND, OR, XOR and TEST. The host's own
/// undefined flags are often unchanged, and so count as kept. A shift or rotate by a count of zero
/// leaves all flags, so one by CL replaces no flag.
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

/// True if an instruction clears AF on every processor, though manuals do not define it.
fn is_logic(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test
    )
}

/// Arithmetic flags that an instruction reads. A rotate through the carry counts as reading it even if
/// a full round restores the operand: processors compute the overflow flag, which is undefined then,
/// from the carry.
fn flags_read(instruction: &Instruction) -> u32 {
    let through_carry = matches!(instruction.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr);
    let carry = if through_carry { RflagsBits::CF } else { 0 };
    (instruction.rflags_read() | carry) & ALL_FLAGS
}

/// True if an instruction neither reads arithmetic flags nor changes any flag.
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
        // A shift by CL may keep all flags; one by 32 always keeps them.
        assert_eq!(live(&[0xd3, 0xe0, 0xf4]), 0x8d5);
        assert_eq!(live(&[0xc1, 0xe0, 0x20, 0xf4]), 0x8d5);
        // Instructions that the dispatcher may execute count as reading all flags: rep stosb, or cld,
        // before the addition.
        assert_eq!(live(&[0xf3, 0xaa, 0x01, 0xc0]), 0x8d5);
        assert_eq!(live(&[0xfc, 0x01, 0xc0]), 0x8d5);
        // imul eax, ecx; the addition overwrites all flags, including the undefined ones.
        assert_eq!(live(&[0x0f, 0xaf, 0xc1, 0xf4]), 0);
        // bt eax, 3 keeps all flags but the carry.
        assert_eq!(live(&[0x0f, 0xba, 0xe0, 3, 0xf4]), 0x8d4);
        // rcl byte [rbx], 27: three full rounds through the carry; btc r13, 0.
        let rounds = [0xc0, 0x13, 27, 0x49, 0x0f, 0xba, 0xfd, 0];
        assert_eq!(live(&rounds), 0xd5);
    }
}
