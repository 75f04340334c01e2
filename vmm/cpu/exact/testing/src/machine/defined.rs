//! Comparison of results that the engine defines itself, and that differ between processors: they count as equal
//! within the bounds in the manuals of both makers.

use iced_x86::{Code, Instruction, Mnemonic as M, OpKind};

use super::{END, Machine, Outcome};

/// True if the engine has its own definition of a result, or of flags, of `instruction`.
pub fn is_defined(instruction: &Instruction) -> bool {
    bound(instruction.mnemonic()).is_some()
        || is_function(instruction.mnemonic())
        || instruction.rflags_undefined() != 0
        || instruction.mnemonic() == M::Shld
        || instruction.mnemonic() == M::Shrd
        || instruction.code() == Code::Bswap_r16
}

/// Replaces values of `found`, the engine's outcome, by the ones of `expected` if an approximation of the instruction
/// is similarly accurate, and clears the undefined flags of `expected`.
pub fn settle_defined(
    instruction: &Instruction,
    start: &Machine,
    found: &mut Outcome,
    expected: &mut Outcome,
) {
    if expected.vector != END || found.vector != END {
        return;
    }
    expected.machine.registers.flags &= !undefined(instruction, start);
    undefined_registers(instruction, expected);
    // `what_words_are_shifted_by` tests its result.
    if is_open_shift(instruction, start) {
        expected.machine = found.machine.clone();
        return;
    }
    if is_function(instruction.mnemonic()) {
        return settle_function(instruction.mnemonic(), start, found, expected);
    }
    let Some((bytes, bound)) = bound(instruction.mnemonic()) else {
        return;
    };
    let number = instruction.op0_register().number();
    let ours = &mut found.machine.registers.vectors[number];
    let theirs = &expected.machine.registers.vectors[number];
    for (ours, theirs) in ours.chunks_exact_mut(bytes).zip(theirs.chunks_exact(bytes)) {
        let (a, b) = (number_of(ours), number_of(theirs));
        // Also for denormals, which some processors round to fewer digits.
        let numbers = a.is_finite() && b.is_finite() && b != 0.0;
        let close = numbers && ((a - b) / b).abs() < 2.0 * bound;
        // Half of a normal number, rounded.
        let tiny = a == 0.0 && b.abs() <= f64::from(f32::MIN_POSITIVE) && a.signum() == b.signum();
        if close || tiny {
            ours.copy_from_slice(theirs);
        }
    }
}

/// BSWAP of 16 bits gives zero, and 32-bit BSF and BSR clear the upper half, even of zero.
fn undefined_registers(instruction: &Instruction, expected: &mut Outcome) {
    let mask = match instruction.code() {
        Code::Bswap_r16 => !0xffff,
        Code::Bsf_r32_rm32 | Code::Bsr_r32_rm32 => 0xffff_ffff,
        _ => return,
    };
    let number = instruction.op0_register().full_register().number();
    expected.machine.registers.gpr[number] &= mask;
}

/// True for SHLD or SHRD of words by more than 16, whose result is undefined.
fn is_open_shift(instruction: &Instruction, start: &Machine) -> bool {
    use Code as C;
    let words = matches!(
        instruction.code(),
        C::Shld_rm16_r16_imm8 | C::Shrd_rm16_r16_imm8 | C::Shld_rm16_r16_CL | C::Shrd_rm16_r16_CL
    );
    words && count(instruction, start) > 16
}

/// The flags that `instruction` leaves undefined for the initial machine, and that the engine sets to zero: as in
/// Intel's manual, except for flags that no processor changes and for AF after logic.
fn undefined(instruction: &Instruction, start: &Machine) -> u64 {
    let [carry, parity, adjust, zero, sign, overflow] =
        [1, 1 << 2, 1 << 4, 1 << 6, 1 << 7, 1 << 11];
    match instruction.mnemonic() {
        M::Shl | M::Shr | M::Sar | M::Sal | M::Shld | M::Shrd => match count(instruction, start) {
            0 => 0,
            1 => adjust,
            _ => adjust | overflow,
        },
        M::Rol | M::Ror | M::Rcl | M::Rcr => match count(instruction, start) {
            0 | 1 => 0,
            _ => overflow,
        },
        M::Mul | M::Imul => sign | zero | adjust | parity,
        M::Div | M::Idiv => carry | parity | adjust | zero | sign | overflow,
        M::Bsf | M::Bsr => carry | parity | adjust | sign | overflow,
        M::Tzcnt | M::Lzcnt => parity | adjust | sign | overflow,
        M::Andn | M::Blsi | M::Blsr | M::Blsmsk | M::Bzhi => adjust | parity,
        M::Bextr => sign | adjust | parity,
        _ => 0,
    }
}

fn count(instruction: &Instruction, start: &Machine) -> u64 {
    let bytes = instruction
        .op0_register()
        .size()
        .max(instruction.memory_size().size());
    let mask = if bytes == 8 { 63 } else { 31 };
    let last = instruction.op_count() - 1;
    let count = match instruction.op_kind(last) {
        OpKind::Register => start.registers.gpr[1],
        _ => instruction.immediate(last),
    };
    count & mask
}

/// True for the x87's functions.
fn is_function(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Fsin | M::Fcos | M::Fsincos | M::Fptan | M::Fpatan | M::F2xm1 | M::Fyl2x | M::Fyl2xp1
    )
}

/// The largest error of processors' functions, in units in the last place.
const ULPS: u128 = 3;

/// The same for the x87's functions: the last bits, and the direction of rounding, C1.
fn settle_function(mnemonic: M, start: &Machine, found: &mut Outcome, expected: &mut Outcome) {
    let top = st(&start.registers.fx.0, 0);
    let (exponent, fraction) = (top >> 64 & 0x7fff, top as u64);
    // Arguments for which manuals leave the result undefined.
    let beyond = match mnemonic {
        M::F2xm1 => exponent > 0x3fff || exponent == 0x3fff && fraction > 1 << 63,
        M::Fyl2xp1 => exponent > 0x3ffd || exponent == 0x3ffd && fraction > 0x95f6_1998_0c43_36f7,
        _ => false,
    };
    if beyond && exponent != 0x7fff {
        expected.machine.registers.fx = found.machine.registers.fx.clone();
        return;
    }
    const C1: u8 = 1 << 1;
    let (ours, theirs) = (
        &mut found.machine.registers.fx.0,
        &expected.machine.registers.fx.0,
    );
    ours[3] = ours[3] & !C1 | theirs[3] & C1;
    for place in 0..2 {
        let at = 32 + 16 * place..42 + 16 * place;
        let (a, b) = (st(ours, place), st(theirs, place));
        if in_order(a).abs_diff(in_order(b)) <= ULPS {
            ours[at.clone()].copy_from_slice(&theirs[at]);
        }
    }
}

/// Register `place` of the stack: sign, exponent and mantissa concatenated.
fn st(image: &[u8; 512], place: usize) -> u128 {
    let mut bytes = [0; 16];
    bytes[..10].copy_from_slice(&image[32 + 16 * place..][..10]);
    u128::from_le_bytes(bytes)
}

/// A register without its integer bit, which follows from the other bits: adjacent numbers differ by one, even across
/// exponents.
fn in_order(register: u128) -> u128 {
    let (above, fraction) = (register >> 64, register as u64);
    above << 63 | u128::from(fraction & !(1 << 63))
}

/// Bytes of an element, and the bound on its relative error.
fn bound(mnemonic: M) -> Option<(usize, f64)> {
    match mnemonic {
        M::Rcpss | M::Rcpps | M::Vrcpss | M::Vrcpps => Some((4, 1.5 / 4096.0)),
        M::Rsqrtss | M::Rsqrtps | M::Vrsqrtss | M::Vrsqrtps => Some((4, 1.5 / 4096.0)),
        M::Vrcp14ss | M::Vrcp14ps | M::Vrsqrt14ss | M::Vrsqrt14ps => Some((4, 1.0 / 16384.0)),
        M::Vrcp14sd | M::Vrcp14pd | M::Vrsqrt14sd | M::Vrsqrt14pd => Some((8, 1.0 / 16384.0)),
        _ => None,
    }
}

fn number_of(bytes: &[u8]) -> f64 {
    match bytes {
        &[a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        _ => f64::from_le_bytes(std::array::from_fn(|at| bytes[at])),
    }
}
