//! What the engine defines by itself, and processors do each in their own way: the comparison
//! takes it for the same within what the manuals of both makers allow.

use iced_x86::{Instruction, Mnemonic as M};

use super::Outcome;

/// Makes `found`, which the engine left, like `expected` where an approximation of the
/// instruction is about as good.
pub(crate) fn settle_defined(instruction: &Instruction, found: &mut Outcome, expected: &Outcome) {
    let Some((bytes, bound)) = bound(instruction.mnemonic()) else {
        return;
    };
    if found.vector != expected.vector || found.rip != expected.rip {
        return;
    }
    let number = instruction.op0_register().number();
    let ours = &mut found.machine.registers.vectors[number];
    let theirs = &expected.machine.registers.vectors[number];
    for (ours, theirs) in ours
        .chunks_exact_mut(bytes)
        .zip(theirs.chunks_exact(bytes))
    {
        let (a, b) = (number_of(ours), number_of(theirs));
        let close = a.is_normal() && b.is_normal() && ((a - b) / b).abs() < 2.0 * bound;
        // Half of what is normal, rounded.
        let tiny = a == 0.0 && b.abs() <= f64::from(f32::MIN_POSITIVE) && a.signum() == b.signum();
        if close || tiny {
            ours.copy_from_slice(theirs);
        }
    }
}

/// Bytes of an element, and how large its relative error may be.
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
