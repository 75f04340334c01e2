//! Unspecified results at exceptions: flags that code overwrites before it reads them, as the tests
//! see it, and the order of two operands' faults.

use iced_x86::{Decoder, FlowControl, Instruction, Mnemonic as M, RflagsBits as F};

use super::{ARITHMETIC, CODE_AT, END, Outcome};

/// A block's longest straight run.
const LONGEST: usize = 64;

/// The flags that may read as zero at the end of `code`: only after exceptions.
pub fn open_flags(code: &[u8], outcome: &Outcome) -> u64 {
    if outcome.vector == END {
        0
    } else {
        overwritten(code, outcome.rip)
    }
}

/// The arithmetic flags that straight code from `rip` on overwrites, or may leave undefined, before
/// reading them: these may read as zero at a stop at `rip`. All others must match the processor's.
fn overwritten(code: &[u8], rip: u64) -> u64 {
    let Some(rest) = rip
        .checked_sub(CODE_AT)
        .and_then(|offset| code.get(offset as usize..))
    else {
        return 0;
    };
    let (mut gone, mut read) = (0, 0);
    for instruction in Decoder::with_ip(64, rest, rip, 0).iter().take(LONGEST) {
        if instruction.is_invalid() {
            break;
        }
        read |= reads(&instruction) & !gone;
        gone |= replaces(&instruction) & !read;
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
    }
    bits(gone) & ARITHMETIC
}

/// Equalises exceptions of a comparison of two unmapped strings: some processors access the first
/// operand first, some the second.
pub fn settle_order(code: &[u8], found: &mut Outcome, expected: &Outcome) {
    let at = expected.rip.wrapping_sub(CODE_AT) as usize;
    let Some(rest) = code.get(at..) else {
        return;
    };
    let mnemonic = Decoder::new(64, rest, 0).decode().mnemonic();
    let compares = matches!(mnemonic, M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq);
    let absent = |outcome: &Outcome| matches!(outcome.vector, 12..=14);
    if compares && found.rip == expected.rip && absent(found) && absent(expected) {
        found.vector = expected.vector;
        found.error = expected.error;
        found.address = expected.address;
    }
}

fn reads(instruction: &Instruction) -> u32 {
    let rotates = matches!(instruction.mnemonic(), M::Rcl | M::Rcr);
    instruction.rflags_read() | if rotates { F::CF } else { 0 }
}

/// A count in CL may be zero, and then no flag is replaced.
fn replaces(instruction: &Instruction) -> u32 {
    let shifts = matches!(
        instruction.mnemonic(),
        M::Shl | M::Shr | M::Sar | M::Sal | M::Rol | M::Ror | M::Rcl | M::Rcr | M::Shld | M::Shrd
    );
    let last = instruction.op_count().saturating_sub(1);
    if shifts && instruction.try_immediate(last).is_err() {
        return 0;
    }
    if shifts
        && instruction
            .try_immediate(last)
            .is_ok_and(|count| count & 0x1f == 0)
    {
        // By 32, a 64-bit operand is shifted, and others are not.
        let wide = instruction.op0_register().size() == 8 || instruction.memory_size().size() == 8;
        if !wide
            || instruction
                .try_immediate(last)
                .is_ok_and(|count| count & 0x3f == 0)
        {
            return 0;
        }
    }
    instruction.rflags_written()
        | instruction.rflags_cleared()
        | instruction.rflags_set()
        | instruction.rflags_undefined()
}

fn bits(flags: u32) -> u64 {
    let places = [
        (F::CF, 0),
        (F::PF, 2),
        (F::AF, 4),
        (F::ZF, 6),
        (F::SF, 7),
        (F::OF, 11),
    ];
    let set = places.iter().filter(|(flag, _)| flags & flag != 0);
    set.map(|(_, place)| 1 << place).sum()
}
